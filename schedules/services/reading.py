"""Values and references to jobs as callers write them; what is wrong is raised as RefusedError."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Never, TypeVar

from schedules import clock
from schedules.models import Job
from schedules.models.executions import OUTCOME_LETTERS
from schedules.models.jobs import JobQuerySet
from schedules.result import Code, Err, RefusedError, expect, invalid
from schedules.services.files.sources import sources_of
from schedules.services.job_list import JobQuery
from schedules.services.jobs.references import (
    looks_like_id,
    looks_like_public_id,
    newest_names,
    public_id_of,
    resolve_job,
)
from schedules.services.permissions import Actor, not_found
from schedules.services.run_list import RunQuery
from schedules.services.text_search import text_problem
from schedules.spec.readers import reason_in
from schedules.when.phrases import PhraseError, parse_day, parse_moment
from schedules.when.triggers import TriggerError

V = TypeVar("V")

# How far back runs are searched for outcomes that a job itself does not store.
# How many job names are searched for a suggestion.
MAX_NAMES = 10_000
DEFAULT_PERIOD = timedelta(days=7)
_MOMENT = re.compile(r"\s*[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]\s*[0-9]")


def read_value(read: Callable[[Any, datetime], V], value: Any, field: str) -> V:
    """Read a value with one of the readers of jobs."""
    try:
        return read(value, clock.now())
    except (PhraseError, TriggerError) as error:
        raise RefusedError(invalid(field, reason_in(error))) from error


def read_moment(parse: Callable[..., V], text: str, field: str, zone: str, now: datetime, **rules: bool) -> V:
    """Read a time or a phrase with one of the parsers; without an offset, it is read in the zone."""
    try:
        return parse(text, now=now, timezone=zone, **rules)
    except (PhraseError, TriggerError) as error:
        raise RefusedError(invalid(field, str(error))) from error


def read_past_moment(text: str, field: str, zone: str, now: datetime) -> datetime | None:
    """Read a bound of a list; an empty text is no bound."""
    if not text:
        return None
    return read_moment(parse_moment, text, field, zone, now, past=True, has_horizon=False)


def read_pause_end(text: str | None, zone: str, now: datetime) -> datetime | None:
    """Read until when a pause lasts; a day means its start."""
    if text is None:
        return None
    return read_moment(parse_moment, text, "until", zone, now, may_be_day=True)


def days_and_slots(
    texts: Collection[str], zone: str, now: datetime, field: str = "dates"
) -> tuple[list[date], list[datetime]]:
    """Read days, like "tomorrow" or "2030-12-24", and runs in ISO 8601."""
    slots = [text for text in texts if _MOMENT.match(text)]
    days = [text for text in texts if not _MOMENT.match(text)]
    return (
        [read_moment(parse_day, text, field, zone, now) for text in days],
        [read_moment(parse_moment, text, field, zone, now) for text in slots],
    )


def job_id_of(actor: Actor, reference: str, *, among: JobQuerySet | None = None) -> str:
    """Return the id of the job with this id, number or exact name; an unknown name is refused with a similar one."""
    jobs = actor.jobs() if among is None else among
    match = expect(public_id_of(jobs, reference))
    return match if looks_like_public_id(match) else _refuse_unknown(jobs, match)


def job_of(actor: Actor, reference: str) -> Job:
    """Return the job with this id, number or exact name, with its activity."""
    job_id = job_id_of(actor, reference)
    job = actor.job(job_id)
    if job is None:
        raise RefusedError(not_found(job_id))
    return job


def known_job_of(actor: Actor, reference: str) -> Job:
    """Return the job with this id, number or exact name, also from the trash."""
    job = expect(resolve_job(actor.jobs_with_trash(), reference))
    if job is None:
        _refuse_unknown(actor.jobs(), reference)
    return job


def _refuse_unknown(jobs: JobQuerySet, reference: str) -> Never:
    names = () if looks_like_id(reference) else newest_names(jobs, MAX_NAMES)
    hint = did_you_mean(reference, names, '"{}"')
    raise RefusedError(not_found(f"{reference}.{hint}" if hint else reference))


def source_problem(actor: Actor, name: str) -> Err | None:
    """Return the refusal of a source that no job has, with a similar one, or None."""
    sources = sources_of(actor)
    if name in sources:
        return None
    return Err(Code.SOURCE_NOT_FOUND, f"{name}.{did_you_mean(name, sources)}".removesuffix("."))


def did_you_mean(text: str, names: Iterable[str], form: str = "{}") -> str:
    """Return a suggestion of the most similar name, to append to an error, or an empty text."""
    folded = {name.casefold(): name for name in names}
    typed = text.strip().casefold()
    matches = get_close_matches(typed, folded, n=1)
    if not matches and len(typed) > 2:
        # A part of a long name is not similar enough to it.
        matches = [name for name in folded if typed in name]
    return f" Did you mean {form.format(folded[matches[0]])}?" if len(matches) == 1 else ""


def job_as_seen(actor: Actor, reference: str, revision: int | None) -> Job:
    """Return a job; refuse it if it is no longer as the caller saw it."""
    job = job_of(actor, reference)
    if revision is not None and revision != job.revision:
        raise RefusedError(Err(Code.JOB_CHANGED, job.public_id))
    return job


def job_query(actor: Actor, filters: Mapping[str, Any], now: datetime) -> JobQuery:
    """Read the filters of a list of jobs: query, status, tag, task, outcome, since, source and trash."""
    query, tag = _texts(filters, "query", "tag")
    outcome = filters.get("outcome") or ""
    since = read_past_moment(filters.get("since") or "", "since", actor.read_profile().zone, now)
    if since is None and outcome and outcome not in OUTCOME_LETTERS:
        since = now - DEFAULT_PERIOD
    return JobQuery(
        text=query,
        tag=tag,
        task=filters.get("task") or "",
        outcome=outcome,
        since=since,
        status=filters.get("status") or "",
        source=filters.get("source") or "",
        in_trash=bool(filters.get("trash")),
    )


def run_query(actor: Actor, filters: Mapping[str, Any], now: datetime) -> RunQuery:
    """Read the filters of a list of runs: job, status, outcome, cause, task, query, since and until."""
    [text] = _texts(filters, "query")
    zone, job = actor.read_profile().zone, filters.get("job")
    since, until = (read_past_moment(filters.get(name) or "", name, zone, now) for name in ("since", "until"))
    return RunQuery(
        job=known_job_of(actor, job) if job else "",
        text=text,
        since=since,
        until=until,
        **{name: filters.get(name) or "" for name in ("status", "outcome", "cause", "task")},
    )


def _texts(filters: Mapping[str, Any], *fields: str) -> Sequence[str]:
    texts = {name: filters.get(name) or "" for name in fields}
    for name, text in texts.items():
        if problem := text_problem(text):
            raise RefusedError(invalid(name, problem))
    return [text.strip() for text in texts.values()]
