"""Replies of servers as task errors: whether to retry and when, and what the server said."""

import re
from contextlib import suppress
from datetime import timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from django.utils import timezone

from schedules import limits
from schedules.tasks import outbound
from schedules.tasks.interface import Final, RetryLater, Run

_SECONDS = re.compile(r"[0-9]{1,9}")
LONGEST_RETRY_AFTER = timedelta(hours=1)


async def send_or_retry(method: str, url: str, **request: Any) -> outbound.Reply:
    """Send a request; raises Final or RetryLater if there is no reply."""
    try:
        return await outbound.send(method, url, **request)
    except outbound.OutboundError as error:
        raise (RetryLater if error.retryable else Final)(str(error)) from error


def redirect(reply: outbound.Reply, message: str, advice: str, run: Run) -> Final | RetryLater:
    """Return the error for a redirect; redirects are never followed."""
    target = _cut(reply.headers.get("location", ""), 200, run)
    return failure(reply, f"{message}: redirects are not followed; {advice}", target)


def failure(
    reply: outbound.Reply, message: str, server_message: str, after: timedelta | None = None
) -> Final | RetryLater:
    """Return the error for a reply: RetryLater if a retry may help, else Final."""
    message = f"{message}: {server_message}" if server_message else message
    transient = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)
    if reply.status in transient or reply.status >= 500:
        error: Final | RetryLater = RetryLater(message, after=after or retry_after(reply))
    else:
        error = Final(message)
    error.server_message = server_message
    return error


def retry_after(reply: outbound.Reply) -> timedelta | None:
    """Return how long the server asks to wait, at most an hour, or None."""
    value = reply.headers.get("retry-after", "")
    if _SECONDS.fullmatch(value):
        return min(timedelta(seconds=int(value)), LONGEST_RETRY_AFTER)
    with suppress(ValueError, TypeError, OverflowError):
        delay = parsedate_to_datetime(value) - timezone.now()
        return min(delay, LONGEST_RETRY_AFTER) if delay > timedelta(0) else None
    return None


def beginning(reply: outbound.Reply, characters: int, run: Run) -> str:
    """Return the beginning of a reply's text."""
    return _cut(reply.text, characters, run, is_truncated=reply.truncated)


def _cut(text: str, characters: int, run: Run, *, is_truncated: bool = False) -> str:
    """Return the beginning of a text, without characters that cannot be stored or shown."""
    # Cleaned in the way that the masker expects, so that it still recognises secrets.
    start = limits.clean_output(text[:characters])
    if is_truncated or len(text) > characters:
        # Mask a secret that was cut in two here: later masking would not recognise a part of it.
        return f"{run.mask_cut(start).strip()}…"
    return start.strip()
