"""Lists of jobs, heartbeats, runs and events as documents, and the cursors that lead from one page to the next."""

import re
from typing import Any

from schedules import clock
from schedules.models.counting import COUNTED
from schedules.models.jobs import JobQuerySet
from schedules.result import Code, Document, Err, RefusedError, invalid, operation
from schedules.services.documents import agent_json, listed_job, masked_run
from schedules.services.event_list import EventQuery, read_events
from schedules.services.job_list import JobQuery, read_jobs, read_newest
from schedules.services.jobs.addresses import newest_pings, ping_address_of, ping_addresses_of
from schedules.services.people.documents import event_json, heartbeat_json, ping_json
from schedules.services.permissions import Actor, read_activity
from schedules.services.reading import job_query, known_job_of, read_past_moment, run_query, source_problem
from schedules.services.run_list import find_run, last_written, read_runs
from schedules.services.runs.outputs import output_since
from schedules.services.runs.runner_list import agent_run_of
from schedules.tasks.heartbeat import HEARTBEAT

_KEY_CURSOR = re.compile(r"(-?[0-9]{1,18}~)?[0-9]{1,18}")
_OFFSET_CURSOR = re.compile(r"at([0-9]{1,9})")


def position_of(cursor: str) -> dict[str, str]:
    """Return the position that a cursor names; refuse one that no page has returned."""
    if cursor and not _KEY_CURSOR.fullmatch(cursor):
        raise _invalid_cursor()
    return {"after": cursor} if cursor else {}


def _invalid_cursor() -> RefusedError:
    why = "take it from next_cursor of the page before, with the same filters"
    return RefusedError(invalid("cursor", why))


@operation
def list_jobs(
    actor: Actor, *, order: str = "newest", limit: int = 50, cursor: str = "", **filters: Any
) -> Document:
    """List jobs, the newest first.

    The filters follow the rules of the page of jobs. `outcome` and `error` are those of the last run.
    """
    query = job_query(actor, filters, clock.now())
    if order == "next":
        return _jobs_by_next_run(actor, query, limit, cursor)
    page = read_newest(actor, query, _with_activity, position_of(cursor), limit)
    return {"jobs": [listed_job(job) for job in page.rows], "next_cursor": page.after or None}


def _jobs_by_next_run(actor: Actor, query: JobQuery, limit: int, cursor: str) -> Document:
    match = _OFFSET_CURSOR.fullmatch(cursor)
    if cursor and not match:
        raise _invalid_cursor()
    page = read_jobs(actor, query, _with_activity, size=limit, start=int(match[1]) if match else 0)
    note = None
    if page.are_jobs_cut:
        note = f"Only the first {COUNTED:,} jobs were looked through: give a status to see others."
    if query.source and not page.rows and (problem := source_problem(actor, query.source)):
        note = problem.text
    next_cursor = None if page.next_start is None else f"at{page.next_start}"
    return {"jobs": [listed_job(job) for job in page.rows], "next_cursor": next_cursor, "note": note}


@operation
def list_heartbeats(actor: Actor, *, limit: int = 50, cursor: str = "") -> Document:
    """List the jobs that run elsewhere, the newest first, with their ping addresses.

    `POST /jobs` with the task `heartbeat` makes one.
    """
    page = read_newest(actor, JobQuery(task=HEARTBEAT), _with_activity, position_of(cursor), limit)
    addresses = ping_addresses_of(page.rows)
    shown = [heartbeat_json(actor, job, addresses[job.pk]) for job in page.rows if job.pk in addresses]
    return {"heartbeats": shown, "next_cursor": page.after or None}


@operation
def show_heartbeat(actor: Actor, job: str) -> Document:
    """Show a job that runs elsewhere, with its last pings."""
    target = known_job_of(actor, job)
    address = ping_address_of(target)
    if address is None:
        raise RefusedError(Err(Code.PING_NOT_FOUND))
    read_activity(target)
    received = [ping_json(each, target.timezone) for each in newest_pings(address.heartbeat)]
    return heartbeat_json(actor, target, address) | {"received": received}


@operation
def list_events(actor: Actor, /, *, limit: int = 50, cursor: str = "", **filters: Any) -> Document:
    """List who changed what, the newest first, with the changes in words; secrets are masked.

    With `Accept: text/event-stream`, the answer is the stream of `GET /events/stream`.
    """
    now, zone, job = clock.now(), actor.read_profile().zone, filters.get("job")
    since, until = (read_past_moment(filters.get(name) or "", name, zone, now) for name in ("since", "until"))
    query = EventQuery(
        job=known_job_of(actor, job).public_id if job else "",
        since=since,
        until=until,
        **{name: filters.get(name) or "" for name in ("actor", "door", "verb")},
    )
    page = read_events(actor, query, position_of(cursor), limit)
    return {"events": [event_json(event, zone) for event in page.rows], "next_cursor": page.after or None}


@operation
def list_runs(
    actor: Actor, *, order: str = "newest", limit: int = 50, cursor: str = "", **filters: Any
) -> Document:
    """List runs, the newest first, perhaps of one job, with one outcome or since a time."""
    query, zone = run_query(actor, filters, clock.now()), actor.read_profile().zone
    if order == "written":
        return {
            "runs": [masked_run(run, zone) for run in last_written(actor, query, limit)],
            "next_cursor": None,
        }
    page = read_runs(actor, query, position_of(cursor), limit, with_results=True)
    return {"runs": [masked_run(run, zone) for run in page.rows], "next_cursor": page.after or None}


@operation
def show_run(actor: Actor, run: int) -> Document:
    """Show a run: when it was due, started and ended, its result or error, an explanation, and what its agent did."""
    shown = _run_of(actor, run)
    return masked_run(shown, actor.read_profile().zone) | {"agent": agent_json(agent_run_of(shown))}


@operation
def show_output(actor: Actor, run: int, *, position: int = 0, attempt: int = 0) -> Document:
    """Return what a run has printed, whole or from a position on, also while it goes on."""
    part = output_since(_run_of(actor, run), position, attempt)
    return {
        "text": part.text,
        "position": part.position,
        "attempt": part.attempt,
        "is_ended": part.is_ended,
    }


def _run_of(actor: Actor, run_id: int) -> Any:
    if run := find_run(actor, run_id):
        return run
    raise RefusedError(Err(Code.RUN_NOT_FOUND, run_id))


def _with_activity(jobs: JobQuerySet, **annotations: Any) -> JobQuerySet:
    return jobs.with_activity().annotate(**annotations)
