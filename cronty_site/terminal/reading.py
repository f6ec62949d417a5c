"""Subcommands that only read: jobs, show, next, why and preview."""

from typing import Any

import click

from cronty_site.terminal.arguments import read_schedule
from cronty_site.terminal.completion import complete_job, complete_task
from cronty_site.terminal.output import block, note, print_facts, print_json, print_table, say
from cronty_site.terminal.session import Session, check_zone, subcommand
from cronty_site.terminal.shapes import (
    JOB_COLUMNS,
    RUN_COLUMNS,
    clock_text,
    distance,
    iso_in,
    job_json,
    job_row,
    run_json,
    run_row,
    settings_of,
    skipped,
)
from schedules import engine, services
from schedules.models import Execution, Job
from schedules.services.files.sources import source_note
from schedules.services.jobs.forecasts import next_runs_of, preview_of

RUNS_SHOWN = 5


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
@click.option("--tag", help="Only jobs with this tag.")
@click.option("--source", help="Only jobs that this file or folder describes.")
@click.option("--failing", is_flag=True, help="Only jobs whose last run failed.")
@click.option("--trash", is_flag=True, help="Deleted jobs instead.")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="How many to list."
)
def jobs_command(
    session: Session,
    text: str | None,
    status: str | None,
    task: str | None,
    tag: str | None,
    source: str | None,
    failing: bool,
    trash: bool,
    limit: int,
) -> None:
    """List jobs, the next to run first. TEXT is a part of the name."""
    jobs = session.actor.trash() if trash else session.actor.jobs()
    given: dict[str, Any] = {"name__icontains": text, "task": task, "source": session.source(source)}
    jobs = jobs.filter(**{name: value for name, value in given.items() if value is not None})
    if status:
        jobs = jobs.in_state(status)
    if tag is not None:
        jobs = jobs.tagged(tag)
    if failing:
        jobs = jobs.filter(failure_streak__gt=0)
    found = list(jobs.with_activity()[: limit + 1])
    shown = found[:limit]
    if session.as_json:
        print_json([job_json(job) for job in shown])
        return
    if not shown:
        say("No jobs.")
        return
    print_table(JOB_COLUMNS, [job_row(job, session.now) for job in shown], shrink="name")
    if len(found) > limit:
        note(f"Only the first {limit:,} are listed: use a filter or --limit.")


@subcommand(
    "show",
    examples="""
    cronty show "Stand up"
    cronty show 50 --json
    """,
)
@click.argument("job", shell_complete=complete_job)
def show_command(session: Session, job: str) -> None:
    """Show everything about a job: its schedule, next runs, policies and last runs."""
    found = session.job(job)
    ahead = preview_of(found, session.now)
    runs = list(Execution.objects.filter(job=found).defer("traceback")[:RUNS_SHOWN])
    if session.as_json:
        print_json(
            job_json(found)
            | settings_of(found)
            | {
                "managed_by": source_note(found) or None,
                "next_runs": [iso_in(run, found.timezone) for run in ahead.next_runs],
                "warnings": ahead.warnings,
                "runs": [run_json(run, found.timezone) for run in runs],
            }
        )
        return
    shown = job_json(found)
    arguments = {f"  {name}": value for name, value in shown["kwargs"].items()}
    say(found.name, "bold")
    print_facts(
        {
            "id": f"{found.public_id}  #{found.pk}",
            "status": found.state,
            "paused": found.pause_reason or ("no reason given" if found.status == "paused" else ""),
            "until": clock_text(found.paused_until, found.timezone),
            "schedule": f"{ahead.description} · {found.timezone}",
            "next": clock_text(ahead.next_runs[0], found.timezone) if ahead.next_runs else "",
            "then": ", ".join(clock_text(run, found.timezone) for run in ahead.next_runs[1:]),
            "task": found.task,
            "values": shown["args"],
            **arguments,
            **_policies(found),
            "tags": found.tags,
            "label": found.label,
            "made by": found.made_by,
            "managed by": source_note(found),
            "last error": found.last_error,
        }
    )
    for warning in ahead.warnings:
        note(warning)
    if runs:
        say("")
        print_table(RUN_COLUMNS, [run_row(run, found.timezone) for run in runs], shrink="what")


