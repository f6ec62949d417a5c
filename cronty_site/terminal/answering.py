"""The subcommands `done` and `snooze`, which answer the reminders of a job."""

import click

from cronty_site.terminal.completion import complete_job
from cronty_site.terminal.output import answer
from cronty_site.terminal.rows import job_json
from cronty_site.terminal.session import Session, subcommand
from schedules.services.runs.answers import DONE, SNOOZE, UNDO, answer_in_words
from schedules.services.runs.question_words import describe_question

_JOB = click.argument("reference", metavar="JOB", shell_complete=complete_job)


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
    _answer(session, reference, UNDO if undo else DONE)


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
    _answer(session, reference, f"{SNOOZE} {until}")


def _answer(session: Session, reference: str, text: str) -> None:
    job_id = session.job_id(reference)
    answered = session.expect(answer_in_words(session.actor, job_id, text))
    reminder = describe_question(answered.question, answered.job)
    answer(job_json(answered.job) | {"reminder": reminder}, f"{answered.job.name}: {reminder}", style="")
