"""The built-in tasks: notification, webhook and prompt, registered like any other task."""

import json
import random
import re
import time
from bisect import bisect_right
from contextlib import suppress
from datetime import timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import urlsplit

from django.conf import settings
from django.utils import timezone
from pydantic import Field, JsonValue

from schedules import limits
from schedules.secrets.references import in_address, names_in, resolved, without_references
from schedules.tasks import outbound
from schedules.tasks.agent_command import run_agent_command
from schedules.tasks.answer_buttons import ask_for_answer
from schedules.tasks.argument_types import (
    Action,
    AskText,
    FileLink,
    Headers,
    Line,
    Link,
    Method,
    Priority,
    PromptText,
    Text,
    Topic,
    WebAddress,
)
from schedules.tasks.asking import read_ask
from schedules.tasks.interface import WAITING, Asked, Final, RetryLater, Run, SpecialResult
from schedules.tasks.outbound.headers import shape_problem
from schedules.tasks.outbound.signing import signature_header
from schedules.tasks.registry import task

WEBHOOK_METHOD: Method = "POST"
# ntfy turns a message of 4096 bytes or more into a file, and refuses 8192 bytes of JSON or more.
NTFY_MESSAGE_BYTES = 4095
NTFY_REQUEST_BYTES = 8191
# Less of a message would say nothing.
NTFY_LEAST_MESSAGE_BYTES = 64
NTFY_PAUSE_SECONDS = 5
RETRY_AFTER_SECONDS = re.compile(r"[0-9]{1,9}")
LONGEST_RETRY_AFTER = timedelta(hours=1)
KEPT_CHARACTERS = 2048

_jitter = random.SystemRandom()


@task(title="Notification", attempts=5)
async def notify(
    message: Text,
    topic: Topic,
    title: Line | None = None,
    priority: Priority | None = None,
    tags: Annotated[list[Line], Field(max_length=20)] | None = None,
    markdown: bool | None = None,
    click: Link | None = None,
    icon: FileLink | None = None,
    attach: FileLink | None = None,
    filename: Line | None = None,
    actions: Annotated[list[Action], Field(max_length=3)] | None = None,
    ask: Annotated[
        AskText, Field(description='Buttons for an answer: "yes", or until done "every 10m 5 times".')
    ]
    | None = None,
    *,
    run: Run,
) -> dict[str, Any] | Asked:
    """Send a push notification to everybody who follows the topic on the ntfy server."""
    fields = {
        "topic": topic,
        "title": title,
        "priority": priority,
        "tags": tags,
        "markdown": markdown,
        "click": click,
        "icon": icon,
        "attach": attach,
        # Without a file, ntfy refuses the whole message.
        "filename": filename if attach else None,
        "actions": actions,
    }
    again = await run.find_reminder() if ask else None
    if ask:
        ask_for_answer(fields, run, again)
        topic = str(fields["topic"])
    sent = _fit_message(message, {name: value for name, value in fields.items() if value is not None})
    reply = await _send_or_retry(
        "POST",
        f"{settings.NTFY_URL.rstrip('/')}/",
        headers={"Authorization": f"Bearer {settings.NTFY_TOKEN}"} if settings.NTFY_TOKEN else {},
        content=_ntfy_body(sent),
        # The operator chose this server, which is often on the local network.
        trusted=True,
    )
    server = urlsplit(settings.NTFY_URL).hostname
    words = f"{server} answered {reply.status}"
    answer = _ntfy_answer(reply)
    if reply.status == HTTPStatus.OK:
        # Without a readable id, the server may have sent the message all the same: never send it again.
        if not answer.get("id") and not reply.truncated:
            raise Final(f"{words}, but not as an ntfy server does: check NTFY_URL.")
        result: dict[str, Any] = {"id": answer.get("id"), "topic": topic, "server": server}
        if sent["message"] != message:
            result["shortened"] = True
        return Asked(result, read_ask(ask)) if ask and again is None else result
    if 300 <= reply.status < 400:
        raise _redirect(reply, words, "set NTFY_URL to the final address", run)
    said = str(answer.get("error") or _beginning(reply, 200, run))
    if reply.status == HTTPStatus.TOO_MANY_REQUESTS:
        least = NTFY_PAUSE_SECONDS * 2 ** (run.attempt - 1)
        pause = timedelta(seconds=_jitter.uniform(least, 2 * least))
        raise _failure(reply, words, said, max(pause, _asked_to_wait(reply) or pause))
    raise _failure(reply, words, said)


