"""The subcommands for job files: apply, export and schema."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from cronty_site.terminal.consoles import current_console, echo, secho
from cronty_site.terminal.failures import ExitCode, Failure
from cronty_site.terminal.messages import message_of
from cronty_site.terminal.output import COLOURS, answer, block, console, line, note, print_json, say
from cronty_site.terminal.session import Session, subcommand
from schedules.models import Job
from schedules.models.counting import counted
from schedules.services.documents import plan_json
from schedules.services.files.applying import apply_plan, export_jobs, exportable
from schedules.services.files.documents import MAX_BYTES, Problem
from schedules.services.files.jobs import DescribedJob, read_jobs
from schedules.services.files.plans import Action, Plan, Step, make_plan
from schedules.services.files.schema import job_schema
from schedules.tasks import registry

SIGNS = {Action.CREATE: "+", Action.CHANGE: "~", Action.DELETE: "-"}
# A longer plan is shortened on a terminal.
MAX_SHOWN = 200
MAX_PROBLEMS = 50
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
    name = source or current_console().do("source_of", path)
    if not name:
        raise click.UsageError("Standard input and pipes have no name: give one with --source.")
    texts = [
        (str(file), str(text)) for file, text in current_console().do("read_files", path, most=MAX_BYTES)
    ]
    specs, problems = read_jobs(texts, session.zone, session.now)
    if problems:
        # Also check what could be read, so that all problems are shown at once.
        problems += make_plan(session.actor, name, specs, session.now).problems
        raise invalid_file(sorted(problems, key=lambda each: each.place))
    if prune and all(_is_empty(text) for _, text in texts):
        # Probably the program before the pipe failed.
        raise Failure('There is nothing to read: to delete all jobs of a source, write "jobs: {}".')
    apply_specs(session, name, specs, prune=prune, yes=yes or path == "-", check=check)


def _is_empty(text: str) -> bool:
    """Return whether a text has no jobs, without an explicit `jobs: {}`; some programs print `null` for nothing."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return all(line in ("", "---", "...", "null", "~", "jobs:") for line in lines)


def apply_specs(
    session: Session,
    source: str,
    specs: Sequence[DescribedJob],
    *,
    prune: bool,
    yes: bool,
    check: bool,
    is_quiet: bool = False,
) -> None:
    """Show the plan, ask for confirmation, and apply it; `is_quiet` is for a caller that prints its own result."""
    with _progress("Checking", len(specs)) as step:
        plan = make_plan(session.actor, source, specs, session.now, prune=prune, on_progress=step)
    if plan.problems:
        raise invalid_file(plan.problems)
    if not session.as_json:
        print_plan(plan)
    if check or not plan.steps:
        if session.as_json and not is_quiet:
            print_json(plan_json(plan) | {"applied": False})
        if plan.steps:
            click.get_current_context().exit(ExitCode.DIFFERENT)
        return
    if not yes:
        session.confirm("Apply this?")
    with _progress("Applying", len(plan.steps)) as step:
        session.expect(apply_plan(session.actor, plan, on_progress=step))
    if is_quiet:
        return
    if session.as_json:
        print_json(plan_json(plan) | {"applied": True})
    else:
        say("Applied.", "green")


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
    session.check_source(source)
    exported = exportable(session.actor, source)
    if jobs:
        keys = {session.job(job).pk for job in jobs}
        exported = [job for job in exported if job.pk in keys]
    text = export_jobs(session.actor, exported)
    if path:
        write_file(path, text, force=force)
        answer(
            {"jobs": len(exported), "path": path},
            f"{counted(len(exported), 'job')} in {path}",
            style="",
        )
    elif session.as_json:
        print_json({"jobs": len(exported), "text": text})
    else:
        # A file or a pipe gets every character; a terminal gets no control characters.
        echo(block(text) if current_console().stream().isatty() else text, nl=False)


@subcommand("schema", examples="cronty schema > jobs.schema.json")
def schema_command(session: Session) -> None:
    """Print the JSON Schema of job files, with the tasks of this installation, for editors."""
    print_json(job_schema({task.name: task.schema for task in registry.all_tasks()}))


def print_plan(plan: Plan) -> None:
    """Print what a plan does: every job, and every field that changes."""
    out = console()
    steps = plan.steps[:MAX_SHOWN] if out.is_terminal else plan.steps
    for step in steps:
        text = f"{SIGNS[step.action]} {line(_title(step))}"
        secho(text, fg=COLOURS[step.action.value] if out.is_terminal and not out.no_color else None)
        for difference in step.differences:
            before, after = line(difference.before) or "–", line(difference.after) or "–"
            echo(f"    {line(difference.field)}: {before} → {after}")
        for warning in step.warnings:
            echo(f"    {warning}")
    if len(steps) < len(plan.steps):
        say(f"… and {len(plan.steps) - len(steps):,} more")
    for text in plan.left_out:
        note(f"Left out: {text}")
    if plan.unlisted:
        note(f"No longer in {plan.source}, but kept: {_names(plan.unlisted)}. Use --prune to delete them.")
    counts = ", ".join(f"{plan.count(action):,} to {action.value}" for action in Action if plan.count(action))
    say(f"{plan.source}: {counts or 'nothing to do'}, {plan.unchanged:,} unchanged")


def _names(jobs: Sequence[Job]) -> str:
    names = [job.source_key for job in jobs[:MAX_NAMED]]
    return ", ".join([*names, f"and {len(jobs) - MAX_NAMED:,} more"] if len(jobs) > MAX_NAMED else names)


def _title(step: Step) -> str:
    notes = []
    if step.action == Action.CREATE:
        notes.append(f"{step.job.task}, {step.job.trigger.words()}, {step.job.timezone}")
    if step.is_adopted:
        notes.append(f"takes over #{step.job.pk}{f' of {step.job.source}' if step.job.source else ''}")
    if step.is_restored:
        notes.append("brings it back")
    if step.paused is not None:
        notes.append("pauses it" if step.paused else "resumes it")
    if step.replaced:
        notes.append(f"replaces #{step.replaced.pk}, which has ended")
    return f"{step.key} ({'; '.join(notes)})" if notes else step.key


def invalid_file(problems: Sequence[Problem]) -> Failure:
    """Return the failure that lists what is wrong with a file."""
    many = "" if len(problems) == 1 else f" ({len(problems):,} problems)"
    listed = [line(_problem_text(problem)) for problem in problems[:MAX_PROBLEMS]]
    if len(problems) > MAX_PROBLEMS:
        listed.append(f"… and {len(problems) - MAX_PROBLEMS:,} more")
    return Failure("\n".join([f"Nothing was changed{many}:", *listed]), code="invalid")


def _problem_text(problem: Problem) -> str:
    return f"{problem}: {message_of(problem.error)}" if problem.error else str(problem)


@contextmanager
def _progress(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error, if that is a terminal; yield the function that updates it."""
    out = console(stderr=True)
    columns = (TextColumn(description), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=out, disable=current_console().is_remote or not out.is_terminal) as bar:
        task = bar.add_task(description, total=total)
        yield lambda done: bar.update(task, completed=done)


def read_text(path: str) -> str:
    """Read a file on the machine of the person, or standard input for `-`."""
    return str(current_console().do("read_text", path, most=MAX_BYTES))


def write_file(path: str, text: str, *, force: bool) -> None:
    current_console().do("write_text", path, text, force=force)
