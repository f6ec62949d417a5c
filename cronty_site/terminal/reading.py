"""The subcommands that only read: jobs, show, next, why and preview."""

from datetime import timedelta
from typing import Any

import click

from cronty_site.terminal.arguments import OPTION_NAMES, given, spec_options
from cronty_site.terminal.failures import ExitCode, Failure
from cronty_site.terminal.output import block, note, print_facts, print_json, print_list, print_table, say
from cronty_site.terminal.rows import (
    JOB_COLUMNS,
    RUN_COLUMNS,
    Document,
    clock_text,
    distance,
    job_row,
    run_row,
    skipped,
)
from cronty_site.terminal.session import Session, complete_job, complete_task, subcommand
from schedules import clock
from schedules.models import Job, TriggerAddress
from schedules.result import Kind
from schedules.spec.job import JobSpec, ScheduleSpec
from schedules.spec.readers import read_span

_SPANS = ("spread", "backoff", "timeout")


@subcommand(
    "jobs",
    examples="""
    cronty jobs
    cronty jobs backup --status failed
    cronty jobs --tag home --json
    """,
)
@click.argument("text", required=False)
@click.option("--status", type=click.Choice(Job.Status.values), help="Only jobs in this state.")
@click.option("--task", shell_complete=complete_task, help="Only jobs of this task.")
@click.option("--tag", metavar="TEXT", type=str.strip, help="Only jobs with this tag.")
@click.option("--source", help="Only jobs that this file or folder describes.")
@click.option("--failing", is_flag=True, help="Only jobs whose last run failed.")
@click.option("--trash", "in_trash", is_flag=True, help="Deleted jobs instead.")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="How many to list."
)
def jobs_command(
    session: Session, text: str | None, failing: bool, in_trash: bool, limit: int, **filters: Any
) -> None:
    """List jobs, the next to run first. TEXT is words of the name, message, tags, last error …"""
    jobs, page = session.listed(
        "list_jobs",
        "jobs",
        limit,
        {"query": "TEXT", "tag": "--tag"},
        order="next",
        query=text,
        outcome="failed" if failing else None,
        trash=in_trash,
        **filters,
    )
    if not jobs and filters["source"] and page["note"]:
        raise Failure(page["note"], ExitCode.NOT_FOUND, code=Kind.NOT_FOUND)
    if page["note"]:
        note(page["note"].replace("give a status", "use --status"))
    print_list(jobs, JOB_COLUMNS, lambda job: job_row(job, session.now), shrink="name", if_none="No jobs.")
    if page["next_cursor"] and not session.as_json:
        note(f"Only the first {limit:,} are listed: use a filter or --limit.")


@subcommand(
    "show",
    examples="""
    cronty show "Stand up"
    cronty show 50 --json
    """,
)
@click.argument("reference", metavar="JOB", shell_complete=complete_job)
def show_command(session: Session, reference: str) -> None:
    """Show everything about a job: its schedule, next runs, what starts it, policies and last runs."""
    job = session.call("show_job", job=reference)
    if session.as_json:
        print_json(job)
        return
    zone, ahead = job["timezone"], [clock_text(run, job["timezone"]) for run in job["next_runs"]]
    address = job["trigger_address"]
    say(job["name"], "bold")
    print_facts(
        {
            "id": f"{job['id']}  #{job['number']}",
            "status": job["status"],
            "paused": job["pause_reason"] or ("no reason given" if job["status"] == "paused" else ""),
            "until": clock_text(job["paused_until"], zone),
            "schedule": f"{job['schedule']} · {zone}",
            "next": next(iter(ahead), ""),
            "then": ", ".join(ahead[1:]),
            "ping address": job["ping_url"],
            "trigger address": f"open: {TriggerAddress.Scheme(address['scheme']).label}" if address else "",
            "runs after it": [
                f"{each['name']} (#{each['number']}): {each['schedule']}" for each in job["followers"]
            ],
            "task": job["task"],
            "values": job["args"],
            **{f"  {name}": value for name, value in job["kwargs"].items()},
            **_policies(job),
            "permissions": job["grants"],
            "tags": job["tags"],
            "label": job["label"],
            "made by": job["made_by"],
            "managed by": job["managed_by"],
            "last error": job["error"],
            "reminder": job["reminder"],
            "alert": job["alert"],
        }
    )
    for warning in job["warnings"]:
        note(warning)
    if job["runs"]:
        say("")
        print_table(RUN_COLUMNS, [run_row(run, zone) for run in job["runs"]], shrink="what")


