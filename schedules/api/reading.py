"""Conversion of request values for the services: schedules, durations, moments, filters and references to jobs."""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any, TypeVar

from schedules import clock
from schedules.api.problems import expect, invalid_value, problem_of
from schedules.api.schemas.jobs import JobFilters, SchedulePolicies
from schedules.api.schemas.runs import RunFilters
from schedules.models import Job
from schedules.models.executions import OUTCOME_LETTERS
from schedules.models.jobs import JobQuerySet
from schedules.services import Actor
from schedules.services.job_list import JobQuery
from schedules.services.jobs.references import public_id_of, resolve_job
from schedules.services.jobs.schedule_texts import read_schedule
from schedules.services.jobs.validation import with_given
from schedules.services.permissions import not_found
from schedules.services.run_list import RunQuery
from schedules.services.text_search import text_problem
from schedules.when.periods import Period, ends_of, parse_period
from schedules.when.phrases import PhraseError, parse_end, parse_moment
from schedules.when.spans import parse_span
from schedules.when.triggers import TriggerError, load_zone
from schedules.when.zone_names import zone_named

M = TypeVar("M", date, datetime, Period)

# How far back runs are searched for outcomes that a job itself does not store.
DEFAULT_PERIOD = timedelta(days=7)
MAX_SPAN_SECONDS = 10**9
_SPANS = ("backoff", "timeout", "spread")
_PLAIN_FIELDS = (
    "label",
    "tags",
    "grants",
    "attempts",
    "fixed_backoff",
    "overlap",
    "catch_up",
    "pause_after_failures",
    "at_most_once",
    "alerts",
    "calendars",
    "on_closed",
)


def read_zone(name: str, field: str = "timezone") -> str:
    zone = zone_named(name)
    try:
        load_zone(zone)
    except TriggerError as error:
        raise invalid_value(field, error.reason) from error
    return zone


def schedule_fields(
    text: str, policies: SchedulePolicies, owner_id: int, zone: str, now: datetime
) -> dict[str, Any]:
    """Return what the text of a schedule sets, together with the policies that are set beside it."""
    try:
        schedule = read_schedule(text, owner_id=owner_id, now=now, timezone=zone)
    except (PhraseError, TriggerError) as error:
        raise invalid_value("schedule", str(error)) from error
    return expect(with_given(schedule.fields, columns_of_policies(policies, zone, now)))


def columns_of_policies(policies: SchedulePolicies, zone: str, now: datetime) -> dict[str, Any]:
    """Return the columns for the policies that are set."""
    values = policies.model_dump(exclude_none=True)
    columns = {name: values[name] for name in _PLAIN_FIELDS if name in values}
    columns |= {name: read_span(values[name], name) for name in _SPANS if name in values}
    if columns.get("alerts") == "default":
        columns["alerts"] = ""
    if "max_runs" in values:
        columns["max_runs"] = values["max_runs"] or None
    match values.get("ends_at"):
        case None:
            pass
        case "none" | "":
            columns["ends_at"] = None
        case text:
            columns["ends_at"] = read_moment(parse_end, text, "ends_at", zone, now)
    return columns


def read_span(value: str | float, field: str) -> timedelta:
    if not isinstance(value, str):
        if not 0 <= value <= MAX_SPAN_SECONDS:
            raise invalid_value(field, f"choose 0 to {MAX_SPAN_SECONDS:,} seconds")
        return timedelta(seconds=value)
    try:
        return parse_span(value, clock.now())
    except PhraseError as error:
        raise invalid_value(field, str(error)) from error


def read_moment(parse: Callable[..., M], text: str, field: str, zone: str, now: datetime, **rules: bool) -> M:
    """Read a time or a phrase with one of the parsers; without an offset, it is read in the zone."""
    try:
        return parse(text, now=now, timezone=zone, **rules)
    except (PhraseError, TriggerError) as error:
        raise invalid_value(field, str(error)) from error


def read_period(first: str, last: str, zone: str, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Return the start of `from` and the end of `to`; a day or period alone is whole."""
    periods = [
        read_moment(parse_period, text, field, zone, now) if text else None
        for field, text in (("from", first), ("to", last))
    ]
    return ends_of(*periods)


def read_past_moment(text: str, field: str, zone: str, now: datetime) -> datetime | None:
    """Read a bound of a list; an empty text is no bound."""
    if not text:
        return None
    return read_moment(parse_moment, text, field, zone, now, past=True, has_horizon=False)


def job_id_of(actor: Actor, reference: str, *, among: JobQuerySet | None = None) -> str:
    """Return the id of the job with this id, number or exact name."""
    return expect(public_id_of(actor.jobs() if among is None else among, reference))


def job_of(actor: Actor, reference: str) -> Job:
    """Return the job with this id, number or exact name, with its activity."""
    job_id = job_id_of(actor, reference)
    job = actor.job(job_id)
    if job is None:
        raise problem_of(not_found(job_id))
    return job


def known_job_of(actor: Actor, reference: str) -> Job:
    """Return the job with this id, number or exact name, also from the trash."""
    job = expect(resolve_job(actor.jobs_with_trash(), reference))
    if job is None:
        raise problem_of(not_found(reference))
    return job


def read_job_query(actor: Actor, filters: JobFilters, now: datetime) -> JobQuery:
    check_texts(query=filters.query, tag=filters.tag)
    since = read_past_moment(filters.since, "since", actor.read_profile().zone, now)
    if since is None and filters.outcome and filters.outcome not in OUTCOME_LETTERS:
        since = now - DEFAULT_PERIOD
    return JobQuery(
        text=filters.query.strip(),
        tag=filters.tag.strip(),
        task=filters.task,
        outcome=filters.outcome or "",
        since=since,
        status=filters.status or "",
        source=filters.source,
        in_trash=filters.trash,
    )


def read_run_query(actor: Actor, filters: RunFilters, now: datetime) -> RunQuery:
    check_texts(query=filters.query)
    zone = actor.read_profile().zone
    return RunQuery(
        job=known_job_of(actor, filters.job) if filters.job else "",
        status=filters.status or "",
        outcome=filters.outcome or "",
        cause=filters.cause or "",
        task=filters.task,
        text=filters.query.strip(),
        since=read_past_moment(filters.since, "since", zone, now),
        until=read_past_moment(filters.until, "until", zone, now),
    )


def check_texts(**texts: str) -> None:
    for field, text in texts.items():
        if problem := text_problem(text):
            raise invalid_value(field, problem)
