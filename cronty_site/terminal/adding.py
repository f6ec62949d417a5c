"""The subcommands `add` and `edit`: create a job, and change one by options or as a document in an editor."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from cronty_site.terminal import here
from cronty_site.terminal.arguments import OPTION_NAMES, find_task, given, read_arguments, spec_options
from cronty_site.terminal.failures import Failure
from cronty_site.terminal.files import about_file
from cronty_site.terminal.output import note, print_json, say
from cronty_site.terminal.rows import clock_text, next_run_note
from cronty_site.terminal.session import Session, complete_job, complete_task, subcommand
from schedules.spec.job import JobSpec


@subcommand(
    "add",
    examples="""
    cronty add "every weekday at 8:30" notify message="Stand up" topic=my-phone
    cronty add "every 6 hours" webhook url=https://example.org/hook method=PUT
    cronty add "tomorrow at 9:00" prompt "Read my inbox" --name Inbox --tag home
    """,
)
@click.argument("when")
@click.argument("task", shell_complete=complete_task)
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--name", help="The name of the job.  [default: its task and first text]")
@spec_options(JobSpec)
@click.option("--paused", is_flag=True, help="Create it paused.")
def add_command(
    session: Session,
    when: str,
    task: str,
    arguments: Sequence[str],
    name: str | None,
    paused: bool,
    **options: Any,
) -> None:
    """Create a job: WHEN it runs, which TASK, and the task's arguments.

    WHEN is a phrase, five cron fields in quotes, or a time, in your own zone or in --timezone. An argument is NAME=TEXT, or NAME:=JSON; values without a
    name are given in order.
    """
    known = find_task(session, task)
    args, kwargs = read_arguments(known, arguments)
    job = session.call(
        "create_job",
        {**OPTION_NAMES, "schedule": "WHEN"},
        schedule=when,
        task=task,
        args=args,
        kwargs=kwargs,
        name=name or None,
        paused=paused,
        **given(options),
    )
    if session.as_json:
        print_json(job)
        return
    zone = job["timezone"]
    if job["next_runs"]:
        first = f"first run {clock_text(job['next_runs'][0], zone)}"
    else:
        first = f"waiting for {job['waits_for']}" if job["waits_for"] else "paused"
    say(f"Created: {job['name']} (#{job['number']}) · {job['description']} · {zone} · {first}", "green")
    if job["ping_url"]:
        say(f"Ping address: {job['ping_url']}")
    for warning in job["warnings"]:
        note(warning)
    if job["similar"]:
        note(f"{job['similar']} does the same on the same schedule.")


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
    has_fields = any(value not in (None, ()) for value in fields.values())
    if file and has_fields:
        raise click.UsageError("Give either --file or fields, not both.")
    before = session.call("show_job", job=reference)
    if file:
        text = here.read_text(file)
        with about_file():
            job = session.call("change_by_document", job=before["id"], name=file, text=text)
    elif has_fields:
        job = _edit_fields(session, before, **fields)
    else:
        job = _edit_text(session, before)
    _show(session, before, job, has_schedule=bool(fields["schedule"]))


def _edit_fields(
    session: Session,
    job: Mapping[str, Any],
    *,
    arguments: Sequence[str],
    schedule: str | None,
    name: str | None,
    **options: Any,
) -> Mapping[str, Any]:
    values = given(options)
    if arguments:
        args, kwargs = read_arguments(find_task(session, job["task"]), arguments)
        values |= {"args": args or None, "kwargs": kwargs}
    changed: Mapping[str, Any] = session.call(
        "change_job",
        {**OPTION_NAMES, "schedule": "--schedule"},
        job=job["id"],
        revision=job["revision"],
        schedule=schedule or None,
        name=name,
        **values,
    )
    return changed


def _edit_text(session: Session, job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Open the document of a job in an editor, and apply it; the file is kept if that fails."""
    document = session.call("show_document", job=job["id"])
    path, typed = here.edit(document["text"])
    try:
        if typed != document["text"]:
            revision = document["revision"]
            with about_file():
                job = session.call(
                    "change_by_document", job=job["id"], name=path, text=typed, revision=revision
                )
    except click.ClickException as error:
        code = error.code if isinstance(error, Failure) else ""
        where = f"`cronty edit {job['number']} --file {shlex.quote(path)}`"
        message = f"{error.format_message()}\nYour text is kept: correct it, then run {where}."
        raise Failure(message, error.exit_code, code=code) from error
    Path(path).unlink(missing_ok=True)
    return job


def _show(session: Session, before: Mapping[str, Any], job: Mapping[str, Any], *, has_schedule: bool) -> None:
    if session.as_json:
        print_json(job)
        return
    if job["revision"] == before["revision"]:
        say(f"Nothing changed: {job['name']} (#{job['number']})")
        return
    words = f" · {job['description']}" if has_schedule else ""
    say(f"Changed: {job['name']} (#{job['number']}){words}{next_run_note(job)}", "green")
    for warning in job["warnings"]:
        note(warning)
