"""Import checks of healthchecks, as its API lists them, as heartbeats that keep their ping addresses."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.db import transaction

from schedules import clock
from schedules.limits import MAX_TAGS, NAME_LENGTH, TAG_LENGTH, line_problem, strip_unprintable
from schedules.models import Heartbeat, Profile
from schedules.models.heartbeats import is_ping_key
from schedules.result import Code, Err, Ok, Result, invalid
from schedules.services.files.applying import apply_plan
from schedules.services.files.plans import Plan
from schedules.services.people.profiles import profile_of
from schedules.services.permissions import Actor
from schedules.tasks.heartbeat import HEARTBEAT, LONGEST_GRACE, SLUG
from schedules.when import durations
from schedules.when.phrases import PhraseError
from schedules.when.repeats import parse_trigger
from schedules.when.triggers import Cron, TriggerError, load_zone

FORM = 'Give the JSON that its API answers at /api/v3/checks/, an object with "checks".'
# Fields of checks that heartbeats do not have: integrations, and rules for pings by e-mail and by method.
_UNSUPPORTED = (
    *(
        "channels",
        "methods",
        "manual_resume",
        "start_kw",
        "success_kw",
        "failure_kw",
        "subject",
        "subject_fail",
    ),
    *("filter_subject", "filter_body", "filter_http_body", "filter_default_fail"),
)


class ChecksError(Exception):
    """The file is not a list of checks; the text says what to give."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A check that is not taken over, and why."""

    name: str
    reason: str


@dataclass(slots=True)
class Checks:
    """The content of a file: jobs and ping ids by the key of the job, and what cannot be taken over."""

    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    ping_ids: dict[str, UUID] = field(default_factory=dict)
    ping_keys: set[str] = field(default_factory=set)
    left_out: list[LeftOut] = field(default_factory=list)
    has_more: bool = False
    """Whether checks have integrations or rules for their pings, which are not taken over."""


