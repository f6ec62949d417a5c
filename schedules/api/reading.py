"""Conversion of request values for the services: moments, filters and references to jobs."""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any, TypeVar

from schedules import clock
from schedules.api.problems import expect, invalid_value, problem_of
from schedules.api.schemas.jobs import JobFilters
from schedules.api.schemas.runs import RunFilters
from schedules.models import Job
from schedules.models.executions import OUTCOME_LETTERS
from schedules.models.jobs import JobQuerySet
from schedules.services import Actor
from schedules.services.job_list import JobQuery
from schedules.services.jobs.references import public_id_of, resolve_job
from schedules.services.permissions import not_found
from schedules.services.run_list import RunQuery
from schedules.services.text_search import text_problem
from schedules.spec import readers
from schedules.when.periods import Period
from schedules.when.phrases import PhraseError, parse_moment
from schedules.when.triggers import TriggerError

M = TypeVar("M", date, datetime, Period)
V = TypeVar("V")

# How far back runs are searched for outcomes that a job itself does not store.
DEFAULT_PERIOD = timedelta(days=7)


def read_zone(name: str, field: str = "timezone") -> str:
    return read_value(readers.read_zone, name, field)


def read_value(read: Callable[[Any, datetime], V], value: Any, field: str) -> V:
    """Read a value with one of the readers of jobs."""
    try:
        return read(value, clock.now())
    except TriggerError as error:
        raise invalid_value(field, error.reason) from error
    except PhraseError as error:
        raise invalid_value(field, str(error)) from error


def read_moment(parse: Callable[..., M], text: str, field: str, zone: str, now: datetime, **rules: bool) -> M:
    """Read a time or a phrase with one of the parsers; without an offset, it is read in the zone."""
    try:
        return parse(text, now=now, timezone=zone, **rules)
    except (PhraseError, TriggerError) as error:
        raise invalid_value(field, str(error)) from error


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
