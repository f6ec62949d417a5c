"""The subcommand that shows runs with their output, and follows new ones."""

import time

import click

from cronty_site.terminal.completion import complete_job
from cronty_site.terminal.output import block, note, print_json, print_table, say
from cronty_site.terminal.session import Session, subcommand
from cronty_site.terminal.setup import ExitCode
from cronty_site.terminal.shapes import RUN_COLUMNS, clock_text, result_text, run_json, run_row, usage_text
from cronty_site.terminal.streams import RunStream, RunStreams
from schedules.models import Execution
from schedules.models.executions import ExecutionQuerySet
from schedules.result import Code
from schedules.services.runs.explanations import explain

POLL_SECONDS = 0.5
MOST_FOLLOWED = 1000


@subcommand(
    "logs",
    examples="""
    cronty logs
    cronty logs Backup --follow
    cronty logs --run 1234 --follow
    """,
)
@click.argument("job", shell_complete=complete_job, required=False)
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
    session: Session, job: str | None, run_id: int | None, status: str | None, lines: int, follow: bool
) -> None:
    """Show the last runs, oldest first: of all jobs, of one JOB, or one run in full."""
    runs = session.actor.executions().defer("traceback")
    if run_id is not None:
        _show_run(session, runs.filter(pk=run_id).first(), run_id, follow=follow)
        return
    if job is not None:
        runs = runs.filter(job=session.job(job))
    if status:
        runs = runs.filter(status=status)
    with_job = job is None
    newest = list(runs[:lines])[::-1]
    if follow:
        _follow(session, runs, newest, with_job=with_job)
    elif session.as_json:
        print_json([run_json(run, session.zone) for run in newest])
    elif newest:
        print_table(
            RUN_COLUMNS, [run_row(run, session.zone, with_job=with_job) for run in newest], shrink="what"
        )
    else:
        say("No runs.")


def _show_run(session: Session, run: Execution | None, run_id: int, *, follow: bool) -> None:
    if run is None:
        raise session.failure(f"Run not found: {run_id}", ExitCode.NOT_FOUND, Code.NOT_FOUND)
    if session.as_json:
        print_json(run_json(run, session.zone))
        return
    say(f"{run.job_name}, {clock_text(run.scheduled_for, session.zone)}: {run.status}", "bold")
    say(explain(run, session.zone))
    show_outcome(run, follow=follow)


def show_outcome(run: Execution, *, follow: bool = False) -> None:
    """Print what a run has printed, until it ends if asked for, its error, and how it ended or its result."""
    stream = RunStream(run)
    stream.print_new()
    while follow and not stream.is_ended:
        time.sleep(POLL_SECONDS)  # noqa: TID251  (follows until Ctrl-C)
        stream.print_new()
    if follow:
        run.refresh_from_db(fields=["error", "result"])
    show_end(run, stream)


def show_end(run: Execution, stream: RunStream) -> None:
    """Print the error of a run, and how it ended or its result, after its output."""
    stream.end_line()
    if run.error:
        click.echo(block(run.error))
    if usage := usage_text(run.result):
        note(usage)
    elif not stream.has_printed and (text := result_text(run.result)):
        click.echo(block(text))


def _follow(session: Session, runs: ExecutionQuerySet, newest: list[Execution], *, with_job: bool) -> None:
    """Print these runs, and then every run that starts or ends, until Ctrl-C; of one job, also what it prints."""
    # Older runs are printed when they change.
    seen = {run.pk: run.status for run in runs.order_by("-pk")[:100]}
    for run in newest:
        seen.pop(run.pk, None)
    streams = None if with_job or session.as_json else RunStreams()
    is_history = True
    while True:
        for run in newest:
            if seen.get(run.pk) != run.status:
                seen[run.pk] = run.status
                is_over = run.status in Execution.FINAL and not is_history
                has_output = streams is not None and is_over and streams.end(run)
                if streams:
                    streams.end_line()
                _print_line(session, run, with_job=with_job, has_output=has_output)
            if streams and run.status == Execution.Status.RUNNING:
                streams.print_new(run)
        is_history = False
        # Of many runs, only the newest can still change.
        seen = dict(sorted(seen.items())[-MOST_FOLLOWED:])
        time.sleep(POLL_SECONDS)  # noqa: TID251  (follows until Ctrl-C)
        newest = list(runs.order_by("-pk")[:100])[::-1]


def _print_line(session: Session, run: Execution, *, with_job: bool, has_output: bool) -> None:
    if session.as_json:
        print_json(run_json(run, session.zone))
        return
    number, at, status, took, what = run_row(run, session.zone, with_job=with_job)
    if has_output:
        # Its result repeats the output.
        what = run.error or usage_text(run.result)
    say("  ".join(str(part) for part in (number, at, status, took, what) if part))
