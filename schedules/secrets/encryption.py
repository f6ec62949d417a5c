"""Encryption of stored texts, with a key derived from Django's SECRET_KEY; its fallbacks can still decrypt."""

import base64
import json
from functools import cache
from importlib import import_module
from typing import Any

from django.conf import settings
from django.utils.crypto import salted_hmac
from django.utils.encoding import force_bytes

_PURPOSE = b"schedules.secrets.encryption"


class UnreadableError(Exception):
    """The text was encrypted with an unknown key or for another place, or it was tampered with."""


def accepted_keys() -> dict[str, str | bytes]:
    """Return the keys that this host can decrypt with, by fingerprint, the current one first."""
    return {fingerprint(key): key for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)}


def fingerprint(key: str | bytes) -> str:
    """Identify a secret key without revealing it."""
    return salted_hmac("schedules.secret_key", "fingerprint", secret=key, algorithm="sha256").hexdigest()


def seal(text: str, place: str, key: str | bytes = "") -> str:
    """Encrypt a text for one place, so that it is useless if it is copied to another place in the database.

    Without a key, use the current one.
    """
    sealed: bytes = _keys(key or settings.SECRET_KEY).encrypt(json.dumps([place, text]).encode())
    return sealed.decode()


def unseal(sealed: str, place: str) -> str:
    """Decrypt a text that was sealed for this place; raises UnreadableError."""
    try:
        sealed_for, text = json.loads(_current_keys().decrypt(sealed.encode()))
    except _library().InvalidToken as error:
        raise UnreadableError from error
    if sealed_for != place:
        raise UnreadableError
    return str(text)


def reseal(sealed: str) -> str:
    """Encrypt a sealed text again with the current secret key; raises UnreadableError if no key can decrypt it."""
    try:
        rotated: bytes = _current_keys().rotate(sealed.encode())
    except _library().InvalidToken as error:
        raise UnreadableError from error
    return rotated.decode()


def _current_keys() -> Any:
    return _keys(settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)


@cache
def _keys(*secrets: str | bytes) -> Any:
    library = _library()
    return library.MultiFernet([library.Fernet(_derive_key(secret)) for secret in secrets])


def _derive_key(secret: str | bytes) -> bytes:
    hashes = import_module("cryptography.hazmat.primitives.hashes")
    hkdf = import_module("cryptography.hazmat.primitives.kdf.hkdf")
    key = hkdf.HKDF(hashes.SHA256(), length=32, salt=None, info=_PURPOSE).derive(force_bytes(secret))
    return base64.urlsafe_b64encode(key)


@cache
def _library() -> Any:
    # Imported on first use: it takes a tenth of a second.
    return import_module("cryptography.fernet")
