"""The subcommands for job files: apply, export, schema and `import healthchecks`."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

from cronty_site.terminal import here
from cronty_site.terminal.failures import ExitCode, Failure
from cronty_site.terminal.operations import Refusal
from cronty_site.terminal.output import (
    COLOURS,
    answer,
    block,
    console,
    line,
    note,
    print_json,
    print_table,
    say,
    waiting,
)
from cronty_site.terminal.session import Session, subcommand
from schedules.models.counting import counted
from schedules.models.heartbeats import HEALTHCHECKS
from schedules.result import Kind
from schedules.services.files.schema import job_schema

Document = Mapping[str, Any]
SIGNS = {"create": "+", "change": "~", "delete": "-"}
# A longer plan is shortened on a terminal.
MAX_SHOWN = 200
MAX_NAMED = 20


@subcommand(
    "apply",
    examples="""
    cronty apply jobs.yaml
    cronty apply jobs/ --prune --yes
    cronty apply jobs.yaml --check
    cronty export | cronty apply - --source laptop
    """,
)
@click.argument("path")
@click.option("--source", help="The name that jobs remember.  [default: the name of the file or folder]")
@click.option("--prune", is_flag=True, help="Delete jobs that the file once described and no longer does.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--check", is_flag=True, help="Show the plan only; exit code 6 if anything would change.")
def apply_command(
    session: Session, path: str, source: str | None, prune: bool, yes: bool, check: bool
) -> None:
    """Make jobs as a file describes them, or all files of a folder, or standard input (-).

    Everything is checked first. The plan shows what will be created, changed field by field, and deleted; then
    everything happens in one transaction, or nothing.
    """
    name = source or here.source_of(path)
    if not name:
        raise click.UsageError("Standard input and pipes have no name: give one with --source.")
    files = here.read_files(path)
    if prune and all(_is_empty(file["text"]) for file in files):
        # Probably the program before the pipe failed.
        raise Failure('There is nothing to read: to delete all jobs of a source, write "jobs: {}".')
    request = {"source": name, "files": files, "prune": prune}
    at_once = (yes or path == "-") and not check
    plan = planned(session, "apply_file", request | {"at_once": at_once})
    if not session.as_json:
        print_plan(plan)
    if carried_out(session, "apply_file", plan, request, "Apply this?", yes=yes, check=check):
        say("Applied.", "green")


def _is_empty(text: str) -> bool:
    """Return whether a text has no jobs, without an explicit `jobs: {}`; some programs print `null` for nothing."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return all(line in ("", "---", "...", "null", "~", "jobs:") for line in lines)


def planned(session: Session, operation: str, request: Mapping[str, Any]) -> Document:
    """Return the plan of an operation, which changes nothing yet."""
    with waiting("Checking …"), about_file():
        plan: Document = session.call(operation, **request)
    return plan


def carried_out(
    session: Session,
    operation: str,
    plan: Document,
    request: Mapping[str, Any],
    question: str,
    *,
    yes: bool,
    check: bool,
) -> bool:
    """Ask for confirmation, and carry a plan out; return whether that is still to be said to a person."""
    if check or not plan["confirm"]:
        if session.as_json:
            print_json(plan)
        if plan["confirm"]:
            click.get_current_context().exit(ExitCode.DIFFERENT)
        return bool(plan["applied"]) and not session.as_json
    if not yes:
        here.confirm(question)
    with waiting("Applying …"), about_file():
        done = session.call(operation, **request, confirm=plan["confirm"])
    if session.as_json:
        print_json(done)
    return not session.as_json


@subcommand(
    "export",
    examples="""
    cronty export > jobs.yaml
    cronty export jobs.yaml --source jobs.yaml
    cronty export --job Backup
    """,
)
@click.argument("path", required=False)
@click.option("--source", help="Only jobs that this file or folder describes.")
@click.option("--job", "jobs", multiple=True, help="Only this job; repeat it for several.")
@click.option("--force", is_flag=True, help="Overwrite the file.")
def export_command(
    session: Session, path: str | None, source: str | None, jobs: Sequence[str], force: bool
) -> None:
    """Write active jobs as a file that `apply` reads, to PATH or to standard output. Secrets are masked."""
    exported = session.call("export_jobs", source=source, job=list(jobs))
    if path:
        here.write_text(path, exported["text"], force=force)
        told = {"jobs": exported["jobs"], "path": path}
        answer(told, f"{counted(exported['jobs'], 'job')} in {path}", style="")
    elif session.as_json:
        print_json(exported)
    else:
        # A file or a pipe gets every character; a terminal gets no control characters.
        text = exported["text"]
        click.echo(block(text) if sys.stdout.isatty() else text, nl=False)


