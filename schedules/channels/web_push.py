"""The web push channel: messages to a browser, or to the pages installed on a phone."""

import json
from email.utils import parseaddr
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from schedules import clock
from schedules.channels.kinds import ChannelKind, Field, Request, Values, must_match, server_problem
from schedules.channels.message import HIGH_PRIORITY, Message, fit
from schedules.secrets.encryption import accepted_keys
from schedules.tasks.interface import Final
from schedules.tasks.links import WEB_SCHEMES, public_site

# How long a push service keeps a message for a device that is offline.
TTL_SECONDS = 24 * 3600
TITLE_UNITS = 200
MAX_BUTTONS = 2


def server_key() -> str:
    """Return the public key that a browser needs to subscribe."""
    key: str = _encryption().public_key(settings.SECRET_KEY)
    return key


def _web_push(values: Values, message: Message) -> Request:
    address = urlsplit(values["endpoint"])
    encryption = _encryption()
    # The browser accepts only messages signed with the key that it subscribed with.
    secret_keys = {encryption.public_key(key): key for key in accepted_keys().values()}
    if values["key"] not in secret_keys:
        raise Final("The secret key of this installation has changed: switch notifications on again there.")
    headers = {
        "content-type": "application/octet-stream",
        "content-encoding": "aes128gcm",
        "ttl": str(TTL_SECONDS),
        "urgency": "high" if message.priority >= HIGH_PRIORITY else "normal",
        "authorization": encryption.authorization(
            secret_keys[values["key"]], f"{address.scheme}://{address.netloc}", _subject(), clock.now()
        ),
    }
    content = _encode_message(message, encryption.MAX_TEXT_BYTES)
    body = encryption.encrypt(content, values["p256dh"], values["auth"])
    return Request(values["endpoint"], {}, headers, data=body)


def _encode_message(message: Message, max_bytes: int) -> bytes:
    """Return the JSON that the pages' service worker shows; a text that is too long is cut."""
    links = [link for link in message.links if link.url.partition(":")[0] in WEB_SCHEMES]
    content: dict[str, Any] = {
        "title": fit(message.title, TITLE_UNITS) or "Cronty",
        "body": message.text,
        "key": message.key,
        "url": message.click if message.click.partition(":")[0] in WEB_SCHEMES else "",
        "links": [{"label": link.label, "url": link.url} for link in links if link.url != message.click][
            :MAX_BUTTONS
        ],
    }
    for room in (3000, 1500, 700, 300):
        content["body"] = fit(message.text, room)
        encoded = json.dumps(content, ensure_ascii=False).encode()
        if len(encoded) <= max_bytes:
            return encoded
        if room < 3000:
            # Long links leave too little room for the text.
            content["links"] = []
    return json.dumps({"title": content["title"], "body": content["body"]}, ensure_ascii=False).encode()


def _subject() -> str:
    """Return the address by which a push service can contact the operator."""
    site = public_site()
    if site.startswith("https://"):
        return site
    return f"mailto:{parseaddr(settings.DEFAULT_FROM_EMAIL)[1] or 'cronty@localhost'}"


def _key_problem(text: str) -> str | None:
    problem: str | None = _encryption().key_problem(text)
    return problem


def _encryption() -> Any:
    # Imported on first use: the cryptography library is slow to load.
    return import_module("schedules.channels.push_encryption")


WEB_PUSH = ChannelKind(
    "webpush",
    "This browser or phone",
    (
        Field("endpoint", "Address", is_secret=True, is_set_by_browser=True, problem=server_problem),
        Field("p256dh", "Key", is_secret=True, is_set_by_browser=True, problem=_key_problem),
        Field(
            "auth",
            "Secret",
            is_secret=True,
            is_set_by_browser=True,
            problem=must_match(r"[A-Za-z0-9_-]{22}={0,2}", "This is not the secret of a browser."),
        ),
        Field("key", "Key of the installation", is_secret=True, is_set_by_browser=True),
    ),
    _web_push,
    note="On an iPhone or iPad, notifications come to the installed pages only: open the Share menu, tap Add to Home "
    "Screen, open Cronty from there, come back to this page, and tap the button.",
    can_end=True,
)