def _policies(job: Job) -> dict[str, Any]:
    """Return the policies of a job, its end and what it leaves out, by their names in words."""
    policies = {name.replace("_", " "): getattr(job, name) for name in Job.POLICY_FIELDS}
    never = {"pause after failures": job.pause_after_failures or "never"}
    return (
        policies
        | never
        | {
            "spread": job.spread or None,
            "max runs": job.max_runs,
            "ends": clock_text(job.ends_at, job.timezone),
            "leaves out": [skipped(each, job.timezone) for each in job.skips.split()],
        }
    )


@subcommand(
    "next",
    examples="""
    cronty next
    cronty next --hours 2
    cronty next "Stand up" --limit 10
    """,
)
@click.argument("job", shell_complete=complete_job, required=False)
@click.option("--hours", type=click.FloatRange(0, 744, min_open=True), default=24, show_default=True)
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="How many to list.")
def next_command(session: Session, job: str | None, hours: float, limit: int) -> None:
    """List the runs of the next hours in order, or the next runs of one JOB."""
    if job is not None:
        found = session.job(job)
        runs: list[tuple[Any, Any]] = [(at, found) for at in next_runs_of(found, session.now, limit)]
    else:
        runs = services.upcoming(session.actor, session.now, hours=hours, limit=limit)
    if session.as_json:
        print_json(
            [{"at": iso_in(at, session.zone), "id": row.public_id, "name": row.name} for at, row in runs]
        )
        return
    if not runs:
        say("Nothing is planned.")
    else:
        rows = [(clock_text(at, session.zone), distance(at, session.now), row.name) for at, row in runs]
        print_table(("at", "", "name"), rows, shrink="name")
    if not engine.is_any_cluster_running(session.now):
        note("No cluster is running: nothing fires until `cronty up` runs.")


@subcommand(
    "why",
    examples="""
    cronty why "Stand up"
    cronty why 50 "yesterday at 9:00"
    """,
)
@click.argument("job", shell_complete=complete_job)
@click.argument("moment", required=False)
def why_command(session: Session, job: str, moment: str | None) -> None:
    """Explain what happened to the run nearest to a MOMENT, or to the last run."""
    found = session.job(job)
    at = session.past(moment, "MOMENT", found.timezone) if moment else None
    why = session.expect(services.why(session.actor, found.public_id, at, session.now))
    if session.as_json:
        print_json(
            {
                "id": found.public_id,
                "at": iso_in(why.at, found.timezone),
                "verdict": why.verdict,
                "explanation": why.explanation,
                "detail": why.detail or None,
                "run": run_json(why.execution, found.timezone) if why.execution else None,
            }
        )
        return
    say(f"{clock_text(why.at, found.timezone)} {found.timezone}: {why.verdict}", "bold")
    say(why.explanation)
    if why.detail:
        click.echo(block(why.detail))


@subcommand(
    "preview",
    examples="""
    cronty preview "every weekday at 8:30"
    cronty preview "0 3 * * *" --timezone Europe/Berlin --count 10
    """,
)
@click.argument("when")
@click.option("--timezone", help="The zone of the times.  [default: the user's]")
@click.option("--count", type=click.IntRange(1, 100), default=5, show_default=True)
def preview_command(session: Session, when: str, timezone: str | None, count: int) -> None:
    """Show what a schedule means: in words, and with its next runs. Nothing is created."""
    zone = check_zone(timezone or session.zone)
    trigger = read_schedule(session, when, zone)
    shown = services.preview(trigger, zone, session.now, count)
    if not shown.next_runs:
        raise session.failure("This moment is in the past.", code="invalid")
    if session.as_json:
        runs = [iso_in(run, zone) for run in shown.next_runs]
        print_json(
            {
                "description": shown.description,
                "timezone": zone,
                "next_runs": runs,
                "warnings": shown.warnings,
            }
        )
        return
    say(f"{shown.description} · {zone}", "bold")
    for run in shown.next_runs:
        say(f"  {clock_text(run, zone)}  {distance(run, session.now)}")
    for warning in shown.warnings:
        note(warning)