@subcommand("schema", examples="cronty schema > jobs.schema.json")
def schema_command(session: Session) -> None:
    """Print the JSON Schema of job files, with the tasks of this installation, for editors."""
    tasks = session.call("list_tasks")["tasks"]
    print_json(job_schema({task["name"]: task["arguments"] for task in tasks}))


@subcommand(
    HEALTHCHECKS,
    examples="""
    cronty import healthchecks checks.json --check
    cronty import healthchecks checks.json --ping-key fqOOd6-F4MMNuCEnzTU01w
    """,
)
@click.argument("path", metavar="FILE")
@click.option("--ping-key", help="The key of the project, if clients use addresses with names.")
@click.option("--replace-ping-key", is_flag=True, help="Replace your ping key by that of the file.")
@click.option("--source", default=HEALTHCHECKS, show_default=True, help="The name that jobs remember.")
@click.option("--prune", is_flag=True, help="Delete jobs taken over before whose checks are gone.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--check", is_flag=True, help="Only show what would be taken over.")
def healthchecks_command(
    session: Session,
    path: str,
    ping_key: str | None,
    replace_ping_key: bool,
    source: str,
    prune: bool,
    yes: bool,
    check: bool,
) -> None:
    """Turn every check into a heartbeat with the same UUID, name and ping key.

    FILE is what the API answers to a full key: curl -H "X-Api-Key: …" https://healthchecks.io/api/v3/checks/
    """
    request = {
        "text": here.read_text(path),
        "ping_key": ping_key,
        "replace_ping_key": replace_ping_key,
        "source": source,
        "prune": prune,
    }
    plan = planned(session, "import_checks", request)
    if not session.as_json:
        _print_checks(plan)
    if carried_out(session, "import_checks", plan, request, "Take these over?", yes=yes, check=check):
        say("Applied.", "green")


def _print_checks(plan: Document) -> None:
    if plan["checks"]:
        rows = [
            [check[name] for name in ("name", "schedule", "timezone", "grace", "id")]
            for check in plan["checks"]
        ]
        print_table(("check", "schedule", "zone", "grace", "UUID"), rows, shrink="check")
    print_plan({**plan, "left_out": plan["never_run"]})
    for each in plan["left_out"]:
        say(f"{each['name']}: not taken over: {each['reason']}", "yellow")
    if plan["takes_ping_key"]:
        say("Your ping key becomes that of the checks, so that addresses with names go on.")
    if plan["has_more"]:
        note(
            "Integrations, and rules for methods, resuming, subjects and keywords are not taken over: set up your alerts."
        )
    say(f"{counted(len(plan['checks']), 'check')}, {len(plan['left_out'])} not taken over")


def print_plan(plan: Document) -> None:
    """Print what a plan does: every job, and every field that changes."""
    out = console()
    steps = plan["steps"][:MAX_SHOWN] if out.is_terminal else plan["steps"]
    for step in steps:
        notes = f" ({'; '.join(step['notes'])})" if step["notes"] else ""
        colour = COLOURS[step["action"]] if out.is_terminal and not out.no_color else None
        click.secho(f"{SIGNS[step['action']]} {line(step['key'] + notes)}", fg=colour)
        for change in step["changes"]:
            before, after = line(change["before"]) or "–", line(change["after"]) or "–"
            click.echo(f"    {line(change['field'])}: {before} → {after}")
        for warning in step["warnings"]:
            click.echo(f"    {warning}")
    if len(steps) < len(plan["steps"]):
        say(f"… and {len(plan['steps']) - len(steps):,} more")
    for text in plan["left_out"]:
        note(f"Left out: {text}")
    if plan["unlisted"]:
        note(
            f"No longer in {plan['source']}, but kept: {_names(plan['unlisted'])}. Use --prune to delete them."
        )
    actions = [step["action"] for step in plan["steps"]]
    counts = ", ".join(f"{actions.count(each):,} to {each}" for each in SIGNS if each in actions)
    say(f"{plan['source']}: {counts or 'nothing to do'}, {plan['unchanged']:,} unchanged")


def _names(keys: Sequence[str]) -> str:
    more = [f"and {len(keys) - MAX_NAMED:,} more"] if len(keys) > MAX_NAMED else []
    return ", ".join([*keys[:MAX_NAMED], *more])


@contextmanager
def about_file() -> Iterator[None]:
    """Show what is wrong with a file, a line for each place."""
    try:
        yield
    except Refusal as refusal:
        if refusal.code != Kind.INVALID or not refusal.errors:
            raise
        many = "" if len(refusal.errors) == 1 else f" ({len(refusal.errors):,} problems)"
        listed = [line(f"{place}: {text}") for place, text in refusal.errors.items()]
        raise Failure("\n".join([f"Nothing was changed{many}:", *listed]), code="invalid") from refusal
