"""The subcommand `edit`, which changes a job by options, or as a YAML document in an editor."""

import shlex
from collections.abc import Sequence
from typing import Any

import click

from cronty_site.terminal.arguments import (
    columns_of_options,
    find_task,
    read_arguments,
    schedule_fields,
    spec_options,
)
from cronty_site.terminal.completion import complete_job
from cronty_site.terminal.consoles import current_console
from cronty_site.terminal.failures import Failure
from cronty_site.terminal.files import invalid_file, read_text
from cronty_site.terminal.output import note, print_json, say
from cronty_site.terminal.rows import job_json, next_run_note
from cronty_site.terminal.session import Session, subcommand
from schedules import services
from schedules.models import Job
from schedules.services.files.applying import edit_as_described, export_jobs
from schedules.services.files.documents import MAX_BYTES
from schedules.services.files.jobs import DescribedJob, read_jobs
from schedules.services.files.writing import HEADER as EXPORT_HEADER
from schedules.services.jobs.edits import edit_refusal
from schedules.services.jobs.forecasts import whole_words_of
from schedules.services.jobs.masked_arguments import merged_arguments
from schedules.services.people.stored_secrets import secret_warnings
from schedules.spec.job import JobSpec

HEADER = "# Save this file and close the editor to change the job. Close it without a change to leave the job as it is.\n"


@subcommand(
    "edit",
    examples="""
    cronty edit "Stand up"
    cronty edit "Stand up" --schedule "every weekday at 9:00" message="Stand up, please"
    cronty edit 50 --attempts 5 --tag home --tag daily
    """,
)
@click.argument("reference", metavar="JOB", shell_complete=complete_job)
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--schedule", metavar="WHEN", help="When it runs: a phrase, five cron fields, or a time.")
@click.option("--name", help="The new name of the job.")
@spec_options(JobSpec)
@click.option("--file", help="Read the document from here.")
def edit_command(session: Session, reference: str, file: str | None, **fields: Any) -> None:
    """Change a job: the given fields, or without any, its YAML document in $EDITOR.

    An argument is NAME=TEXT, or NAME:=JSON; NAME:=null removes it.
    """
    job = session.job(reference)
    if refusal := edit_refusal(job):
        session.expect(refusal)
    has_fields = any(value not in (None, ()) for value in fields.values())
    if file and has_fields:
        raise click.UsageError("Give either --file or fields, not both.")
    if file:
        edited = _apply_text(session, job, file, read_text(file))
    elif has_fields:
        columns = _columns(session, job, **fields)
        edited = session.expect(services.edit(session.actor, job.public_id, revision=job.revision, **columns))
    else:
        edited = _edit_text(session, job)
    _show(session, job, edited, has_schedule=bool(fields["schedule"]))


def _columns(
    session: Session,
    job: Job,
    *,
    arguments: Sequence[str],
    schedule: str | None,
    name: str | None,
    **options: Any,
) -> dict[str, Any]:
    """Return the columns that the options set."""
    columns = columns_of_options(session, job.timezone, options)
    zone = columns.get("timezone", job.timezone)
    if schedule:
        columns = schedule_fields(session, schedule, "--schedule", zone, job.owner_id, columns)
    if name is not None:
        columns["name"] = name
    if arguments:
        args, kwargs = read_arguments(session, find_task(session, job.task), arguments)
        columns["args"], columns["kwargs"] = merged_arguments(job, args or None, kwargs)
    return columns


def _edit_text(session: Session, job: Job) -> Job:
    """Open the document of a job in an editor, and apply it; the file is kept if that fails."""
    text = HEADER + export_jobs(session.actor, [job]).removeprefix(EXPORT_HEADER)
    if not read_jobs([("", text)], job.timezone, session.now)[0]:
        raise Failure("The schedule of this job cannot be read: set one with --schedule.")
    name, typed = current_console().do("edit", text, most=MAX_BYTES)
    try:
        edited = job if typed == text else _apply_text(session, job, name, typed)
    except click.ClickException as error:
        raise _failure_with_file(job, name, error) from error
    current_console().tell("discard", name)
    return edited


def _failure_with_file(job: Job, path: str, error: click.ClickException) -> Failure:
    code = error.code if isinstance(error, Failure) else ""
    where = f"Your text is kept: correct it, then run `cronty edit {job.pk} --file {shlex.quote(path)}`."
    return Failure(f"{error.format_message()}\n{where}", error.exit_code, code=code)


def _apply_text(session: Session, job: Job, name: str, text: str) -> Job:
    return session.expect(edit_as_described(session.actor, job, _only_job(session, job, name, text)))


def _only_job(session: Session, job: Job, name: str, text: str) -> DescribedJob:
    """Return the only job of a document; more or none are refused."""
    specs, problems = read_jobs([(name, text)], job.timezone, session.now)
    if problems:
        raise invalid_file(problems)
    if len(specs) != 1:
        raise Failure(
            f"Nothing was changed: the document must describe one job, not {len(specs)}.", code="invalid"
        )
    return specs[0]


def _show(session: Session, before: Job, job: Job, *, has_schedule: bool) -> None:
    if session.as_json:
        print_json(job_json(job))
        return
    if job.revision == before.revision:
        say(f"Nothing changed: {job.name} (#{job.pk})")
        return
    words = f" · {whole_words_of(job)}" if has_schedule else ""
    say(f"Changed: {job.name} (#{job.pk}){words}{next_run_note(job)}", "green")
    for warning in secret_warnings(session.actor, job):
        note(warning)