def _policies(job: Document) -> dict[str, Any]:
    """Return the policies of a job, its end and its skipped days, by their labels."""
    zone = job["timezone"]
    shown = ("timezone", "label", "tags", "grants")
    options = {name: job[name] or None for name in JobSpec.of_columns() if name not in shown}
    options |= {name: _span(job[name]) for name in _SPANS}
    options |= {
        "pause_after_failures": job["pause_after_failures"] or "never",
        "on_closed": job["on_closed"] if job["calendars"] else None,
        "ends_at": clock_text(job["ends_at"], zone),
        "leaves_out": [skipped(each, zone) for each in job["skips"]],
    }
    return {name.replace("_", " "): value for name, value in options.items()}


def _span(typed: str | None) -> timedelta | None:
    return read_span(typed, clock.now()) or None if typed else None


@subcommand(
    "next",
    examples="""
    cronty next
    cronty next --hours 2
    cronty next "Stand up" --limit 10
    """,
)
@click.argument("reference", metavar="[JOB]", shell_complete=complete_job, required=False)
@click.option("--hours", type=click.FloatRange(0, 744, min_open=True), default=24, show_default=True)
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="How many to list.")
def next_command(session: Session, reference: str | None, hours: float, limit: int) -> None:
    """List the runs of the next hours in order, or the next runs of one JOB."""
    document = session.call("list_upcoming", job=reference, hours=hours, limit=limit)
    zone = document["timezone"]
    print_list(
        document["upcoming"],
        ("at", "", "name"),
        lambda run: (clock_text(run["at"], zone), distance(run["at"], session.now), _named(run)),
        shrink="name",
        if_none="Nothing is planned.",
    )
    if not session.as_json and not document["is_worker_running"]:
        note("No cluster is running: nothing fires until `cronty up` runs.")


def _named(run: Document) -> str:
    condition = f"only if {run['only_if']}" if run["only_if"] else ""
    held = f"held until {run['held_until'][11:16]} by quiet hours" if run["held_until"] else ""
    notes = ", ".join(filter(None, [condition, held]))
    return f"{run['name']} ({notes})" if notes else str(run["name"])


@subcommand(
    "why",
    examples="""
    cronty why "Stand up"
    cronty why 50 "yesterday at 9:00"
    """,
)
@click.argument("reference", metavar="JOB", shell_complete=complete_job)
@click.argument("moment", required=False)
def why_command(session: Session, reference: str, moment: str | None) -> None:
    """Explain what happened to the run nearest to a MOMENT, or to the last run."""
    why = session.call("explain_run", {"at": "MOMENT"}, job=reference, at=moment)
    if session.as_json:
        print_json(why)
        return
    say(f"{clock_text(why['at'], why['timezone'])} {why['timezone']}: {why['verdict']}", "bold")
    say(why["explanation"])
    if why["detail"]:
        click.echo(block(why["detail"]))


@subcommand(
    "preview",
    examples="""
    cronty preview "every weekday at 8:30"
    cronty preview "0 3 * * *" --timezone Europe/Berlin --count 10
    cronty preview "every day at 7:00 within 20 minutes except public holidays in Bavaria"
    """,
)
@click.argument("when")
@click.option("--count", type=click.IntRange(1, 100), default=5, show_default=True)
@spec_options(ScheduleSpec)
def preview_command(session: Session, when: str, count: int, **options: Any) -> None:
    """Show what a schedule means: in words, and with its next runs. Nothing is created."""
    wrong = {**OPTION_NAMES, "schedule": "WHEN"}
    preview = session.call("preview_schedule", wrong, schedule=when, count=count, **given(options))
    if session.as_json:
        print_json(preview)
        return
    zone = preview["timezone"]
    say(f"{preview['description']} · {zone}", "bold")
    for run in preview["next_runs"]:
        say(f"  {clock_text(run, zone)}  {distance(run, session.now)}")
    for warning in preview["warnings"]:
        note(warning)
