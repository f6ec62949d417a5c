"""The secret key that all hosts of an installation share, which the database knows by a fingerprint."""

import logging

from django.conf import settings
from django.db import transaction
from django.utils.crypto import salted_hmac

from schedules.command_words import how_to_run
from schedules.models import Installation
from schedules.services.secrets import reseal_secrets

logger = logging.getLogger(__name__)


class ForeignSecretKeyError(Exception):
    """This host has another secret key than the installation; the text says what to do."""


def require_secret_key() -> None:
    """Raise ForeignSecretKeyError unless this host has the installation's key; the first host records its own.

    A host that lists the installation's key in SECRET_KEY_FALLBACKS replaces it with its own.
    """
    mine = _fingerprint_of(settings.SECRET_KEY)
    row = Installation.objects.get_or_create(pk=Installation.ONLY, defaults={"secret_fingerprint": mine})[0]
    if _is_foreign(row):
        raise ForeignSecretKeyError(_what_to_do())
    if row.secret_fingerprint != mine:
        adopt_secret_key()


def secret_key_problem() -> str:
    """Return what `require_secret_key` would say, or nothing; this only reads."""
    row = Installation.objects.filter(pk=Installation.ONLY).first()
    return _what_to_do() if row and _is_foreign(row) else ""


def adopt_secret_key() -> list[str]:
    """Make this host's key the installation's, and encrypt all secrets with it.

    Return the names of the secrets that neither this key nor one of SECRET_KEY_FALLBACKS can read.
    """
    mine = _fingerprint_of(settings.SECRET_KEY)
    with transaction.atomic():
        Installation.objects.update_or_create(pk=Installation.ONLY, defaults={"secret_fingerprint": mine})
        unreadable = reseal_secrets()
    if unreadable:
        logger.warning(
            "Secrets that no known key can read have to be written again: %s", ", ".join(unreadable)
        )
    return unreadable


def _is_foreign(row: Installation) -> bool:
    accepted = map(_fingerprint_of, [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS])
    return row.secret_fingerprint not in ["", *accepted]


def _fingerprint_of(key: str | bytes) -> str:
    return salted_hmac("schedules.secret_key", "fingerprint", secret=key, algorithm="sha256").hexdigest()


def _what_to_do() -> str:
    if folder := getattr(settings, "CRONTY_DATA", None):
        where = f"its CRONTY_SECRET_KEY, or its file data/secret_key to {folder / 'secret_key'}"
        fallbacks = "CRONTY_SECRET_KEY_FALLBACKS"
    else:
        where, fallbacks = "its setting SECRET_KEY", "SECRET_KEY_FALLBACKS"
    return (
        "This host has another secret key than the hosts that already use this database, so tokens and logins of"
        f" one would be invalid at the other. Copy the key from such a host: {where}. To change the key on"
        f" purpose, put the old one into {fallbacks}, or, if it is lost, run `{how_to_run('adopt_secret_key')}`."
    )
