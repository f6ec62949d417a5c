"""Pages of lists, and the cursors that lead from one page to the next."""

import re
from typing import Any

from schedules.api.problems import ProblemError, invalid_value
from schedules.api.schemas.common import Paged
from schedules.api.schemas.jobs import JobFilters
from schedules.api.schemas.runs import RunFilters
from schedules.models.counting import COUNTED
from schedules.models.jobs import JobQuerySet
from schedules.services import Actor
from schedules.services.documents import heartbeat_json, listed_job, masked_run
from schedules.services.job_list import JobQuery, read_jobs, read_newest
from schedules.services.jobs.heartbeats import ping_addresses_of
from schedules.services.run_list import RunQuery, read_runs
from schedules.tasks.heartbeat import HEARTBEAT

_KEY_CURSOR = re.compile(r"[0-9]{1,2}~-?[0-9]{0,18}~[0-9]{1,18}")
_OFFSET_CURSOR = re.compile(r"at([0-9]{1,9})")


def position_of(cursor: str) -> dict[str, str]:
    """Return the position that a cursor names; refuse one that no page has returned."""
    if cursor and not _KEY_CURSOR.fullmatch(cursor):
        raise _invalid_cursor()
    return {"after": cursor} if cursor else {}


def _invalid_cursor() -> ProblemError:
    return invalid_value("cursor", "take it from next_cursor of the page before, with the same filters")


def jobs_page(actor: Actor, query: JobQuery, filters: JobFilters) -> dict[str, Any]:
    if filters.order == "next":
        return _jobs_by_next_run(actor, query, filters)
    page = read_newest(actor, query, _with_activity, position_of(filters.cursor), filters.limit)
    return {"jobs": [listed_job(job) for job in page.rows], "next_cursor": page.after or None}


def _jobs_by_next_run(actor: Actor, query: JobQuery, filters: JobFilters) -> dict[str, Any]:
    match = _OFFSET_CURSOR.fullmatch(filters.cursor)
    if filters.cursor and not match:
        raise _invalid_cursor()
    start = int(match[1]) if match else 0
    page = read_jobs(actor, query, _with_activity, size=filters.limit, start=start)
    note = None
    if page.are_jobs_cut:
        note = f"Only the first {COUNTED:,} jobs were looked through: give a status to see others."
    next_cursor = None if page.next_start is None else f"at{page.next_start}"
    return {"jobs": [listed_job(job) for job in page.rows], "next_cursor": next_cursor, "note": note}


def runs_page(actor: Actor, query: RunQuery, filters: RunFilters) -> dict[str, Any]:
    page = read_runs(actor, query, position_of(filters.cursor), filters.limit, with_results=True)
    zone = actor.read_profile().zone
    return {"runs": [masked_run(run, zone) for run in page.rows], "next_cursor": page.after or None}


def heartbeats_page(actor: Actor, options: Paged) -> dict[str, Any]:
    query = JobQuery(task=HEARTBEAT)
    page = read_newest(actor, query, _with_activity, position_of(options.cursor), options.limit)
    addresses = ping_addresses_of(page.rows)
    shown = [heartbeat_json(actor, job, addresses[job.pk]) for job in page.rows if job.pk in addresses]
    return {"heartbeats": shown, "next_cursor": page.after or None}


def _with_activity(jobs: JobQuerySet, **annotations: Any) -> JobQuerySet:
    return jobs.with_activity().annotate(**annotations)
