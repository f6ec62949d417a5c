"""The subcommands that only read: jobs, show, next, why and preview."""

from datetime import datetime
from typing import Any

import click

from cronty_site.terminal.arguments import columns_of_options, schedule_fields, spec_options
from cronty_site.terminal.completion import complete_job, complete_task
from cronty_site.terminal.consoles import echo
from cronty_site.terminal.failures import Failure
from cronty_site.terminal.output import block, note, print_facts, print_json, print_list, print_table, say
from cronty_site.terminal.rows import (
    JOB_COLUMNS,
    RUN_COLUMNS,
    clock_text,
    distance,
    iso_in,
    job_json,
    job_row,
    ping_url_of,
    run_json,
    run_row,
    settings_of,
    skipped,
)
from cronty_site.terminal.session import Session, subcommand
from schedules import engine, services
from schedules.models import Job, TriggerAddress
from schedules.models.counting import COUNTED
from schedules.models.jobs import JobQuerySet
from schedules.services.documents import reminder_json
from schedules.services.files.sources import source_note
from schedules.services.job_list import JobQuery, read_jobs
from schedules.services.jobs.addresses import trigger_of_job
from schedules.services.jobs.chains import chain_of, conditions_of, upcoming_of
from schedules.services.jobs.forecasts import preview_of
from schedules.services.jobs.masked_arguments import shown_arguments
from schedules.services.people.incidents import open_incidents_of_job
from schedules.services.run_list import newest_runs
from schedules.services.runs.question_words import reminder_words
from schedules.services.text_search import text_problem
from schedules.spec.job import ScheduleSpec
from schedules.when.phrases import parse_past

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
@click.option("--tag", metavar="TEXT", type=str.strip, help="Only jobs with this tag.")
@click.option("--source", help="Only jobs that this file or folder describes.")
@click.option("--failing", is_flag=True, help="Only jobs whose last run failed.")
@click.option("--trash", "in_trash", is_flag=True, help="Deleted jobs instead.")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="How many to list."
)
def jobs_command(session: Session, failing: bool, limit: int, **filters: Any) -> None:
    """List jobs, the next to run first. TEXT is words of the name, message, tags, last error …"""
    for name, option in {"text": "TEXT", "tag": "--tag"}.items():
        if filters[name] and (problem := text_problem(filters[name])):
            raise click.BadParameter(f"{problem}.", param_hint=option)
    session.check_source(filters["source"])
    conditions = {name: value for name, value in filters.items() if value}
    query = JobQuery(outcome="failed" if failing else "", **conditions)
    page = read_jobs(session.actor, query, _with_activity, size=limit)
    if page.are_jobs_cut:
        note(f"Only the first {COUNTED:,} jobs were looked through: use --status to see others.")
    print_list(
        page.rows,
        job_json,
        JOB_COLUMNS,
        lambda job: job_row(job, session.now),
        shrink="name",
        if_none="No jobs.",
    )
    if page.next_start is not None and not session.as_json:
        note(f"Only the first {limit:,} are listed: use a filter or --limit.")


def _with_activity(jobs: JobQuerySet, **more: Any) -> JobQuerySet:
    return jobs.with_activity().annotate(**more)


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
    job = session.job(reference)
    ahead = preview_of(job, session.now)
    runs = newest_runs(job, RUNS_SHOWN, with_results=True)
    ping_url, trigger_address = ping_url_of(job), trigger_of_job(job)
    chain = chain_of(session.actor, job, session.now)
    if session.as_json:
        print_json(
            job_json(job)
            | settings_of(job)
            | {
                "managed_by": source_note(job) or None,
                "next_runs": [iso_in(run, job.timezone) for run in ahead.next_runs],
                "warnings": ahead.warnings,
                "ping_url": ping_url,
                "trigger_address": _trigger_json(trigger_address, job.timezone),
                "runs_after": _named(chain.upstream) if chain.upstream else None,
                "followers": [_named(link.job) | {"schedule": link.words} for link in chain.followers],
                **reminder_json(job),
                "alert": open_incidents_of_job(job) or None,
                "runs": [run_json(run, job.timezone) for run in runs],
            }
        )
        return
    args, kwargs = shown_arguments(job)
    say(job.name, "bold")
    print_facts(
        {
            "id": f"{job.public_id}  #{job.pk}",
            "status": job.state,
            "paused": job.pause_reason or ("no reason given" if job.status == "paused" else ""),
            "until": clock_text(job.paused_until, job.timezone),
            "schedule": f"{ahead.description} · {job.timezone}",
            "next": clock_text(ahead.next_runs[0], job.timezone) if ahead.next_runs else "",
            "then": ", ".join(clock_text(run, job.timezone) for run in ahead.next_runs[1:]),
            "ping address": ping_url,
            "trigger address": f"open: {trigger_address.get_scheme_display()}" if trigger_address else "",
            "runs after it": [f"{each.job.name} (#{each.job.pk}): {each.words}" for each in chain.followers],
            "task": job.task,
            "values": args,
            **{f"  {name}": value for name, value in kwargs.items()},
            **_policies(job),
            "permissions": job.grants,
            "tags": job.tags,
            "label": job.label,
            "made by": job.made_by,
            "managed by": source_note(job),
            "last error": job.last_error,
            "reminder": reminder_words(job),
            "alert": open_incidents_of_job(job),
        }
    )
    for warning in ahead.warnings:
        note(warning)
    if runs:
        say("")
        print_table(RUN_COLUMNS, [run_row(run, job.timezone) for run in runs], shrink="what")


