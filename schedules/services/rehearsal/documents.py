"""Rehearsals as JSON for programs and agents, and as sentences for pages, terminal and tools."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from schedules.services.rehearsal.agents import Spend
from schedules.services.rehearsal.collisions import MANY_STARTS, Queue
from schedules.services.rehearsal.rehearsal import MAX_JOBS, Line, Rehearsal, Total
from schedules.when import durations
from schedules.when.triggers import load_zone

UNKNOWN = "unknown"


def rehearsal_document(rehearsal: Rehearsal, zone: str, most: int) -> dict[str, Any]:
    """Return a rehearsal as JSON, with at most this many jobs; moments are in the zone."""
    return {
        "from": _iso(rehearsal.start, zone),
        "to": _iso(rehearsal.end, zone),
        "timezone": zone,
        "runs": rehearsal.count,
        "left_out": rehearsal.left_out,
        "jobs": [_line(line, zone) for line in rehearsal.lines[:most]],
        "crowded_minutes": rehearsal.collisions.crowded_minutes,
        "crowds": [
            {"at": _iso(crowd.at, zone), "starts": crowd.starts, "jobs": list(crowd.names)}
            for crowd in rehearsal.collisions.crowds
        ],
        "queues": [
            {
                "lane": queue.lane,
                "capacity": queue.capacity,
                "waiting": queue.waiting,
                "longest_seconds": queue.longest.total_seconds(),
                "at": _iso(queue.at, zone),
            }
            for queue in rehearsal.collisions.queues
        ],
        "spend": _total(rehearsal.spend) if rehearsal.spend else None,
        "notes": notes_on(rehearsal, most),
    }


def notes_on(rehearsal: Rehearsal, most: int) -> list[str]:
    """List what a rehearsal could not cover."""
    notes = []
    if len(rehearsal.lines) > most:
        notes.append(f"Only the first {most:,} of {len(rehearsal.lines):,} jobs are listed.")
    if rehearsal.is_cut:
        notes.append(f"Only the next {MAX_JOBS:,} jobs to run are rehearsed.")
    if rehearsal.unchecked:
        jobs = "One job runs" if rehearsal.unchecked == 1 else f"{rehearsal.unchecked:,} jobs run"
        notes.append(f"{jobs} too often to look at each run: overlaps and limits are not applied there.")
    if rehearsal.collisions.is_cut:
        notes.append("There are too many runs to find all collisions.")
    return notes


def describe_queue(queue: Queue) -> str:
    """Describe the runs that wait: "The runner notes, 2 at once: 3 runs wait, up to 10 min"."""
    runs = "1 run waits" if queue.waiting == 1 else f"{queue.waiting:,} runs wait"
    return f"{queue.lane}, {queue.capacity} at once: {runs}, up to {durations.short(queue.longest)}"


def describe_crowds(rehearsal: Rehearsal) -> str:
    """Describe the crowded minutes."""
    count = rehearsal.collisions.crowded_minutes
    minutes = "1 minute" if count == 1 else f"{count:,} minutes"
    return f"{minutes} in which {MANY_STARTS} or more runs start"


def describe_spend(spend: Spend) -> str:
    """Describe what the runs of one job will use."""
    if spend.minutes is None:
        return UNKNOWN
    money = UNKNOWN if spend.money is None else f"${spend.money:,.2f}"
    tokens = UNKNOWN if spend.tokens is None else f"{spend.tokens:,}"
    return f"{tokens} tokens, money {money}, {spend.minutes:,.0f} min"


def describe_total(total: Total) -> str:
    """Describe what the runs of all jobs will use, and what is not known about it."""
    runs = "1 agent run" if total.runs == 1 else f"{total.runs:,} agent runs"
    known = f"{runs}: {total.tokens:,} tokens, ${total.money:,.2f}, {total.minutes:,.0f} min"
    unknown = []
    if total.unknown:
        unknown.append(f"{_jobs(total.unknown)} without past runs unknown")
    if total.money_unknown:
        unknown.append(f"money of {_jobs(total.money_unknown)} unknown")
    return ", ".join([known, *unknown])


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


def _line(line: Line, zone: str) -> dict[str, Any]:
    return {
        "id": line.job_id,
        "name": line.name,
        "task": line.task,
        "runs": line.count,
        "first": _iso(line.first, zone),
        "last": _iso(line.last, zone),
        "left_out": [
            {
                "reason": each.reason,
                "count": each.count,
                "first": _iso(each.first, zone),
                "last": _iso(each.last, zone),
            }
            for each in line.left_out
        ],
        "waiting": line.waiting,
        "usual_seconds": line.took.total_seconds() if line.took else None,
        "problem": line.problem or None,
        "after": line.follows or None,
        "has_gate": line.has_gate,
        "spend": _spend(line.spend) if line.spend else None,
    }


def _spend(spend: Spend) -> dict[str, Any]:
    return {
        "runs": spend.runs,
        "tokens": spend.tokens,
        "money": None if spend.money is None else float(spend.money),
        "minutes": spend.minutes,
    }


def _total(total: Total) -> dict[str, Any]:
    return {
        "runs": total.runs,
        "tokens": total.tokens,
        "money": float(total.money),
        "minutes": total.minutes,
        "jobs_unknown": total.unknown,
        "jobs_without_money": total.money_unknown,
    }


def _iso(moment: datetime | None, zone: str) -> str | None:
    return moment.astimezone(load_zone(zone)).isoformat(timespec="seconds") if moment else None


def describe_left_out(line: Line) -> Sequence[str]:
    """Describe why runs of a job are left out, each reason with their number."""
    return [f"{each.count:,}x {each.reason}" for each in line.left_out]
