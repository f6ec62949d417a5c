"""One message sent by one channel: its request, what the service answers, and whether to try again."""

import json
import random
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from schedules.channels.kinds import Kind, Request, Values
from schedules.channels.mail import EMAIL, send_mail
from schedules.channels.message import Message
from schedules.channels.operator_services import APPRISE, send_by_apprise
from schedules.secrets.masking import Masker
from schedules.tasks import outbound
from schedules.tasks.interface import Final, RetryLater, Run
from schedules.tasks.replies import (
    LONGEST_RETRY_AFTER,
    asked_to_wait,
    beginning,
    failure,
    redirect,
    send_or_retry,
)

PAUSE_SECONDS = 5
ENDED = "Notifications were switched off there: switch them on again on that device."
SAID_CHARACTERS = 200

_jitter = random.SystemRandom()


class Ended(Final):
    """The receiver wants no more messages, and says so until they are switched on again."""


async def send(kind: Kind, values: Values, message: Message, run: Run) -> dict[str, Any]:
    """Send a message and return its receipt; raises Final or RetryLater, without the secrets of the channel."""
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


async def _send_request(kind: Kind, request: Request, run: Run) -> dict[str, Any]:
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
        # Without a readable id, the server may have sent the message all the same: never send it again.
        if kind.receipt and not receipt and not reply.truncated:
            raise Final(f"{problem}, but not as {kind.speaker} does: check {request.setting}.")
        return {"id": receipt, "server": server}
    if 300 <= reply.status < 400:
        raise redirect(reply, problem, f"set {request.setting} to the final address", run)
    if kind.can_end and reply.status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        raise Ended(ENDED)
    said = _said(answer) or beginning(reply, SAID_CHARACTERS, run)
    if reply.status == HTTPStatus.TOO_MANY_REQUESTS:
        raise failure(reply, problem, said, _pause(reply, answer, run))
    raise failure(reply, problem, said)


def _pause(reply: outbound.Reply, answer: dict[str, Any], run: Run) -> timedelta:
    """Return how long to leave a busy server alone: as long as it asks for, and longer with each attempt."""
    least = PAUSE_SECONDS * 2 ** (run.attempt - 1)
    pause = timedelta(seconds=_jitter.uniform(least, 2 * least))
    return max(pause, asked_to_wait(reply) or pause, _asked_in_answer(answer))


def _asked_in_answer(answer: dict[str, Any]) -> timedelta:
    """Return how long Telegram, Discord or Matrix ask to wait, each in its own place and unit."""
    parameters = answer.get("parameters")
    places = (
        (answer.get("retry_after"), 1),
        (parameters.get("retry_after") if isinstance(parameters, dict) else None, 1),
        (answer.get("retry_after_ms"), 1000),
    )
    for pause, unit in places:
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


def _said(answer: dict[str, Any]) -> str:
    """Return the service's own words, from where each of them puts them."""
    errors = answer.get("errors")
    told: Iterable[Any] = (
        *(answer.get(name) for name in ("description", "errorDescription", "message", "error")),
        *(errors if isinstance(errors, list) else ()),
    )
    return next((text[:SAID_CHARACTERS] for text in told if isinstance(text, str) and text), "")


def _mask(error: Final | RetryLater, secrets: list[str]) -> None:
    """Remove what a service has repeated of the channel's secrets."""
    if secrets:
        masker = Masker(secrets)
        error.args = (masker.mask_value(str(error)),)
        error.said = masker.mask_value(error.said)
