"""The subcommands that change jobs and answer reminders: run by run, job by job, or all at once."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from cronty_site.terminal.failures import Failure, show_error
from cronty_site.terminal.output import answer, print_json, print_list, say, show_once
from cronty_site.terminal.output import note as print_note
from cronty_site.terminal.rows import clock_text, next_run_note, skipped
from cronty_site.terminal.session import Session, complete_job, subcommand
from schedules.models import TriggerAddress
from schedules.models.counting import counted

_JOB = click.argument("reference", metavar="JOB", shell_complete=complete_job)
_JOBS = click.argument("jobs", shell_complete=complete_job, nargs=-1, required=True, metavar="JOB...")
_SOME_JOBS = click.argument("jobs", shell_complete=complete_job, nargs=-1, metavar="[JOB]...")


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
        paused = session.call("pause_all", {"until": "--until"}, until=until)
        if not session.as_json and paused["note"]:
            print_note(paused["note"])
        _show_all(session, paused, "Paused")
        return
    _change_each(session, jobs, "pause_job", "Paused", {"until": "--until"}, until=until, reason=reason)


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
        _show_all(session, session.call("resume_all"), "Resumed")
        return
    _change_each(session, jobs, "resume_job", "Resumed")


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
    if everything and jobs:
        raise click.UsageError("Give JOBs or --all, not both.")
    if jobs:
        _change_each(session, jobs, "confirm_job", "Confirmed")
        return
    waiting = session.call("list_proposals")["proposals"]
    if everything and waiting:
        _change_each(session, [each["id"] for each in waiting], "confirm_job", "Confirmed")
    elif everything:
        answer({"jobs": []}, "Nothing waits for a confirmation.", style="")
    else:
        _list_proposals(session, waiting)


def _list_proposals(session: Session, proposals: Sequence[Mapping[str, Any]]) -> None:
    print_list(
        proposals,
        ("job", "by", "schedule", "first run", "task", "limits"),
        lambda each: [
            each["name"],
            each["proposed_by"],
            each["schedule_in_words"],
            "its time has passed"
            if each["is_over"]
            else clock_text(next(iter(each["would_run"]), None), session.zone),
            each["task"],
            each["limits"],
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
    job = session.call("skip_runs", {"dates": "DAY"}, job=reference, dates=list(when), undo=undo)
    left_out = ", ".join(skipped(each, job["timezone"]) for each in job["skips"]) or "nothing"
    answer(job, f"{job['name']}: leaves out {left_out}", style="")


@subcommand("cancel", examples="cronty cancel 12")
@_JOBS
def cancel_command(session: Session, jobs: Sequence[str]) -> None:
    """Cancel jobs: a run in progress finishes, and no other starts. `restore` undoes this."""
    _change_each(session, jobs, "cancel_job", "Cancelled")


@subcommand("rm", examples="cronty rm 12 13")
@_JOBS
def rm_command(session: Session, jobs: Sequence[str]) -> None:
    """Move jobs to the trash. `restore` undoes this."""
    _change_each(session, jobs, "delete_job", "Moved to the trash")


@subcommand("restore", examples='cronty restore "Stand up"')
@_JOBS
def restore_command(session: Session, jobs: Sequence[str]) -> None:
    """Bring back deleted and cancelled jobs.

    To restore the database from a backup, use `cronty manage restore PATH`.
    """
    _change_each(session, jobs, "restore_job", "Restored")


@subcommand(
    "done",
    examples="""
    cronty done "Take the pills"
    cronty done "Take the pills" --undo
    """,
)
@_JOB
@click.option("--undo", is_flag=True, help="Take back the last answer.")
def done_command(session: Session, reference: str, undo: bool) -> None:
    """Answer the last reminder of a job: it is done, and no more reminders are sent."""
    _answer(session, reference, answer="undo" if undo else "done")


@subcommand(
    "snooze",
    examples="""
    cronty snooze "Take the pills"
    cronty snooze "Take the pills" 1h
    cronty snooze "Take the pills" "tomorrow at 9:00"
    """,
)
@_JOB
@click.argument("until", default="10m")
def snooze_command(session: Session, reference: str, until: str) -> None:
    """Be reminded again after a duration or at a time, in the zone of the job. Default: in 10 minutes."""
    _answer(session, reference, answer="snooze", until=until)


def _answer(session: Session, reference: str, **values: str) -> None:
    job = session.call("answer_reminder", job=reference, **values)
    answer(job, f"{job['name']}: {job['reminder']}", style="")


@subcommand(
    "trigger",
    examples="""
    cronty trigger "Stand up"
    cronty trigger Deploy --scheme github --secret GITHUB_HOOK
    cronty trigger Deploy --close
    """,
)
@_JOB
@click.option(
    "--scheme",
    type=click.Choice([value for value in TriggerAddress.Scheme.values if value]),
    help="Who signs the requests.  [default: nobody, the address is secret]",
)
@click.option("--secret", help="The name of your secret that checks signatures.")
@click.option("--close", "is_closed", is_flag=True, help="Take the address away.")
def trigger_command(
    session: Session, reference: str, scheme: str | None, secret: str | None, is_closed: bool
) -> None:
    """Give JOB an address: a POST request to it starts a run. A second call gives it a new one."""
    if is_closed:
        job = session.call("show_job", job=reference)
        session.call("close_trigger", job=job["id"])
        answer({"id": job["id"], "url": None}, f"{job['name']} has no trigger address any more.")
        return
    opened = session.call("open_trigger", job=reference, scheme=scheme, secret=secret)
    show_once(
        {"id": opened["job"], "url": opened["url"]},
        opened["url"],
        "It is not shown again. An address that it had before works for seven more days.",
    )


def _is_about_all(jobs: Sequence[str], everything: bool) -> bool:
    if everything == bool(jobs):
        raise click.UsageError(
            "Name jobs, or use --all." if not jobs else "Name jobs or use --all, not both."
        )
    return everything


def _show_all(session: Session, changed: Mapping[str, Any], word: str) -> None:
    """Print how many jobs were changed; exit with the code of the first refusal."""
    if session.as_json:
        print_json(changed["jobs"])
    else:
        say(f"{word}: {counted(len(changed['jobs']), 'job')}")
    if changed["refused"]:
        raise Failure(changed["refused"][0]["why"], code=changed["refused"][0]["code"])


def _change_each(
    session: Session,
    references: Sequence[str],
    operation: str,
    word: str,
    wrong: Mapping[str, str] | None = None,
    **values: Any,
) -> None:
    """Change the jobs one by one, also after a refusal; exit with the code of the first refusal."""
    changed: list[Mapping[str, Any]] = []
    failures: list[Failure] = []
    for reference in references:
        try:
            if operation == "delete_job":
                before = session.call("show_job", job=reference)
                session.call(operation, job=before["id"])
                job = session.call("show_job", job=before["id"])
            else:
                job = session.call(operation, wrong, job=reference, **values)
        except Failure as failure:
            failures.append(failure)
            show_error(failure, as_json=session.as_json)
            continue
        changed.append(job)
        if not session.as_json:
            until = (
                f" until {clock_text(job['paused_until'], job['timezone'])}" if job["paused_until"] else ""
            )
            say(f"{word}: {job['name']} (#{job['number']}){until}{next_run_note(job)}")
    if session.as_json and changed:
        print_json(changed)
    if failures:
        click.get_current_context().exit(failures[0].exit_code)
