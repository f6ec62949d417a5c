"""Web push cryptography: encrypt messages for one browser (RFC 8291), and sign as this installation (RFC 8292)."""

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

# The size of one record, which every browser accepts; push services take no more.
MAX_RECORD_BYTES = 4096
# A record without its header, the delimiter of the last record, and the cipher's tag.
MAX_TEXT_BYTES = MAX_RECORD_BYTES - 86 - 1 - 16
VALID_FOR = timedelta(hours=12)
_CURVE = ec.SECP256R1()
# The order of the curve: a private key is a number below it.
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def encrypt(text: bytes, browser_key: str, browser_secret: str) -> bytes:
    """Encrypt a message so that only the browser with these keys can read it."""
    browser_point = _decode(browser_key)
    browser = ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, browser_point)
    own_key = ec.generate_private_key(_CURVE)
    own_point, salt = _point(own_key), os.urandom(16)
    shared = own_key.exchange(ec.ECDH(), browser)
    secret = _derive(shared, _decode(browser_secret), b"WebPush: info\0" + browser_point + own_point, 32)
    key = _derive(secret, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derive(secret, salt, b"Content-Encoding: nonce\0", 12)
    header = salt + MAX_RECORD_BYTES.to_bytes(4) + len(own_point).to_bytes(1) + own_point
    return header + AESGCM(key).encrypt(nonce, text + b"\x02", None)


def key_problem(text: str) -> str | None:
    """Return why this is not a browser's public key, or None."""
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, _decode(text))
    except ValueError:
        return "This is not the key of a browser."
    return None


def public_key(secret_key: str | bytes) -> str:
    """Return the public key of this installation, which identifies it to push services."""
    return _encode(_point(_private_key(secret_key)))


def authorization(secret_key: str | bytes, audience: str, subject: str, now: datetime) -> str:
    """Return the header that proves to a push service who the sender is."""
    claims = {"aud": audience, "exp": int((now + VALID_FOR).timestamp()), "sub": subject}
    unsigned = f"{_encode_json({'typ': 'JWT', 'alg': 'ES256'})}.{_encode_json(claims)}"
    signature = _private_key(secret_key).sign(unsigned.encode(), ec.ECDSA(SHA256()))
    parts = (number.to_bytes(32) for number in utils.decode_dss_signature(signature))
    return f"vapid t={unsigned}.{_encode(b''.join(parts))}, k={public_key(secret_key)}"


@lru_cache(maxsize=8)
def _private_key(secret_key: str | bytes) -> ec.EllipticCurvePrivateKey:
    """Derive the private key from Django's SECRET_KEY, so that all hosts share it without storing it."""
    seed = _derive(force_bytes(secret_key), b"", b"schedules.channels.web_push", 48)
    return ec.derive_private_key(int.from_bytes(seed) % (_ORDER - 1) + 1, _CURVE)


def _derive(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(SHA256(), length, salt, info).derive(secret)


def _point(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _encode_json(value: Mapping[str, object]) -> str:
    return _encode(json.dumps(value, separators=(",", ":")).encode())


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
