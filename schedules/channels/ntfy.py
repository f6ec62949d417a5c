"""The body of a request to an ntfy server, and how much fits into it."""

import json
from bisect import bisect_right
from typing import Any

from schedules import limits
from schedules.channels.message import DEFAULT_PRIORITY, Message

# ntfy turns a message of 4096 bytes or more into a file, and refuses 8192 bytes of JSON or more.
NTFY_MESSAGE_BYTES = 4095
NTFY_REQUEST_BYTES = 8191
# Less of a message would say nothing.
NTFY_LEAST_MESSAGE_BYTES = 64


def ntfy_fields(topic: str, message: Message) -> dict[str, Any]:
    """Return all fields, with as much of the text as a request may have."""
    fields = {
        "topic": topic,
        "title": message.title or None,
        "priority": message.priority if message.priority != DEFAULT_PRIORITY else None,
        "tags": list(message.tags) or None,
        "click": message.click or None,
        "actions": list(message.actions) or None,
        **message.more,
    }
    return fit_message(message.text, {name: value for name, value in fields.items() if value is not None})


def fit_message(message: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return all fields, with as much of the message as a request may have."""

    def cut(limit: int) -> dict[str, Any]:
        return {**fields, "message": limits.shortened(message, limit)}

    def size(limit: int) -> int:
        return len(ntfy_body(cut(limit)))

    if size(NTFY_MESSAGE_BYTES) <= NTFY_REQUEST_BYTES:
        return cut(NTFY_MESSAGE_BYTES)
    # Escapes and other fields also count: look for the longest text that leaves room for them.
    return cut(
        bisect_right(range(NTFY_MESSAGE_BYTES), NTFY_REQUEST_BYTES, lo=NTFY_LEAST_MESSAGE_BYTES, key=size) - 1
    )


def ntfy_body(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode()
