"""The body of a request to an ntfy server, with the message cut to fit ntfy's limits."""

import json
from bisect import bisect_right
from typing import Any

from schedules import limits
from schedules.channels.message import DEFAULT_PRIORITY, Message

# ntfy turns a message of 4096 bytes or more into a file, and refuses 8192 bytes of JSON or more.
NTFY_MESSAGE_BYTES = 4095
NTFY_REQUEST_BYTES = 8191
# A message is never cut below this.
NTFY_MIN_MESSAGE_BYTES = 64


def ntfy_fields(topic: str, message: Message) -> dict[str, Any]:
    """Return the fields of the request, with as much of the text as fits."""
    fields = {
        "topic": topic,
        "title": message.title or None,
        "priority": message.priority if message.priority != DEFAULT_PRIORITY else None,
        "tags": list(message.tags) or None,
        "click": message.click or None,
        "actions": list(message.actions) or None,
        **message.more,
    }
    return _fit_message(message.text, {name: value for name, value in fields.items() if value is not None})


def _fit_message(message: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Add as much of the message to the fields as fits into one request."""

    def cut(limit: int) -> dict[str, Any]:
        return {**fields, "message": limits.shortened(message, limit)}

    def size(limit: int) -> int:
        return len(json.dumps(cut(limit), ensure_ascii=False).encode())

    if size(NTFY_MESSAGE_BYTES) <= NTFY_REQUEST_BYTES:
        return cut(NTFY_MESSAGE_BYTES)
    # Escapes and other fields also count: search for the longest text that leaves room for them.
    return cut(
        bisect_right(range(NTFY_MESSAGE_BYTES), NTFY_REQUEST_BYTES, lo=NTFY_MIN_MESSAGE_BYTES, key=size) - 1
    )
