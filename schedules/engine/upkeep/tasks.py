"""The tasks of Cronty's own jobs: nightly pruning, reading calendars at addresses, and checking the cluster.

Addresses are read every 15 minutes; while one does not answer, its calendar keeps its last content.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction

from schedules import clock, engine
from schedules.engine.upkeep.calendars import COMPILED, compile_calendar, follow_calendar, years_of
from schedules.models import Calendar
from schedules.secrets.encryption import UnreadableError, unseal
from schedules.tasks import outbound
from schedules.tasks.registry import task
from schedules.when.calendar_rules import RuleError
from schedules.when.ics import MAX_CHARACTERS

READ_EVERY = timedelta(minutes=15)
# Less than `READ_EVERY`, because the job that reads calendars may start a little late.
_READ_AGAIN_AFTER = READ_EVERY - timedelta(minutes=5)
MAX_PER_RUN = 500
MAX_CONCURRENT = 8
TIMEOUT_SECONDS = 10
LONGEST_ERROR = 500


@task(title="Prune history", system=True, timeout=timedelta(minutes=5))
def prune_history() -> dict[str, int]:
    """Delete history beyond the configured limits, and add the years that come near to calendars."""
    engine.refresh_calendars(clock.now())
    return engine.prune_history()


@task(title="Read calendars", system=True, timeout=timedelta(minutes=15))
def read_calendar_addresses() -> dict[str, int]:
    """Read the calendars at addresses again; those that do not answer stay as they are."""
    return read_calendars(clock.now())


@task(title="Check the cluster", system=True)
def check_cluster() -> None:
    """Do nothing: a run that succeeds shows that jobs are fired, run and recorded."""


class AddressError(Exception):
    """An address that did not answer with a calendar; the text says why, without the address itself."""


async def fetch_calendar(url: str) -> str:
    """Return the calendar at an address, within limits of time and size; raises AddressError."""
    try:
        reply = await outbound.send(
            "GET", url, headers={"accept": "text/calendar"}, timeout=TIMEOUT_SECONDS, max_bytes=MAX_CHARACTERS
        )
    except outbound.OutboundError as error:
        raise AddressError(str(error)) from error
    host = outbound.Target.parse(url).host
    if 300 <= reply.status < 400:
        raise AddressError(
            f"{host} answered {reply.status}: redirects are not followed; enter the final address."
        )
    if reply.status != 200:
        raise AddressError(f"{host} answered {reply.status}.")
    if reply.truncated:
        raise AddressError(f"{host} sent more than {MAX_CHARACTERS // 1_000_000} MB, or broke off.")
    return reply.text


def digest_of(text: str, now: datetime) -> str:
    """Return a digest that changes when the content at an address changes, or the range of years to read."""
    return hashlib.sha256(f"{years_of(now)} {text}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def read_calendars(now: datetime) -> dict[str, int]:
    """Read the addresses that were not read lately; count how many were read, changed and failed."""
    due = Calendar.objects.exclude(sealed="").exclude(tried_at__gt=now - _READ_AGAIN_AFTER)
    keys = list(due.order_by("tried_at", "pk").values_list("pk", flat=True)[:MAX_PER_RUN])
    counts = {"read": 0, "changed": 0, "failed": 0}
    for start in range(0, len(keys), MAX_CONCURRENT):
        rows = list(Calendar.objects.filter(pk__in=keys[start : start + MAX_CONCURRENT]))
        for row, answer in zip(rows, asyncio.run(_fetch_all(rows)), strict=True):
            outcome = (
                _failed(row, str(answer), now)
                if isinstance(answer, AddressError)
                else _read(row, answer, now)
            )
            counts[outcome] += 1
    counts["read"] += counts["changed"]
    return counts


async def _fetch_all(rows: Sequence[Calendar]) -> list[str | AddressError]:
    return await asyncio.gather(*map(_fetch, rows))


async def _fetch(row: Calendar) -> str | AddressError:
    try:
        return await fetch_calendar(unseal(row.sealed, row.place))
    except AddressError as error:
        return error
    except UnreadableError:
        return AddressError("The address cannot be read with this installation's secret key: enter it again.")


def _read(row: Calendar, text: str, now: datetime) -> str:
    """Apply the content of an address, unless its owner has just changed the calendar."""
    before, digest = row.digest, digest_of(text, now)
    unchanged = Calendar.objects.filter(pk=row.pk, updated_at=row.updated_at)
    if digest != row.source_digest:
        try:
            # Outside the transaction, because it may take seconds.
            compile_calendar(row, now, text)
        except RuleError as error:
            return _failed(row, str(error), now)
    row.source_digest, row.tried_at, row.read_at, row.last_error = digest, now, now, ""
    with transaction.atomic():
        if unchanged.select_for_update().first() is None:
            return "read"
        row.save(update_fields=[*COMPILED, "source_digest", "tried_at", "read_at", "last_error"])
        if row.digest == before:
            return "read"
        follow_calendar(row, now)
    return "changed"


def _failed(row: Calendar, error: str, now: datetime) -> str:
    """Keep a calendar's last content, and record why it could not be read."""
    Calendar.objects.filter(pk=row.pk).update(tried_at=now, last_error=error[:LONGEST_ERROR])
    return "failed"
