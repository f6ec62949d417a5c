"""What is compared: the systems, the measures, and what the results say about each."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NAMES = {
    "cronty": "Cronty",
    "apscheduler": "APScheduler 3",
    "huey": "huey",
    "django_tasks_db": "django-tasks-db",
    "django_q2": "django-q2 (its Schedule)",
    "celery": "Celery + Redis",
    "apscheduler_memory": "APScheduler 3 (memory)",
    "procrastinate": "procrastinate",
    "floor": "floor (bare loop)",
}
# Only systems of one part are compared: all of them wait for the disk before a task begins, or none does.
PARTS = {
    "SQLite, `synchronous=FULL`: waits for the disk": (
        "cronty/sqlite",
        "apscheduler/sqlite",
        "huey/sqlite",
        "django_tasks_db/sqlite",
        "django_q2/sqlite",
        "floor/sqlite",
    ),
    "SQLite, `synchronous=NORMAL`, or a store of its own: does not wait for the disk": (
        "cronty/sqlite-normal",
        "apscheduler/sqlite-normal",
        "celery/none",
        "django_tasks_db/sqlite-normal",
        "apscheduler_memory/none",
        "floor/sqlite-normal",
    ),
    "PostgreSQL: waits for the disk": (
        "cronty/postgresql",
        "apscheduler/postgresql",
        "procrastinate/postgresql",
        "django_tasks_db/postgresql",
        "django_q2/postgresql",
        "floor/postgresql",
    ),
}
RATES = {"SQLite": "rates/sqlite", "PostgreSQL": "rates/postgresql"}
# These are no durable schedulers: they show what is possible, and do not count as peers.
BOUNDS = ("floor", "apscheduler_memory")


@dataclass(frozen=True)
class Measure:
    """One row of the table: the key in the results, and which of its values is compared."""

    key: str
    row: str
    value: str
    reason: str


MEASURES = (
    Measure(
        "single",
        "single jobs: late by, p50 / p99",
        "p99",
        "A due job takes one transaction to claim it, a message to a worker process and one transaction to start it, "
        "because a crash between any two steps must leave a row that says so. APScheduler calls the function in the "
        "process that reads the schedule; Celery's worker already holds the job in memory, and its timer calls it.",
    ),
    Measure(
        "coroutines",
        "1,000 coroutines due at once: late by, p99",
        "p99",
        "Every run is a ledger row before its task begins, and another process runs it.",
    ),
    Measure(
        "plain",
        "1,000 functions due at once: late by, p99",
        "p99",
        "Plain functions run one at a time in each worker, each under its own time limit, and their starts are "
        "committed before they are called.",
    ),
    Measure(
        "large",
        "10,000 due at once: all ended and stored",
        "settled",
        "Every run is written three times: claimed, started and settled.",
    ),
)


def find(run: Mapping[str, Any], measure: Measure) -> dict[str, Any]:
    """Return the result of a measure; systems without coroutines run the same work as plain functions."""
    is_plain = measure.key == "coroutines" and not run.get("about", {}).get("runs_coroutines")
    found: dict[str, Any] = run.get("plain" if is_plain else measure.key, {})
    return found


def text_of(run: Mapping[str, Any], measure: Measure) -> str:
    """Return what the table says about a measure."""
    result = find(run, measure)
    if run.get("absent"):
        return "absent"
    if not result:
        return "not measured"
    mark = " (loaded)" if result["load"]["is_heavy"] else ""
    value = value_of(run, measure)
    if value is None:
        return (f"not in {result['limit']:.0f} s" if "limit" in result else "not all began") + mark
    text = both(result["p50"], result["p99"]) if measure.key == "single" else duration(value)
    if measure.key in ("coroutines", "large") and result.get("kind") == "plain":
        text += " †"
    if result["early"]:
        text += " ‡"
    if result["began"] > result["jobs"]:
        text += f" ({result['began'] - result['jobs']} ran twice)"
    return text + mark


def value_of(run: Mapping[str, Any], measure: Measure) -> float | None:
    """Return the compared value in seconds, or None if not every job came to its end within the limit."""
    result = find(run, measure)
    if not result or result["began"] < result["jobs"]:
        return None
    value: float | None = result[measure.value]
    return value


def both(p50: float, p99: float) -> str:
    if p99 < 1:
        return f"{number(p50 * 1000)} / {number(p99 * 1000)} ms"
    return f"{number(p50)} / {number(p99)} s"


def losses(runs: Mapping[str, Any]) -> list[str]:
    """Name every peer that is quicker than Cronty, and why."""
    lines = []
    for measure in MEASURES:
        quicker = [text for part, names in PARTS.items() for text in _quicker(runs, part, names, measure)]
        if quicker:
            lines.append(f"- **{measure.row}**: {'; '.join(quicker)}. {measure.reason}")
    return lines or ["No peer is ahead in a row of these tables."]


def _quicker(runs: Mapping[str, Any], part: str, names: Sequence[str], measure: Measure) -> Iterator[str]:
    complete = {
        name: runs[name] for name in names if name in runs and value_of(runs[name], measure) is not None
    }
    ours = complete.pop(names[0], None)
    for name, theirs in complete.items():
        system = name.partition("/")[0]
        if not ours or system == "floor":
            continue
        # Also by the p99 of single jobs, although the tables do not compare it.
        if any(value(theirs, measure) < value(ours, measure) for value in (compared_value, _shown_value)):
            where = part.partition(":")[0]
            yield f"{NAMES[system]} {text_of(theirs, measure)} against {text_of(ours, measure)} ({where})"


def _shown_value(run: Mapping[str, Any], measure: Measure) -> float:
    return float(find(run, measure)[measure.value])


def is_durable(name: str) -> bool:
    return name.partition("/")[0] not in BOUNDS


def compared_value(run: Mapping[str, Any], measure: Measure) -> float:
    """Single jobs are compared by p50, because the p99 of sixty is one job; bursts by p99."""
    key = "p50" if measure.key == "single" else measure.value
    return float(find(run, measure)[key])


def number(value: float) -> str:
    """Write a value with the digits that matter: 0.012, 3.4, 1,200."""
    if value == 0:
        return "0"
    digits = max(0, 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def duration(seconds: float) -> str:
    return f"{number(seconds)} s" if seconds >= 1 else f"{number(seconds * 1000)} ms"