def parse_checks(text: str) -> Checks:
    """Parse a reply of the API; raises ChecksError for anything else."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ChecksError(FORM) from error
    rows = document.get("checks") if isinstance(document, dict) else document
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ChecksError(FORM)
    checks = Checks()
    for number, row in enumerate(rows, 1):
        name = " ".join(strip_unprintable(str(row.get("name") or "")).split())[:NAME_LENGTH]
        label = name or str(row.get("slug") or "") or f"Check {number}"
        try:
            _add(checks, label, row)
        except _UnusableError as error:
            checks.left_out.append(LeftOut(label, str(error)))
    return checks


class _UnusableError(Exception):
    """Why a check cannot be taken over."""


def _add(checks: Checks, name: str, row: Mapping[str, Any]) -> None:
    ping_id, ping_key = _address(row)
    if ping_id in checks.ping_ids.values():
        raise _UnusableError("its UUID is in the file twice")
    if problem := line_problem(name):
        raise _UnusableError(problem)
    job = {**_schedule(row), "task": HEARTBEAT, "arguments": _arguments(row)}
    if tags := [tag[:TAG_LENGTH] for tag in str(row.get("tags") or "").split()][:MAX_TAGS]:
        job["tags"] = tags
    if row.get("status") == "paused":
        job["paused"] = True
    # The id, so that the job is recognized when it is imported again under another name.
    key = str(ping_id)
    checks.jobs[key], checks.ping_ids[key] = {"name": name, **job}, ping_id
    checks.has_more |= any(row.get(name) for name in _UNSUPPORTED)
    if ping_key:
        checks.ping_keys.add(ping_key)


def _address(row: Mapping[str, Any]) -> tuple[UUID, str]:
    """Return the UUID of a check, and the ping key if its address contains one."""
    parts = [part for part in urlsplit(str(row.get("ping_url") or "")).path.split("/") if part]
    key = ""
    if len(parts) >= 2 and parts[-1] == row.get("slug") and is_ping_key(parts[-2]):
        key = parts[-2]
    for text in (row.get("uuid"), parts[-1] if parts else None):
        try:
            return UUID(str(text)), key
        except ValueError:
            continue
    raise _UnusableError("it has no UUID: the list was read with a read-only key; use a full one")


def _schedule(row: Mapping[str, Any]) -> dict[str, Any]:
    expression, zone = row.get("schedule"), row.get("tz") or "UTC"
    if not expression:
        return {"schedule": {"every": _span(row.get("timeout"), "timeout")}, "timezone": "UTC"}
    try:
        load_zone(str(zone))
        if not isinstance(parse_trigger(str(expression), now=clock.now(), timezone=str(zone)), Cron):
            raise _UnusableError(f"its schedule {expression!r} is no cron expression")
    except (PhraseError, TriggerError) as error:
        raise _UnusableError(f"its schedule {expression!r} in {zone}: {error}") from error
    return {"schedule": str(expression), "timezone": str(zone)}


def _arguments(row: Mapping[str, Any]) -> dict[str, str]:
    slug = row.get("slug")
    named = {"slug": slug} if isinstance(slug, str) and SLUG.fullmatch(slug) else {}
    return {"grace": _span(row.get("grace"), "grace"), **named}


def _span(seconds: Any, name: str) -> str:
    longest = LONGEST_GRACE.total_seconds()
    if not isinstance(seconds, int) or isinstance(seconds, bool) or not 0 < seconds <= longest:
        raise _UnusableError(f"its {name} is not a number of seconds up to a year")
    return durations.typed(timedelta(seconds=seconds))


def leave_out_taken(actor: Actor, checks: Checks, source: str) -> None:
    """Leave out the checks whose UUID another heartbeat has, even one of somebody else."""
    taken = Heartbeat.objects.filter(ping_id__in=list(checks.ping_ids.values())).select_related("job")
    for heartbeat in taken:
        key = str(heartbeat.ping_id)
        is_same = heartbeat.owner_id == actor.user.pk and (
            (heartbeat.job.source, heartbeat.job.source_key) == (source, key)
        )
        if not is_same:
            name = checks.jobs.pop(key)["name"]
            del checks.ping_ids[key]
            checks.left_out.append(LeftOut(name, "another heartbeat here has its UUID"))


def ping_key_to_take(actor: Actor, keys: set[str], *, replace: bool) -> Result[str]:
    """Return the ping key that addresses with names need, or an empty text if the person already has it."""
    if not keys:
        return Ok("")
    key = min(keys)
    if len(keys) > 1:
        return Err(Code.PING_KEYS_DIFFER)
    if not is_ping_key(key):
        return invalid("ping_key", "Enter 8 or more letters, digits, - and _.")
    mine = profile_of(actor.user).ping_key
    if mine == key:
        return Ok("")
    if Profile.objects.filter(ping_key=key).exists():
        return Err(Code.PING_KEY_TAKEN)
    return Ok(key) if replace or not mine else Err(Code.PING_KEY_KEPT)


def take_over(actor: Actor, plan: Plan, ping_ids: Mapping[str, UUID], ping_key: str) -> Result[Plan]:
    """Apply a plan, and give its new heartbeats the ids that their clients use; all of it or nothing."""
    with transaction.atomic():
        if ping_key:
            Profile.objects.filter(user=actor.user.pk).update(ping_key=ping_key)
        applied = apply_plan(actor, plan)
        if isinstance(applied, Err):
            transaction.set_rollback(True)
            return applied
        _keep_ids(plan, ping_ids)
    return applied


def _keep_ids(plan: Plan, ping_ids: Mapping[str, UUID]) -> None:
    ids_by_job = {step.job.pk: ping_ids[step.key] for step in plan.steps if step.key in ping_ids}
    heartbeats: Sequence[Heartbeat] = list(Heartbeat.objects.filter(job__in=ids_by_job))
    for heartbeat in heartbeats:
        heartbeat.ping_id = ids_by_job[heartbeat.job_id]
    Heartbeat.objects.bulk_update(heartbeats, ["ping_id"], batch_size=200)