def _named(job: Job) -> dict[str, Any]:
    return {"id": job.public_id, "name": job.name}


def _trigger_json(address: TriggerAddress | None, zone: str) -> dict[str, Any] | None:
    """Return a trigger address without its key, which is not stored."""
    if address is None:
        return None
    return {
        "scheme": address.scheme,
        "opened_at": iso_in(address.created_at, zone),
        "rotated_at": iso_in(address.rotated_at, zone),
    }


def _policies(job: Job) -> dict[str, Any]:
    """Return the policies of a job, its end and its skipped days, by their labels."""
    names = [*Job.POLICY_FIELDS, *ScheduleSpec.of_columns()]
    options = {name: getattr(job, name) or None for name in names if name != "timezone"} | {
        "pause_after_failures": job.pause_after_failures or "never",
        "on_closed": job.on_closed if job.calendars else None,
        "ends_at": clock_text(job.ends_at, job.timezone),
        "leaves_out": [skipped(each, job.timezone) for each in job.skips.split()],
    }
    return {name.replace("_", " "): value for name, value in options.items()}


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
    if reference is not None:
        runs = upcoming_of(session.job(reference), session.now, limit)
    else:
        runs = services.upcoming(session.actor, session.now, hours=hours, limit=limit)
    conditions = conditions_of(job for _, job in runs)
    quiet = engine.quiet_hours_ahead(job for _, job in runs)

    def named(at: datetime, job: Any) -> str:
        condition = f"only if {conditions[job.pk]}" if job.pk in conditions else ""
        held = quiet[job.pk].held_words(at, session.zone) if job.pk in quiet else ""
        notes = ", ".join(filter(None, [condition, held]))
        return f"{job.name} ({notes})" if notes else str(job.name)

    print_list(
        runs,
        lambda run: {
            "at": iso_in(run[0], session.zone),
            "id": run[1].public_id,
            "name": run[1].name,
            "only_if": conditions.get(run[1].pk),
            "held_until": iso_in(quiet[run[1].pk].until(run[0]), session.zone)
            if run[1].pk in quiet
            else None,
        },
        ("at", "", "name"),
        lambda run: (
            clock_text(run[0], session.zone),
            distance(run[0], session.now),
            named(*run),
        ),
        shrink="name",
        if_none="Nothing is planned.",
    )
    if not session.as_json and not engine.is_any_cluster_running(session.now):
        note("No cluster is running: nothing fires until `cronty up` runs.")


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
    job = session.job(reference)
    at = session.read(parse_past, moment, "MOMENT", job.timezone) if moment else None
    why = session.expect(services.why(session.actor, job.public_id, at, session.now))
    if session.as_json:
        print_json(
            {
                "id": job.public_id,
                "at": iso_in(why.at, job.timezone),
                "verdict": why.verdict,
                "explanation": why.explanation,
                "detail": why.detail or None,
                "run": run_json(why.execution, job.timezone) if why.execution else None,
            }
        )
        return
    say(f"{clock_text(why.at, job.timezone)} {job.timezone}: {why.verdict}", "bold")
    say(why.explanation)
    if why.detail:
        echo(block(why.detail))


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
    owner_id = session.actor.user.pk
    given = columns_of_options(session, session.zone, options)
    zone = given.setdefault("timezone", session.zone)
    fields = schedule_fields(session, when, "WHEN", zone, owner_id, given)
    preview = session.expect(services.preview(owner_id, fields, session.now, count))
    if not preview.next_runs and not preview.waits_for:
        raise Failure("This moment is in the past.", code="invalid")
    if session.as_json:
        runs = [iso_in(run, zone) for run in preview.next_runs]
        print_json(
            {
                "description": preview.description,
                "timezone": zone,
                "next_runs": runs,
                "warnings": preview.warnings,
            }
        )
        return
    say(f"{preview.description} · {zone}", "bold")
    for run in preview.next_runs:
        say(f"  {clock_text(run, zone)}  {distance(run, session.now)}")
    for warning in preview.warnings:
        note(warning)
