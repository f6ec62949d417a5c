"""The report on Cronty and its peers: docs/reference/benchmarks.md, from docs/reference/benchmarks.json."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from verification.bench.comparison import (
    MEASURES,
    NAMES,
    PARTS,
    RATES,
    compared_value,
    duration,
    is_durable,
    losses,
    number,
    text_of,
    value_of,
)

DOCS = Path(__file__).resolve().parents[2] / "docs/reference"
RESULTS = DOCS / "benchmarks.json"


def read(path: Path = RESULTS) -> dict[str, Any]:
    if not path.exists():
        return {"machine": {}, "runs": {}}
    results: dict[str, Any] = json.loads(path.read_text())
    return results


def write(path: Path = RESULTS) -> None:
    """Write the page beside the results."""
    path.with_suffix(".md").write_text(page(read(path)))


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
        + (f"; loop {load['loop']} ms" if "loop" in load else "")
    )
    problem = f"; {run['problem']}" if run.get("problem") else ""
    return f"{name}: {figures}; {others}; {run.get('seconds', 0)} s{problem}"


def page(results: Mapping[str, Any]) -> str:
    runs, machine = results["runs"], results["machine"]
    lines = [
        "# Cronty beside its peers",
        "",
        "Every system runs the same tasks: a body that notes the time and returns. Lateness is that time minus the moment "
        "the job was due, so it includes everything the system does before it calls the task. Each system ran alone, "
        f"with two workers unless the last table says otherwise, on {machine.get('cores')} cores ({machine.get('machine')}, {machine.get('system')}, "
        f"Python {machine.get('python')}). All of them log errors only. Figures of one system may be of different runs; the last table says of which.",
        "",
        "A commit that waits for the disk survives a power cut and takes longer, so each table compares systems that do the same.",
        "",
    ]
    for part, names in PARTS.items():
        if measured := [name for name in names if name in runs]:
            lines += [f"**{part}**", "", *table(runs, measured), ""]
    lines += [
        "Bold: the best system of the table that keeps its jobs when it crashes. Single jobs are compared by p50, because the p99 of so few is one job. † It runs no coroutines and ran plain functions. ‡ Some tasks began before they "
        "were due. Loaded: other programs used more than 10 % of the machine, so the figure is not reliable. The floor is a loop in one process: one durable "
        "commit takes all that is due, one keeps the outcomes.",
        "",
    ]
    if any(key in runs for key in RATES.values()):
        lines += ["## Cronty under a steady rate", "", *rates_section(runs), ""]
    lines += ["## Where Cronty is behind", ""]
    if any(name.startswith("cronty/") for name in runs):
        lines += [*losses(runs), ""]
    else:
        lines += ["Cronty's own rows have not been measured yet: `make bench ARGS=cronty`.", ""]
    lines += ["## What was measured", "", *systems(runs), ""]
    lines += REPEAT
    return "\n".join(lines) + "\n"


def table(runs: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    heads = [NAMES[name.partition("/")[0]] for name in names]
    lines = [f"| | {' | '.join(heads)} |", "| --- |" + " --- |" * len(names)]
    for measure in MEASURES:
        best = min(
            (name for name in names if is_durable(name) and value_of(runs[name], measure) is not None),
            key=lambda name: compared_value(runs[name], measure),
            default="",
        )
        cells = [
            f"**{text_of(runs[name], measure)}**" if name == best else text_of(runs[name], measure)
            for name in names
        ]
        lines.append(f"| {measure.row} | {' | '.join(cells)} |")
    return lines


def rates_section(runs: Mapping[str, Any]) -> list[str]:
    lines = []
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
            late = ", ".join(f"{point['rate']:.0f}/s {duration(point['p99'])}" for point in points)
            lines.append(
                f"- {name}, {runs[key]['at']}: every slot ran up to {number(max(clean, default=0))} a second{tail}{mark}. "
                f"Late by, p99: {late}."
            )
    return lines


def systems(runs: Mapping[str, Any]) -> list[str]:
    lines = [
        "| system | versions | settings | measured (UTC) | others: load average; CPU before / during; a fixed loop of Python |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in (name for names in PARTS.values() for name in names if name in runs):
        run = runs[name]
        system, _, database = name.partition("/")
        label = NAMES[system] + ("" if database == "none" else f", {database}")
        if reason := run.get("absent"):
            lines.append(f"| {label} | | absent: {reason} | | |")
            continue
        about = run.get("about", {})
        settings = about.get("settings", "") + (f" ({run['problem']})" if run.get("problem") else "")
        described = f"{label} | {', '.join(about.get('versions', []))} | {settings}"
        for at, load, measures in _occasions(run):
            lines.append(f"| {described} | {at}: {measures} | {_others(load)} |")
            described = f"{label} | | the same"
    return lines


def _occasions(run: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield when the measures of a system were taken, the load at that time, and which they were."""
    taken = [measure.key for measure in MEASURES if measure.key in run]
    for at in sorted({run[key]["at"] for key in taken}):
        keys = [key for key in taken if run[key]["at"] == at]
        yield at, run[keys[0]]["load"], ", ".join(keys)


def _others(load: Mapping[str, Any]) -> str:
    others = f"{load['load_average']}; {load['before']:.0%} / {load['during'] or 0:.0%}"
    return others + (f"; {load['loop']} ms" if "loop" in load else "")


REPEAT = [
    "SQLite has a write-ahead log; with `synchronous=FULL` a commit waits for the disk, with `NORMAL` it does not. PostgreSQL has `fsync` "
    "and `synchronous_commit` on. Cronty waits where a power cut would matter: when somebody changes a job, and once before a task "
    "begins. That wait also covers the claim. It does not wait when it claims and when it writes an outcome, because what a power cut undoes "
    "there is fired again. The peers wait at each of their commits, of which APScheduler has one before a coroutine begins. Celery's Redis "
    "writes to the disk every second.",
    "",
    "Two workers of Cronty are three processes that run tasks: plain functions use at most two of them at a time, coroutines all three. "
    "Beside them are the claim loop, django-q2's sentinel, and the leader. APScheduler is one process.",
    "",
    "## How to repeat it",
    "",
    "```sh",
    "make bench                          # everything, about 15 minutes",
    'make bench ARGS="cronty huey"       # some systems; results are merged into docs/reference/benchmarks.json',
    'make bench ARGS="celery --measures single plain"',
    "python -m verification.bench.report # only this page, from the results",
    "```",
    "",
    "The peers are installed from [hashed requirements](../../verification/bench/peers/requirements.txt) into `.cache/peers`. "
    "Celery needs `redis-server` on the PATH, or its path in `REDIS_SERVER`. The modules in "
    "[verification/bench/peers](../../verification/bench/peers) are short: each says how its system is configured.",
]


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS)
