"""The subcommands that change jobs: run, pause, resume, confirm, skip, cancel, rm and restore."""

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import click

from cronty_site.terminal.completion import complete_job
from cronty_site.terminal.consoles import current_console
from cronty_site.terminal.failures import ExitCode, Failure, show_error
from cronty_site.terminal.logs import RunStream, show_end
from cronty_site.terminal.output import answer, line, note, print_json, print_list, say, waiting
from cronty_site.terminal.rows import clock_text, iso_in, job_json, next_run_note, run_json, skipped
from cronty_site.terminal.session import Session, refused, subcommand
from schedules import engine, services
from schedules.models import Execution, Job
from schedules.models.counting import counted
from schedules.result import Err, Result
from schedules.services.jobs.pause_all import (
    ChangedTogether,
    pause_everything,
    resume_everything,
    what_goes_on,
)
from schedules.services.jobs.proposals import list_plans, waiting_jobs
from schedules.services.run_list import read_again
from schedules.services.runs.explanations import explain
from schedules.when.phrases import parse_day, parse_moment

POLL_SECONDS = 0.2
SETTLED = {*Execution.FINAL, Execution.Status.WAITING}
_MOMENT = re.compile(r"\s*[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]\s*[0-9]")
_JOBS = click.argument("jobs", shell_complete=complete_job, nargs=-1, required=True, metavar="JOB...")
_SOME_JOBS = click.argument("jobs", shell_complete=complete_job, nargs=-1, metavar="[JOB]...")


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
    run = session.expect(services.run_now(session.actor, session.job_id(reference)))
    if not wait:
        answer(run_json(run, session.zone), f"Queued: {run.job_name}, run {run.pk}", style="")
    if not session.as_json and not engine.is_any_cluster_running(session.now):
        note("No cluster is running: it waits until `cronty up` runs.")
    if not wait:
        return
    stream = RunStream(run)
    final = wait_for_end(session, run, timeout, None if session.as_json else stream)
    if session.as_json:
        print_json(run_json(final, session.zone))
    else:
        stream.end_line()
        say(f"{final.status}: {explain(final, session.zone)}", "green" if _has_succeeded(final) else "red")
        show_end(final, stream)
    if not _has_succeeded(final):
        click.get_current_context().exit(ExitCode.RUN_FAILED)


def wait_for_end(
    session: Session, run: Execution, timeout: float, stream: RunStream | None = None
) -> Execution:
    """Wait for the end of a run, and print its output meanwhile if there is a stream."""
    deadline = time.monotonic() + timeout
    with waiting(f"Waiting for run {run.pk} …") as stop:
        while True:
            try:
                latest = read_again(run.pk)
            except Execution.DoesNotExist:
                raise Failure(f"Run {run.pk} was deleted.", ExitCode.RUN_FAILED) from None
            if stream and latest.status not in (Execution.Status.QUEUED, Execution.Status.CLAIMED):
                # The spinner would be drawn into the output.
                stop()
                stream.print_new()
            if latest.status in SETTLED:
                return latest
            if time.monotonic() >= deadline:
                if stream:
                    stream.end_line()
                raise Failure(
                    f"Run {run.pk} is still {latest.status} after {timeout:g} seconds.", ExitCode.RUN_FAILED
                )
            current_console().pause(POLL_SECONDS)


def _has_succeeded(run: Execution) -> bool:
    return run.status == Execution.Status.SUCCEEDED


@subcommand(
    "pause",
    examples="""
    cronty pause "Stand up" --until monday --reason holidays
    cronty pause 12 13 14
    cronty pause --all --until 2027-01-07
    """,
)
@_SOME_JOBS
@click.option("--all", "everything", is_flag=True, help="Every job of yours that runs.")
@click.option("--until", help='When they resume: a time or a phrase like "monday", in the zone of each job.')
@click.option("--reason", default="", help="The reason, for whoever looks later.")
def pause_command(
    session: Session, jobs: Sequence[str], everything: bool, until: str | None, reason: str
) -> None:
    """Pause jobs until they are resumed. Runs within the pause are skipped."""
    if _is_about_all(jobs, everything):
        if reason:
            raise click.UsageError("--all has a reason of its own: leave out --reason.")
        moment = (
            session.read(parse_moment, until, "--until", session.zone, may_be_day=True) if until else None
        )
        paused = pause_everything(session.actor, moment)
        if not session.as_json and (text := what_goes_on(session.actor)):
            note(text)
        _show_all(session, paused, "Paused")
        return

    def pause(job_id: str) -> Result[Job]:
        job = session.actor.jobs().find(job_id)
        zone = job.timezone if job else session.zone
        moment = session.read(parse_moment, until, "--until", zone, may_be_day=True) if until else None
        return services.pause(session.actor, job_id, reason=reason, until=moment)

    _change_each(session, jobs, pause, "Paused")


@subcommand(
    "resume",
    examples="""
    cronty resume "Stand up"
    cronty resume --all
    """,
)
@_SOME_JOBS
@click.option("--all", "everything", is_flag=True, help="What `pause --all` has paused.")
def resume_command(session: Session, jobs: Sequence[str], everything: bool) -> None:
    """Resume paused jobs."""
    if _is_about_all(jobs, everything):
        _show_all(session, resume_everything(session.actor), "Resumed")
        return
    _change_each(session, jobs, lambda job_id: services.resume(session.actor, job_id), "Resumed")


