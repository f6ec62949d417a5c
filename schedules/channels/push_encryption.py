"""Web push messages: encrypted for one browser (RFC 8291), and signed with the key of this installation (RFC 8292)."""

import base64
import json
import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.utils.encoding import force_bytes

# One record: every browser accepts that much, and no push service more.
MOST_BYTES = 4096
# What is left for the text: the header, the mark of the last record, and the tag of the cipher.
MOST_TEXT = MOST_BYTES - 86 - 1 - 16
VALID_FOR = timedelta(hours=12)
_CURVE = ec.SECP256R1()
# The order of the curve: private keys are below it.
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def encrypted(text: bytes, browser_key: str, browser_secret: str) -> bytes:
    """Return a message that only the browser with these keys can read."""
    theirs = _decoded(browser_key)
    browser = ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, theirs)
    own = ec.generate_private_key(_CURVE)
    ours, salt = _point(own), os.urandom(16)
    shared = own.exchange(ec.ECDH(), browser)
    secret = _derived(shared, _decoded(browser_secret), b"WebPush: info\0" + theirs + ours, 32)
    key = _derived(secret, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derived(secret, salt, b"Content-Encoding: nonce\0", 12)
    head = salt + MOST_BYTES.to_bytes(4) + len(ours).to_bytes(1) + ours
    return head + AESGCM(key).encrypt(nonce, text + b"\x02", None)


def key_problem(text: str) -> str | None:
    """Return why this is not the key of a browser, or None."""
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, _decoded(text))
    except ValueError:
        return "This is not the key of a browser."
    return None


def public_key(secret_key: str | bytes) -> str:
    """Return the public key of this installation, by which push services recognise it."""
    return _encoded(_point(_private_key(secret_key)))


def authorization(secret_key: str | bytes, audience: str, subject: str, now: datetime) -> str:
    """Return the header that proves to a push service who sends."""
    claims = {"aud": audience, "exp": int((now + VALID_FOR).timestamp()), "sub": subject}
    signed = f"{_json({'typ': 'JWT', 'alg': 'ES256'})}.{_json(claims)}"
    signature = _private_key(secret_key).sign(signed.encode(), ec.ECDSA(SHA256()))
    parts = (number.to_bytes(32) for number in utils.decode_dss_signature(signature))
    return f"vapid t={signed}.{_encoded(b''.join(parts))}, k={public_key(secret_key)}"


@lru_cache(maxsize=8)
def _private_key(secret_key: str | bytes) -> ec.EllipticCurvePrivateKey:
    """Derive the key from the secret key, so that all hosts have the same one without storing it."""
    seed = _derived(force_bytes(secret_key), b"", b"schedules.channels.web_push", 48)
    return ec.derive_private_key(int.from_bytes(seed) % (_ORDER - 1) + 1, _CURVE)


def _derived(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(SHA256(), length, salt, info).derive(secret)


def _point(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _json(value: Mapping[str, object]) -> str:
    return _encoded(json.dumps(value, separators=(",", ":")).encode())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
