"""The report on Cronty and its peers: docs/benchmarks.md and its pictures, from docs/benchmarks.json."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verification.bench import drawing
from verification.bench.drawing import Bar, duration, number

DOCS = Path(__file__).resolve().parents[2] / "docs"
RESULTS = DOCS / "benchmarks.json"

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
PARTS = {
    "SQLite, or a store of its own": (
        "cronty/sqlite",
        "apscheduler/sqlite",
        "celery/none",
        "huey/sqlite",
        "django_tasks_db/sqlite",
        "django_q2/sqlite",
        "apscheduler_memory/none",
        "floor/sqlite",
    ),
    "PostgreSQL": (
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
    title: str
    value: str
    reason: str


MEASURES = (
    Measure(
        "single",
        "single jobs: late by, p50 / p99",
        "Single jobs, 4 a second: how late the task begins",
        "p99",
        "A due job takes one transaction to claim it, a message to a worker process and one transaction to start it, "
        "because a crash between any two steps must leave a row that says so. APScheduler calls the function in the "
        "process that reads the schedule; Celery's worker already holds the job in memory, and its timer calls it.",
    ),
    Measure(
        "coroutines",
        "1,000 coroutines due at once: late by, p99",
        "1,000 coroutines due at once: how late the last ones begin",
        "p99",
        "Every run is a ledger row before its task begins, and another process runs it.",
    ),
    Measure(
        "plain",
        "1,000 functions due at once: late by, p99",
        "1,000 plain functions due at once: how late the last ones begin",
        "p99",
        "Plain functions run one at a time in each worker, each under its own time limit, and their starts are "
        "committed before they are called.",
    ),
    Measure(
        "large",
        "10,000 due at once: all ended and stored",
        "10,000 jobs due at once: until all have ended and the store says so",
        "settled",
        "Every run is written three times: claimed, started and settled.",
    ),
)


def read(path: Path = RESULTS) -> dict[str, Any]:
    if not path.exists():
        return {"machine": {}, "runs": {}}
    results: dict[str, Any] = json.loads(path.read_text())
    return results


def write(path: Path = RESULTS) -> None:
    """Write the page beside the results, and its pictures into a folder of the same name."""
    results = read(path)
    pictures = path.with_suffix("")
    pictures.mkdir(exist_ok=True)
    for name, svg in draw(results["runs"]).items():
        (pictures / f"{name}.svg").write_text(svg)
    path.with_suffix(".md").write_text(page(results, pictures))


def find(run: Mapping[str, Any], measure: Measure) -> dict[str, Any]:
    """Return the result of a measure; systems without coroutines run the same work as plain functions."""
    found: dict[str, Any] = run.get(measure.key) or {}
    if (
        not found
        and measure.key == "coroutines"
        and run.get("plain")
        and run.get("large", {}).get("kind") == "plain"
    ):
        found = run["plain"]
    return found


def text_of(run: Mapping[str, Any], measure: Measure) -> str:
    """Return what the table and the picture say about a measure."""
    result = find(run, measure)
    if run.get("absent"):
        return "absent"
    if not result:
        return "not measured"
    value = value_of(run, measure)
    if value is None:
        return f"not in {result['limit']:.0f} s" if "limit" in result else "not all began"
    text = both(result["p50"], result["p99"]) if measure.key == "single" else duration(value)
    if measure.key != "plain" and result.get("kind") == "plain":
        text += " †"
    if result["early"]:
        text += " ‡"
    return text + (" (loaded)" if run["load"]["is_heavy"] else "")


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


def draw(runs: Mapping[str, Any]) -> dict[str, str]:
    """Return the pictures by name."""
    pictures = {}
    for measure in MEASURES:
        groups = {
            part: sorted(bars_of(runs, names, measure), key=lambda bar: bar.value or 1e9)
            for part, names in PARTS.items()
        }
        note = "Logarithmic scale; shorter is better."
        if measure.value == "p99":
            note += " Bars end at p99; the gap marks p50."
        pictures[measure.key] = drawing.bars(measure.title, groups, note=note)
    if rates := {name: runs[key]["points"] for name, key in RATES.items() if runs.get(key, {}).get("points")}:
        pictures["rates"] = drawing.lines(
            "Cronty under a steady rate: p99 of lateness",
            {
                name: [(point["rate"], 1000 * point["p99"]) for point in points]
                for name, points in rates.items()
            },
            across="firings a second",
            up="p99, ms",
            is_log_across=True,
            is_log_up=True,
            limit=250,
        )
    return pictures


def bars_of(runs: Mapping[str, Any], names: Sequence[str], measure: Measure) -> Iterator[Bar]:
    for name in names:
        if run := runs.get(name):
            system = name.partition("/")[0]
            result = find(run, measure)
            yield Bar(
                NAMES[system],
                value_of(run, measure),
                text_of(run, measure),
                middle=result.get("p50") if measure.value == "p99" else None,
                is_ours=system == "cronty",
            )


def line(name: str, run: Mapping[str, Any]) -> str:
    """Return one line for the terminal."""
    if reason := run.get("absent"):
        return f"{name}: absent, {reason}"
    if "points" in run:
        figures = ", ".join(
            f"{point['rate']:.0f}/s {duration(point['p99'])} ({point['not_run_percent']:.1f} % not run)"
            for point in run["points"]
        )
    else:
        figures = ", ".join(f"{measure.key} {text_of(run, measure)}" for measure in MEASURES)
    load = run["load"]
    others = (
        f"others: load {load['load_average']}, CPU {load['before']:.0%} before, {load['during']:.0%} during"
    )
    problem = f"; {run['problem']}" if run.get("problem") else ""
    return f"{name}: {figures}; {others}{problem}"


def page(results: Mapping[str, Any], pictures: Path) -> str:
    runs, machine = results["runs"], results["machine"]
    lines = [
        "# Cronty beside its peers",
        "",
        "Every system runs the same tasks: a body that notes the time and returns. Lateness is that time minus the moment "
        "the job was due, so it includes everything the system does before it calls the task. Each system ran alone, "
        f"with two workers, on {machine.get('cores')} cores ({machine.get('machine')}, {machine.get('system')}, "
        f"Python {machine.get('python')}).",
        "",
    ]
    for part, names in PARTS.items():
        lines += [f"**{part}**", "", *table(runs, [name for name in names if name in runs]), ""]
    lines += [
        "Bold: the best durable system. † This system runs no coroutines; it ran plain functions. ‡ Some tasks began before they were "
        "due. Loaded: other programs "
        "used more than 10 % of the machine: the figure is not reliable. The floor is a loop in one process: one durable "
        "commit takes all that is due, one keeps the outcomes.",
        "",
    ]
    for measure in MEASURES:
        lines += [f"![{measure.title}]({pictures.name}/{measure.key}.svg)", ""]
    if any(key in runs for key in RATES.values()):
        lines += [*rates_section(runs, pictures), ""]
    lines += ["## Where Cronty is behind", "", *losses(runs), ""]
    lines += ["## What was measured", "", *systems(runs), ""]
    lines += REPEAT
    return "\n".join(lines) + "\n"


def table(runs: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    heads = [NAMES[name.partition("/")[0]] for name in names]
    lines = [f"| | {' | '.join(heads)} |", "| --- |" + " --- |" * len(names)]
    for measure in MEASURES:
        best = min(
            (name for name in names if _counts(name) and value_of(runs[name], measure) is not None),
            key=lambda name: _ranked(runs[name], measure),
            default="",
        )
        cells = [
            f"**{text_of(runs[name], measure)}**" if name == best else text_of(runs[name], measure)
            for name in names
        ]
        lines.append(f"| {measure.row} | {' | '.join(cells)} |")
    return lines


def losses(runs: Mapping[str, Any]) -> list[str]:
    """Name every peer that is quicker than Cronty, and why."""
    lines = []
    for measure in MEASURES:
        quicker = []
        for part, names in PARTS.items():
            ours = runs.get(names[0], {})
            mine = value_of(ours, measure) if ours else None
            for name in names[1:]:
                if mine is None or not _counts(name) or name not in runs:
                    continue
                if value_of(runs[name], measure) is not None and _ranked(runs[name], measure) < _ranked(
                    ours, measure
                ):
                    their = f"{NAMES[name.partition('/')[0]]} {text_of(runs[name], measure)}"
                    quicker.append(f"{their} against {text_of(ours, measure)} ({part.partition(',')[0]})")
        if quicker:
            lines.append(f"- **{measure.row}**: {'; '.join(quicker)}. {measure.reason}")
    return lines or ["No durable peer is ahead in a row of these tables."]


def _counts(name: str) -> bool:
    return name.partition("/")[0] not in BOUNDS


def _ranked(run: Mapping[str, Any], measure: Measure) -> float:
    """Single jobs are compared by p50, because the p99 of sixty is one job; bursts by p99."""
    key = "p50" if measure.key == "single" else measure.value
    return float(find(run, measure)[key])


def rates_section(runs: Mapping[str, Any], pictures: Path) -> list[str]:
    lines = [f"![Cronty under a steady rate]({pictures.name}/rates.svg)", ""]
    for name, key in RATES.items():
        points = runs.get(key, {}).get("points", [])
        if points:
            clean = [point["rate"] for point in points if not point["not_run"]]
            lost = [
                f"{point['rate']:.0f}/s {number(point['not_run_percent'])} %"
                for point in points
                if point["not_run"]
            ]
            tail = (
                f"; slots skipped or missed at {', '.join(lost)}"
                if lost
                else "; no slot was skipped or missed"
            )
            mark = " (loaded)" if runs[key]["load"]["is_heavy"] else ""
            lines.append(
                f"- {name}: every slot ran up to {number(max(clean, default=0))} a second{tail}{mark}."
            )
    return lines


def systems(runs: Mapping[str, Any]) -> list[str]:
    lines = [
        "| system | versions | settings | measured (UTC) | others: load average; CPU before / during |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in (name for names in PARTS.values() for name in names if name in runs):
        run = runs[name]
        system, _, database = name.partition("/")
        label = NAMES[system] + ("" if database == "none" else f", {database}")
        if reason := run.get("absent"):
            lines.append(f"| {label} | | absent: {reason} | | |")
            continue
        about, load = run.get("about", {}), run["load"]
        settings = about.get("settings", "") + (f" ({run['problem']})" if run.get("problem") else "")
        others = f"{load['load_average']}; {load['before']:.0%} / {load['during'] or 0:.0%}"
        lines.append(
            f"| {label} | {', '.join(about.get('versions', []))} | {settings} | {run['at']} | {others} |"
        )
    return lines


REPEAT = [
    "Databases: SQLite in WAL mode with `synchronous=FULL`; PostgreSQL with `fsync` and `synchronous_commit` on.",
    "",
    "## How to repeat it",
    "",
    "```",
    "make bench                          # everything, about 15 minutes",
    'make bench ARGS="cronty huey"       # some systems; results are merged into docs/benchmarks.json',
    'make bench ARGS="celery --measures single plain"',
    "python -m verification.bench.report # only this page and its pictures, from the results",
    "```",
    "",
    "The peers are installed from [hashed requirements](../verification/bench/peers/requirements.txt) into `.cache/peers`. "
    "Celery needs `redis-server` on the PATH, or its path in `REDIS_SERVER`. The modules in "
    "[verification/bench/peers](../verification/bench/peers) are short: each says how its system is configured.",
]


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS)
