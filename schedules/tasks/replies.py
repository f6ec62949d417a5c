"""What a task makes of a server's reply: whether to retry and when, and what the server said."""

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

RETRY_AFTER_SECONDS = re.compile(r"[0-9]{1,9}")
LONGEST_RETRY_AFTER = timedelta(hours=1)


async def send_or_retry(method: str, url: str, **request: Any) -> outbound.Reply:
    """Send a request; raises Final or RetryLater if there is no reply."""
    try:
        return await outbound.send(method, url, **request)
    except outbound.OutboundError as error:
        raise (RetryLater if error.retryable else Final)(str(error)) from error


def redirect(reply: outbound.Reply, message: str, advice: str, run: Run) -> Final | RetryLater:
    """Return the error for a redirect, which nobody follows."""
    target = cut(reply.headers.get("location", ""), 200, run)
    return failure(reply, f"{message}: redirects are not followed; {advice}", target)


def failure(
    reply: outbound.Reply, message: str, said: str, after: timedelta | None = None
) -> Final | RetryLater:
    """Return the error for a reply: one that says whether a retry may help, and when."""
    message = f"{message}: {said}" if said else message
    transient = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)
    if reply.status in transient or reply.status >= 500:
        error: Final | RetryLater = RetryLater(message, after=after or asked_to_wait(reply))
    else:
        error = Final(message)
    error.said = said
    return error


def asked_to_wait(reply: outbound.Reply) -> timedelta | None:
    """Return how long the server asks to wait, at most an hour, or None."""
    retry_after = reply.headers.get("retry-after", "")
    if RETRY_AFTER_SECONDS.fullmatch(retry_after):
        return min(timedelta(seconds=int(retry_after)), LONGEST_RETRY_AFTER)
    with suppress(ValueError, TypeError, OverflowError):
        until = parsedate_to_datetime(retry_after) - timezone.now()
        return min(until, LONGEST_RETRY_AFTER) if until > timedelta(0) else None
    return None


def beginning(reply: outbound.Reply, characters: int, run: Run) -> str:
    """Return the beginning of a reply's text."""
    return cut(reply.text, characters, run, is_truncated=reply.truncated)


def cut(text: str, characters: int, run: Run, *, is_truncated: bool = False) -> str:
    """Return the beginning of what a server said, without characters that cannot be stored or shown."""
    # Clean it as the mask expects it: a secret must look the same in both.
    kept = limits.clean_output(text[:characters])
    if is_truncated or len(text) > characters:
        # Whoever masks the secrets of the result would not recognise a part of one.
        return f"{run.mask_cut(kept).strip()}…"
    return kept.strip()