@task(title="Webhook", attempts=3, takes_secrets=True)
async def webhook(
    url: WebAddress,
    method: Method = WEBHOOK_METHOD,
    headers: Headers | None = None,
    body: Annotated[JsonValue, Field(description="Text is sent as it is, anything else as JSON.")] = None,
    *,
    run: Run,
) -> dict[str, Any]:
    """Send an HTTP request, signed, with an Idempotency-Key that stays the same over all attempts."""
    if names := names_in([url, headers, body]):
        url, headers, body = await _with_secrets(url, headers, body, names, run)
    content, content_type = _webhook_body(body)
    timestamp = str(int(time.time()))
    given = {name.lower(): value for name, value in (headers or {}).items()}
    reply = await _send_or_retry(
        method,
        url,
        headers={
            **content_type,
            **given,
            "Idempotency-Key": run.key,
            "Cronty-Execution": str(run.execution_id),
            "Cronty-Attempt": str(run.attempt),
            "Cronty-Timestamp": timestamp,
            "Cronty-Signature": signature_header(run.signing_keys(), timestamp, run.key, content or b""),
        },
        content=content,
    )
    if 200 <= reply.status < 300 or reply.status == HTTPStatus.NOT_MODIFIED:
        return {"status": reply.status, "body": _beginning(reply, KEPT_CHARACTERS, run)}
    words = f"{urlsplit(url).hostname} answered {reply.status}"
    if 300 <= reply.status < 400:
        raise _redirect(reply, words, "use the final address", run)
    raise _failure(reply, words, _beginning(reply, 200, run))


@task(title="Prompt for an agent", timeout=timedelta(minutes=10))
async def prompt(prompt: PromptText, *, run: Run) -> str | SpecialResult:
    """Hand a prompt to the operator's agent command, or leave it in the inbox for an agent to claim."""
    if not settings.CRONTY_AGENT_COMMAND:
        return WAITING
    return await run_agent_command(prompt, run)


async def _with_secrets(
    url: str, headers: Headers | None, body: JsonValue, names: set[str], run: Run
) -> tuple[str, Headers | None, JsonValue]:
    """Fill in secrets, if they may go to the host of the URL; raises Final otherwise."""
    secrets = await run.secrets(names, host=outbound.Target.parse(without_references(url)).place)
    filled = resolved(headers, secrets)
    for name, value in (filled or {}).items():
        if problem := shape_problem(name, value):
            raise Final(f"A secret does not fit: {problem}.")
    return resolved(url, secrets, in_address), filled, resolved(body, secrets)


async def _send_or_retry(method: str, url: str, **request: Any) -> outbound.Reply:
    try:
        return await outbound.send(method, url, **request)
    except outbound.OutboundError as error:
        raise (RetryLater if error.retryable else Final)(str(error)) from error


def _redirect(reply: outbound.Reply, words: str, advice: str, run: Run) -> Final | RetryLater:
    target = _cut(reply.headers.get("location", ""), 200, run)
    return _failure(reply, f"{words}: redirects are not followed; {advice}", target)


def _failure(
    reply: outbound.Reply, words: str, said: str, after: timedelta | None = None
) -> Final | RetryLater:
    message = f"{words}: {said}" if said else words
    transient = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)
    if reply.status in transient or reply.status >= 500:
        failure: Final | RetryLater = RetryLater(message, after=after or _asked_to_wait(reply))
    else:
        failure = Final(message)
    failure.said = said
    return failure


def _asked_to_wait(reply: outbound.Reply) -> timedelta | None:
    asked = reply.headers.get("retry-after", "")
    if RETRY_AFTER_SECONDS.fullmatch(asked):
        return min(timedelta(seconds=int(asked)), LONGEST_RETRY_AFTER)
    with suppress(ValueError, TypeError, OverflowError):
        until = parsedate_to_datetime(asked) - timezone.now()
        return min(until, LONGEST_RETRY_AFTER) if until > timedelta(0) else None
    return None


def _fit_message(message: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return all fields, with as much of the message as a request may have."""

    def cut(limit: int) -> dict[str, Any]:
        return {**fields, "message": limits.shortened(message, limit)}

    def size(limit: int) -> int:
        return len(_ntfy_body(cut(limit)))

    if size(NTFY_MESSAGE_BYTES) <= NTFY_REQUEST_BYTES:
        return cut(NTFY_MESSAGE_BYTES)
    # Escapes and other fields also count: look for the longest text that leaves room for them.
    return cut(
        bisect_right(range(NTFY_MESSAGE_BYTES), NTFY_REQUEST_BYTES, lo=NTFY_LEAST_MESSAGE_BYTES, key=size) - 1
    )


def _ntfy_body(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode()


def _ntfy_answer(reply: outbound.Reply) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        answer = json.loads(reply.text)
        if isinstance(answer, dict):
            return answer
    return {}


def _webhook_body(body: JsonValue) -> tuple[bytes | None, dict[str, str]]:
    if body is None:
        return None, {}
    if isinstance(body, str):
        return body.encode(), {"content-type": "text/plain; charset=utf-8"}
    return json.dumps(body, ensure_ascii=False).encode(), {"content-type": "application/json"}


def _beginning(reply: outbound.Reply, characters: int, run: Run) -> str:
    return _cut(reply.text, characters, run, is_truncated=reply.truncated)


def _cut(text: str, characters: int, run: Run, *, is_truncated: bool = False) -> str:
    """Return the beginning of what a server said, without characters that cannot be stored or shown."""
    # Clean it as the mask expects it: a secret must look the same in both.
    kept = limits.clean_output(text[:characters])
    if is_truncated or len(text) > characters:
        # Whoever masks the secrets of the result would not recognise a part of one.
        return f"{run.mask_cut(kept).strip()}…"
    return kept.strip()