@subcommand(
    "confirm",
    examples="""
    cronty confirm
    cronty confirm "Check the build"
    cronty confirm --all
    """,
)
@_SOME_JOBS
@click.option("--all", "everything", is_flag=True, help="Everything that waits for a confirmation.")
def confirm_command(session: Session, jobs: Sequence[str], everything: bool) -> None:
    """Let jobs run that agents have made or changed; without a JOB, list those that wait."""
    if not jobs and not everything:
        _list_proposals(session)
        return
    if everything and jobs:
        raise click.UsageError("Give JOBs or --all, not both.")
    if everything:
        jobs = list(waiting_jobs(session.actor).values_list("public_id", flat=True))
        if not jobs:
            answer({"jobs": []}, "Nothing waits for a confirmation.", style="")
            return
    _change_each(session, jobs, lambda job_id: services.confirm(session.actor, job_id), "Confirmed")


def _list_proposals(session: Session) -> None:
    print_list(
        [each for plan in list_plans(session.actor, session.now) for each in plan.proposals],
        lambda each: {
            **job_json(each.job),
            "proposed_by": each.job.proposed_by,
            "schedule_in_words": each.schedule,
            "would_run": [iso_in(run, each.job.timezone) for run in each.next_runs],
            "limits": each.limits,
            "is_over": each.is_over,
        },
        ("job", "by", "schedule", "first run", "task", "limits"),
        lambda each: [
            each.job.name,
            each.job.proposed_by,
            each.schedule,
            "its time has passed"
            if each.is_over
            else clock_text(next(iter(each.next_runs), None), session.zone),
            each.job.task,
            each.limits,
        ],
        shrink="job",
        if_none="Nothing waits for a confirmation.",
    )


@subcommand(
    "skip",
    examples="""
    cronty skip "Stand up"
    cronty skip "Stand up" tomorrow 2026-12-24
    cronty skip "Stand up" --undo
    """,
)
@click.argument("reference", metavar="JOB", shell_complete=complete_job)
@click.argument("when", nargs=-1, metavar="[DAY|MOMENT]...")
@click.option("--undo", is_flag=True, help="Let them run after all; without a day, every skipped run.")
def skip_command(session: Session, reference: str, when: Sequence[str], undo: bool) -> None:
    """Leave out the next run of a repeating job, or its runs on certain days; the schedule goes on after them."""
    job = session.job(reference)
    zone = job.timezone
    days, slots = [], []
    for text in when:
        if _MOMENT.match(text):
            slots.append(session.read(parse_moment, text, "MOMENT", zone))
        else:
            days.append(session.read(parse_day, text, f"DAY {line(text)!r}", zone))
    changed = session.expect(services.skip(session.actor, job.public_id, days, slots, undo=undo))
    skips = changed.skips.split()
    description = ", ".join(skipped(each, zone) for each in skips) or "nothing"
    answer(job_json(changed) | {"skips": skips}, f"{changed.name}: leaves out {description}", style="")


@subcommand("cancel", examples="cronty cancel 12")
@_JOBS
def cancel_command(session: Session, jobs: Sequence[str]) -> None:
    """Cancel jobs: a run in progress finishes, and no other starts. `restore` undoes this."""
    _change_each(session, jobs, lambda job_id: services.cancel(session.actor, job_id), "Cancelled")


@subcommand("rm", examples="cronty rm 12 13")
@_JOBS
def rm_command(session: Session, jobs: Sequence[str]) -> None:
    """Move jobs to the trash. `restore` undoes this."""
    _change_each(session, jobs, lambda job_id: services.delete(session.actor, job_id), "Moved to the trash")


@subcommand("restore", examples='cronty restore "Stand up"')
@_JOBS
def restore_command(session: Session, jobs: Sequence[str]) -> None:
    """Bring back deleted and cancelled jobs.

    To restore the database from a backup, use `cronty manage restore PATH`.
    """
    _change_each(
        session, jobs, lambda job_id: services.restore(session.actor, job_id), "Restored", is_restore=True
    )


def _is_about_all(jobs: Sequence[str], everything: bool) -> bool:
    if everything == bool(jobs):
        raise click.UsageError(
            "Name jobs, or use --all." if not jobs else "Name jobs or use --all, not both."
        )
    return everything


def _show_all(session: Session, changed: ChangedTogether, word: str) -> None:
    """Print how many jobs were changed; exit with the code of the first refusal."""
    if session.as_json:
        print_json([job_json(job) for job in changed.jobs])
    else:
        say(f"{word}: {counted(len(changed.jobs), 'job')}")
    if changed.refused:
        failure = refused(changed.refused[0])
        show_error(failure, as_json=session.as_json, stream=current_console().stream(err=True))
        click.get_current_context().exit(failure.exit_code)


def _change_each(
    session: Session,
    references: Sequence[str],
    change: Callable[[str], Result[Job]],
    word: str,
    *,
    is_restore: bool = False,
) -> None:
    """Change the jobs one by one, also after a refusal; exit with the code of the first refusal."""
    changed: list[dict[str, Any]] = []
    failures: list[Failure] = []
    for reference in references:
        job_id = session.find_id(
            session.actor.restorable() if is_restore else session.actor.jobs(), reference
        )
        result = job_id if isinstance(job_id, Err) else change(job_id.value)
        if isinstance(result, Err):
            failures.append(refused(result))
            show_error(failures[-1], as_json=session.as_json, stream=current_console().stream(err=True))
            continue
        job = result.value
        changed.append(job_json(job))
        if not session.as_json:
            until = f" until {clock_text(job.paused_until, job.timezone)}" if job.paused_until else ""
            say(f"{word}: {job.name} (#{job.pk}){until}{next_run_note(job)}")
    if session.as_json and changed:
        print_json(changed)
    if failures:
        click.get_current_context().exit(failures[0].exit_code)
