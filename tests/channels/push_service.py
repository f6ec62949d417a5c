"""A browser that has subscribed to messages: it decrypts what the virtual push service got for it, and checks who sent it."""

import base64
import json
import os
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

CURVE = ec.SECP256R1()


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def hkdf(secret, salt, info, length):
    return HKDF(SHA256(), length, salt, info).derive(secret)


@dataclass
class Browser:
    """The keys of one subscription, as a browser makes them."""

    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(CURVE))
    secret: bytes = field(default_factory=lambda: os.urandom(16))

    @property
    def point(self):
        return self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    def subscription(self, endpoint, server_key):
        """Return what the page sends after the person has agreed."""
        keys = {"p256dh": encoded(self.point), "auth": encoded(self.secret)}
        return {"endpoint": endpoint, "key": server_key, **keys}

    def decrypted(self, body):
        """Return what a message says to the service worker."""
        return json.loads(self.opened(body))

    def opened(self, body):
        """Decrypt a message as RFC 8188 and RFC 8291 say."""
        salt, size, length = body[:16], int.from_bytes(body[16:20]), body[20]
        sender, record = body[21 : 21 + length], body[21 + length :]
        assert len(body) <= size == 4096
        shared = self.key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(CURVE, sender))
        secret = hkdf(shared, self.secret, b"WebPush: info\0" + self.point + sender, 32)
        key = hkdf(secret, salt, b"Content-Encoding: aes128gcm\0", 16)
        nonce = hkdf(secret, salt, b"Content-Encoding: nonce\0", 12)
        plain = AESGCM(key).decrypt(nonce, record, None)
        assert plain.endswith(b"\x02")
        return plain[:-1]


def claims_of(authorization):
    """Check the signature of a VAPID header, and return its claims and the key that signed it."""
    scheme, _, rest = authorization.partition(" ")
    token, key = (part.partition("=")[2] for part in rest.split(", "))
    signed, _, signature = token.rpartition(".")
    parts = decoded(signature)
    assert (scheme, len(parts)) == ("vapid", 64)
    der = utils.encode_dss_signature(int.from_bytes(parts[:32]), int.from_bytes(parts[32:]))
    public = ec.EllipticCurvePublicKey.from_encoded_point(CURVE, decoded(key))
    public.verify(der, signed.encode(), ec.ECDSA(SHA256()))
    head, claims = (json.loads(decoded(part)) for part in signed.split("."))
    assert head == {"typ": "JWT", "alg": "ES256"}
    return claims, key
