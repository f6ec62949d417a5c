"""Sending one message by one channel: the request, the service's receipt or refusal, and whether to retry."""

import json
import random
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from schedules.channels.kinds import ChannelKind, Request, Values
from schedules.channels.mail import EMAIL, send_mail
from schedules.channels.message import Message
from schedules.channels.operator_services import APPRISE, send_by_apprise
from schedules.secrets.masking import Masker
from schedules.tasks import outbound
from schedules.tasks.interface import Final, RetryLater, Run
from schedules.tasks.replies import (
    LONGEST_RETRY_AFTER,
    beginning,
    failure,
    redirect,
    retry_after,
    send_or_retry,
)

PAUSE_SECONDS = 5
ENDED_MESSAGE = "Notifications were switched off there: switch them on again on that device."
MAX_QUOTED_CHARACTERS = 200

_jitter = random.SystemRandom()


class ChannelEnded(Final):
    """The receiver unsubscribed; nothing arrives until notifications are switched on again there."""


async def send(kind: ChannelKind, values: Values, message: Message, run: Run) -> dict[str, Any]:
    """Send a message and return its receipt; raises Final or RetryLater, with the channel's secrets masked."""
    secrets = [values[field.name] for field in kind.fields if field.is_secret and values.get(field.name)]
    try:
        if kind is EMAIL:
            return await send_mail(values, message)
        if kind is APPRISE:
            return await send_by_apprise(values, message)
        assert kind.request
        return await _send_request(kind, kind.request(values, message), run)
    except (Final, RetryLater) as error:
        _mask(error, secrets)
        raise


async def _send_request(kind: ChannelKind, request: Request, run: Run) -> dict[str, Any]:
    reply = await send_or_retry(
        request.method,
        request.url,
        headers={"content-type": "application/json", **request.headers},
        content=request.content,
        trusted=request.trusted,
    )
    server = urlsplit(request.url).hostname
    problem = f"{server} answered {reply.status}"
    answer = _json_of(reply)
    if 200 <= reply.status < 300:
        receipt = _receipt(answer, kind.receipt)
        # The server may have sent the message even if its id cannot be read: never send it again.
        if kind.receipt and not receipt and not reply.truncated:
            raise Final(f"{problem}, but not as {kind.speaker} does: check {request.setting}.")
        return {"id": receipt, "server": server}
    if 300 <= reply.status < 400:
        raise redirect(reply, problem, f"set {request.setting} to the final address", run)
    if kind.can_end and reply.status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        raise ChannelEnded(ENDED_MESSAGE)
    error_text = _error_text(answer) or beginning(reply, MAX_QUOTED_CHARACTERS, run)
    if reply.status == HTTPStatus.TOO_MANY_REQUESTS:
        raise failure(reply, problem, error_text, _pause(reply, answer, run))
    raise failure(reply, problem, error_text)


def _pause(reply: outbound.Reply, answer: dict[str, Any], run: Run) -> timedelta:
    """Return how long to leave a rate-limiting server alone: exponential backoff, or longer if it asks for that."""
    shortest = PAUSE_SECONDS * 2 ** (run.attempt - 1)
    pause = timedelta(seconds=_jitter.uniform(shortest, 2 * shortest))
    return max(pause, retry_after(reply) or pause, _retry_after_in(answer))


def _retry_after_in(answer: dict[str, Any]) -> timedelta:
    """Return how long Telegram, Discord or Matrix ask to wait; each has a field and a unit of its own."""
    parameters = answer.get("parameters")
    fields = (
        (answer.get("retry_after"), 1),
        (parameters.get("retry_after") if isinstance(parameters, dict) else None, 1),
        (answer.get("retry_after_ms"), 1000),
    )
    for pause, unit in fields:
        if isinstance(pause, int | float) and 0 < pause < 10**9:
            return min(timedelta(seconds=pause / unit), LONGEST_RETRY_AFTER)
    return timedelta(0)


def _json_of(reply: outbound.Reply) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        answer = json.loads(reply.text)
        if isinstance(answer, dict):
            return answer
    return {}


def _receipt(answer: dict[str, Any], name: str) -> Any:
    inner = answer.get("result")
    return answer.get(name) or (inner.get(name) if isinstance(inner, dict) else None)


def _error_text(answer: dict[str, Any]) -> str:
    """Return the service's own error message, from any of the fields that services use for it."""
    errors = answer.get("errors")
    texts: Iterable[Any] = (
        *(answer.get(name) for name in ("description", "errorDescription", "message", "error")),
        *(errors if isinstance(errors, list) else ()),
    )
    return next((text[:MAX_QUOTED_CHARACTERS] for text in texts if isinstance(text, str) and text), "")


def _mask(error: Final | RetryLater, secrets: list[str]) -> None:
    """Mask the channel's secrets in an error, in case the service repeated them."""
    masker = Masker(secrets)
    error.args = (masker.mask(str(error)),)
    error.server_message = masker.mask(error.server_message)
