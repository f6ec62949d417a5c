"""The subcommand `logs`: show runs, and follow new ones with their output."""

import click

from cronty_site.terminal.completion import complete_job
from cronty_site.terminal.consoles import current_console, echo
from cronty_site.terminal.failures import ExitCode, Failure
from cronty_site.terminal.output import block, note, print_json, print_list, say
from cronty_site.terminal.rows import (
    RUN_COLUMNS,
    agent_json,
    agent_lines,
    clock_text,
    result_text,
    run_json,
    run_row,
    usage_text,
)
from cronty_site.terminal.session import Session, subcommand
from schedules.models import Execution
from schedules.result import Kind
from schedules.services.run_list import RunLog, find_run
from schedules.services.runs.explanations import explain
from schedules.services.runs.outputs import output_since
from schedules.services.runs.runner_list import agent_run_of

POLL_SECONDS = 0.5
MAX_FOLLOWED = 1000
# How many new runs are read per poll.
MAX_NEW = 100


class RunStream:
    """Prints new output of a run."""

    def __init__(self, run: Execution) -> None:
        self._run = run
        self._position = 0
        self._attempt = 0
        self._is_in_line = False
        self.has_printed = False
        self.is_ended = False

    def print_new(self) -> None:
        """Print the output since the last call; a new attempt starts with a note."""
        part = output_since(self._run, self._position, self._attempt)
        if part.text:
            if self.has_printed and part.attempt != self._attempt:
                self.end_line()
                note(f"Attempt {part.attempt}:")
            echo(block(part.text), nl=False)
            self.has_printed = True
            self._is_in_line = not part.text.endswith("\n")
        self._position, self._attempt, self.is_ended = part.position, part.attempt, part.is_ended

    def end_line(self) -> None:
        """End the last line, before something else is printed."""
        if self._is_in_line:
            echo()
            self._is_in_line = False


class RunStreams:
    """Prints the output of several runs, never two of them in one line."""

    def __init__(self) -> None:
        self._streams: dict[int, RunStream] = {}
        self._last: RunStream | None = None

    def print_new(self, run: Execution) -> None:
        stream = self._streams.setdefault(run.pk, RunStream(run))
        if self._last is not stream:
            self.end_line()
        stream.print_new()
        self._last = stream

    def end(self, run: Execution) -> bool:
        """Print the remaining output of a run; return whether there was any output."""
        self.print_new(run)
        self.end_line()
        return self._streams.pop(run.pk).has_printed

    def end_line(self) -> None:
        if self._last:
            self._last.end_line()


@subcommand(
    "logs",
    examples="""
    cronty logs
    cronty logs Backup --follow
    cronty logs --run 1234 --follow
    """,
)
@click.argument("reference", metavar="[JOB]", shell_complete=complete_job, required=False)
@click.option("--run", "run_id", type=int, help="One run, with everything it left.")
@click.option("--status", type=click.Choice(Execution.Status.values), help="Only runs that ended like this.")
@click.option(
    "-n", "--lines", type=click.IntRange(0, 10_000), default=20, show_default=True, help="How many runs."
)
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Go on with new runs until Ctrl-C; with a JOB or --run, also with the output.",
)
def logs_command(
    session: Session, reference: str | None, run_id: int | None, status: str | None, lines: int, follow: bool
) -> None:
    """Show the last runs, oldest first: of all jobs, of one JOB, or one run in full."""
    if run_id is not None:
        _show_run(session, find_run(session.actor, run_id), run_id, follow=follow)
        return
    with_job = reference is None
    log = RunLog(session.actor, session.job(reference) if reference is not None else None, status)
    newest = log.last(lines)
    if follow:
        _follow(session, log, newest, with_job=with_job)
        return
    print_list(
        newest,
        lambda run: run_json(run, session.zone),
        RUN_COLUMNS,
        lambda run: run_row(run, session.zone, with_job=with_job),
        shrink="what",
        if_none="No runs.",
    )


def _show_run(session: Session, run: Execution | None, run_id: int, *, follow: bool) -> None:
    """Print a run with its output, its error and its result; with `follow`, until it ends."""
    if run is None:
        raise Failure(f"Run not found: {run_id}", ExitCode.NOT_FOUND, code=Kind.NOT_FOUND)
    if session.as_json:
        print_json(run_json(run, session.zone) | {"agent": agent_json(agent_run_of(run))})
        return
    say(f"{run.job_name}, {clock_text(run.scheduled_for, session.zone)}: {run.status}", "bold")
    say(explain(run, session.zone))
    stream = RunStream(run)
    stream.print_new()
    while follow and not stream.is_ended:
        current_console().pause(POLL_SECONDS)
        stream.print_new()
    if follow:
        run.refresh_from_db(fields=["error", "result"])
    show_end(run, stream)


def show_end(run: Execution, stream: RunStream) -> None:
    """Print what follows the output of a run: its error, what its agent did, and its usage or its result."""
    stream.end_line()
    if run.error:
        echo(block(run.error))
    if agent := agent_run_of(run):
        for line in agent_lines(agent):
            note(line)
    if usage := usage_text(run.result):
        note(usage)
    elif not stream.has_printed and (text := result_text(run.result)):
        echo(block(text))


def _follow(session: Session, log: RunLog, newest: list[Execution], *, with_job: bool) -> None:
    """Print these runs, then every run that starts or ends, until Ctrl-C; for one job, also the output."""
    # Older runs are printed only when they change.
    printed = {run.pk: run.status for run in log.last_written(MAX_NEW)}
    for run in newest:
        printed.pop(run.pk, None)
    streams = None if with_job or session.as_json else RunStreams()
    is_history = True
    while True:
        for run in newest:
            if printed.get(run.pk) != run.status:
                printed[run.pk] = run.status
                is_over = run.status in Execution.FINAL and not is_history
                has_output = streams is not None and is_over and streams.end(run)
                if streams:
                    streams.end_line()
                _print_line(session, run, with_job=with_job, has_output=has_output)
            if streams and run.status == Execution.Status.RUNNING:
                streams.print_new(run)
        is_history = False
        # Remember only the newest runs, because older ones no longer change.
        printed = dict(sorted(printed.items())[-MAX_FOLLOWED:])
        current_console().pause(POLL_SECONDS)
        newest = log.last_written(MAX_NEW)


def _print_line(session: Session, run: Execution, *, with_job: bool, has_output: bool) -> None:
    if session.as_json:
        print_json(run_json(run, session.zone))
        return
    number, at, status, took, what = run_row(run, session.zone, with_job=with_job)
    if has_output:
        # Its result repeats the output.
        what = run.error or usage_text(run.result)
    say("  ".join(str(part) for part in (number, at, status, took, what) if part))
