"""The subcommands `run` and `logs`: start a run, show runs, and follow them with their output."""

import time
from typing import Any

import click

from cronty_site.terminal.failures import ExitCode, Failure
from cronty_site.terminal.operations import Refusal
from cronty_site.terminal.output import answer, block, note, print_json, print_list, say, waiting
from cronty_site.terminal.rows import (
    RUN_COLUMNS,
    Document,
    agent_lines,
    clock_text,
    result_text,
    run_row,
    usage_text,
)
from cronty_site.terminal.session import Session, complete_job, subcommand
from schedules.models import Execution

# A server counts the calls of a token.
POLL_SECONDS, POLL_SECONDS_THERE = 0.2, 2.0
MAX_FOLLOWED = 1000
# How many new runs are read per poll.
MAX_NEW = 100
SETTLED = {*Execution.FINAL, Execution.Status.WAITING}
WAITING = (Execution.Status.QUEUED, Execution.Status.CLAIMED)


class RunStream:
    """Prints new output of a run."""

    def __init__(self, session: Session, run: int) -> None:
        self._session, self._run = session, run
        self._position = self._attempt = 0
        self._is_in_line = False
        self.has_printed = False
        self.is_ended = False

    def print_new(self) -> None:
        """Print the output since the last call; a new attempt starts with a note."""
        part = self._session.call(
            "show_output", run=self._run, position=self._position, attempt=self._attempt
        )
        if part["text"]:
            if self.has_printed and part["attempt"] != self._attempt:
                self.end_line()
                note(f"Attempt {part['attempt']}:")
            click.echo(block(part["text"]), nl=False)
            self.has_printed = True
            self._is_in_line = not part["text"].endswith("\n")
        self._position, self._attempt, self.is_ended = part["position"], part["attempt"], part["is_ended"]

    def end_line(self) -> None:
        """End the last line, before something else is printed."""
        if self._is_in_line:
            click.echo()
            self._is_in_line = False


