"""Rehearsals as JSON for programs and agents, and the sentences that every door shows."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from schedules.services.rehearsal.agents import Spend
from schedules.services.rehearsal.collisions import MANY_STARTS, Queue
from schedules.services.rehearsal.rehearsal import MAX_JOBS, Line, Rehearsal, Total
from schedules.when import durations
from schedules.when.triggers import load_zone

UNKNOWN = "unknown"


def rehearsal_document(told: Rehearsal, zone: str, most: int) -> dict[str, Any]:
    """Return a rehearsal as JSON, with the first jobs up to a number; moments are in the zone."""
    return {
        "from": _iso(told.start, zone),
        "to": _iso(told.end, zone),
        "timezone": zone,
        "runs": told.count,
        "left_out": told.left_out,
        "jobs": [_line(line, zone) for line in told.lines[:most]],
        "crowded_minutes": told.collisions.crowded_minutes,
        "crowds": [
            {"at": _iso(crowd.at, zone), "starts": crowd.starts, "jobs": list(crowd.names)}
            for crowd in told.collisions.crowds
        ],
        "queues": [
            {
                "lane": queue.lane,
                "capacity": queue.capacity,
                "waiting": queue.waiting,
                "longest_seconds": queue.longest.total_seconds(),
                "at": _iso(queue.at, zone),
            }
            for queue in told.collisions.queues
        ],
        "spend": _total(told.spend) if told.spend else None,
        "notes": notes_on(told, most),
    }


def notes_on(told: Rehearsal, most: int) -> list[str]:
    """Say what a rehearsal leaves open."""
    notes = []
    if len(told.lines) > most:
        notes.append(f"Only the first {most:,} of {len(told.lines):,} jobs are listed.")
    if told.is_cut:
        notes.append(f"Only the next {MAX_JOBS:,} jobs to run are rehearsed.")
    if told.unchecked:
        jobs = "One job runs" if told.unchecked == 1 else f"{told.unchecked:,} jobs run"
        notes.append(f"{jobs} too often to look at each run: overlaps and limits are not applied there.")
    if told.collisions.is_cut:
        notes.append("There are too many runs to find all collisions.")
    return notes


def queue_words(queue: Queue) -> str:
    """Say which runs wait for a place: "The runner notes, 2 at once: 3 runs wait, up to 10 min"."""
    runs = "1 run waits" if queue.waiting == 1 else f"{queue.waiting:,} runs wait"
    return f"{queue.lane}, {queue.capacity} at once: {runs}, up to {durations.short(queue.longest)}"


def crowd_words(told: Rehearsal) -> str:
    """Say in how many minutes many runs start."""
    count = told.collisions.crowded_minutes
    minutes = "1 minute" if count == 1 else f"{count:,} minutes"
    return f"{minutes} in which {MANY_STARTS} or more runs start"


def spend_words(spend: Spend) -> str:
    """Say what the runs of one job will use."""
    if spend.minutes is None:
        return UNKNOWN
    money = UNKNOWN if spend.money is None else f"${spend.money:,.2f}"
    tokens = UNKNOWN if spend.tokens is None else f"{spend.tokens:,}"
    return f"{tokens} tokens, money {money}, {spend.minutes:,.0f} min"


def total_words(total: Total) -> str:
    """Say what the runs of all jobs will use, and how much of that is not known."""
    runs = "1 agent run" if total.runs == 1 else f"{total.runs:,} agent runs"
    words = f"{runs}: {total.tokens:,} tokens, ${total.money:,.2f}, {total.minutes:,.0f} min"
    open_questions = []
    if total.unknown:
        open_questions.append(f"{_jobs(total.unknown)} without past runs unknown")
    if total.money_unknown:
        open_questions.append(f"money of {_jobs(total.money_unknown)} unknown")
    return ", ".join([words, *open_questions])


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


def left_out_words(line: Line) -> Sequence[str]:
    """Say why runs of a job are left out, each reason with their number."""
    return [f"{each.count:,}x {each.reason}" for each in line.left_out]