class RunStreams:
    """Prints the output of several runs, never two of them in one line."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._streams: dict[int, RunStream] = {}
        self._last: RunStream | None = None

    def print_new(self, run: int) -> None:
        stream = self._streams.setdefault(run, RunStream(self._session, run))
        if self._last is not stream:
            self.end_line()
        stream.print_new()
        self._last = stream

    def end(self, run: int) -> bool:
        """Print the remaining output of a run; return whether there was any output."""
        self.print_new(run)
        self.end_line()
        return self._streams.pop(run).has_printed

    def end_line(self) -> None:
        if self._last:
            self._last.end_line()


@subcommand(
    "run",
    examples="""
    cronty run Backup
    cronty run Backup --wait && echo done
    """,
)
@click.argument("reference", metavar="JOB", shell_complete=complete_job)
@click.option("--wait", is_flag=True, help="Print its output until it ends; exit code 4 unless it succeeded.")
@click.option("--timeout", type=click.FloatRange(0), default=3600, show_default=True, help="Seconds to wait.")
def run_command(session: Session, reference: str, wait: bool, timeout: float) -> None:
    """Run a job once, now, also one that is paused or has ended, but none that was cancelled. Its schedule does not change."""
    run = session.call("run_job", job=reference)
    if not wait:
        answer(run, f"Queued: {run['job']}, run {run['run']}", style="")
    if not session.as_json and not session.me["is_worker_running"]:
        note("No cluster is running: it waits until `cronty up` runs.")
    if not wait:
        return
    stream = RunStream(session, run["run"])
    final = wait_for_end(session, run["run"], timeout, None if session.as_json else stream)
    has_succeeded = final["status"] == Execution.Status.SUCCEEDED
    if session.as_json:
        print_json(final)
    else:
        stream.end_line()
        say(f"{final['status']}: {final['explanation']}", "green" if has_succeeded else "red")
        _show_end(final, stream)
    if not has_succeeded:
        click.get_current_context().exit(ExitCode.RUN_FAILED)


def wait_for_end(session: Session, run: int, timeout: float, stream: RunStream | None = None) -> Document:
    """Wait for the end of a run, and print its output meanwhile if there is a stream."""
    deadline = time.monotonic() + timeout
    with waiting(f"Waiting for run {run} …") as stop:
        while True:
            try:
                latest: Document = session.call("show_run", run=run)
            except Refusal as refusal:
                if refusal.exit_code == ExitCode.NOT_FOUND:
                    raise Failure(f"Run {run} was deleted.", ExitCode.RUN_FAILED) from None
                raise
            if stream and latest["status"] not in WAITING:
                # The spinner would be drawn into the output.
                stop()
                stream.print_new()
            if latest["status"] in SETTLED:
                return latest
            if time.monotonic() >= deadline:
                if stream:
                    stream.end_line()
                raise Failure(
                    f"Run {run} is still {latest['status']} after {timeout:g} seconds.", ExitCode.RUN_FAILED
                )
            _pause(session)


def _pause(session: Session) -> None:
    """Wait before what a command follows is read again."""
    time.sleep(POLL_SECONDS_THERE if session.is_remote else POLL_SECONDS)  # noqa: TID251  (follows until Ctrl-C)


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
        _show_run(session, run_id, follow=follow)
        return
    filters: dict[str, Any] = {"job": reference, "status": status}
    if follow:
        _follow(session, filters, lines, with_job=reference is None)
        return
    print_list(
        _last_runs(session, filters, lines),
        RUN_COLUMNS,
        lambda run: run_row(run, session.zone, with_job=reference is None),
        shrink="what",
        if_none="No runs.",
    )


def _last_runs(session: Session, filters: dict[str, Any], limit: int) -> list[Document]:
    """Return the last runs, oldest first."""
    return session.listed("list_runs", "runs", limit, **filters)[0][::-1]


def _show_run(session: Session, number: int, *, follow: bool) -> None:
    """Print a run with its output, its error and its result; with `follow`, until it ends."""
    run = session.call("show_run", run=number)
    if session.as_json:
        print_json(run)
        return
    say(f"{run['job']}, {clock_text(run['scheduled_for'], session.zone)}: {run['status']}", "bold")
    say(run["explanation"])
    stream = RunStream(session, number)
    stream.print_new()
    while follow and not stream.is_ended:
        _pause(session)
        stream.print_new()
    _show_end(session.call("show_run", run=number) if follow else run, stream)


def _show_end(run: Document, stream: RunStream) -> None:
    """Print what follows the output of a run: its error, what its agent did, and its usage or its result."""
    stream.end_line()
    if run["error"]:
        click.echo(block(run["error"]))
    if run["agent"]:
        for line in agent_lines(run["agent"]):
            note(line)
    if usage := usage_text(run["result"]):
        note(usage)
    elif not stream.has_printed and (text := result_text(run["result"])):
        click.echo(block(text))


def _follow(session: Session, filters: dict[str, Any], lines: int, *, with_job: bool) -> None:
    """Print the last runs, then every run that starts or ends, until Ctrl-C; for one job, also the output."""
    newest = _last_runs(session, filters, lines)
    # Older runs are printed only when they change.
    printed = {run["run"]: run["status"] for run in _last_written(session, filters)}
    for run in newest:
        printed.pop(run["run"], None)
    streams = None if with_job or session.as_json else RunStreams(session)
    is_history = True
    while True:
        for run in newest:
            number, status = run["run"], run["status"]
            if printed.get(number) != status:
                printed[number] = status
                is_over = status in Execution.FINAL and not is_history
                has_output = streams is not None and is_over and streams.end(number)
                if streams:
                    streams.end_line()
                _print_line(session, run, with_job=with_job, has_output=has_output)
            if streams and status == Execution.Status.RUNNING:
                streams.print_new(number)
        is_history = False
        # Remember only the newest runs, because older ones no longer change.
        printed = dict(sorted(printed.items())[-MAX_FOLLOWED:])
        _pause(session)
        newest = _last_written(session, filters)


def _last_written(session: Session, filters: dict[str, Any]) -> list[Document]:
    """Return the runs last written to the ledger, whenever they were due, oldest first."""
    return list(session.call("list_runs", order="written", limit=MAX_NEW, **filters)["runs"])[::-1]


def _print_line(session: Session, run: Document, *, with_job: bool, has_output: bool) -> None:
    if session.as_json:
        print_json(run)
        return
    number, at, status, took, what = run_row(run, session.zone, with_job=with_job)
    if has_output:
        # Its result repeats the output.
        what = run["error"] or usage_text(run["result"])
    say("  ".join(str(part) for part in (number, at, status, took, what) if part))
