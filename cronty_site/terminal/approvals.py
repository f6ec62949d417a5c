"""The subcommand `approvals`: list, show and answer what agents ask a person."""

from typing import Any

import click

from cronty_site.terminal.output import answer, line, note, print_facts, print_json, print_list
from cronty_site.terminal.session import Session, subcommand
from schedules.models import Approval
from schedules.services.documents import approval_json
from schedules.services.runs.approvals import (
    ALWAYS,
    ANSWERS,
    ONCE,
    REPLY,
    answer_approval,
    find_approval,
    list_waiting,
    state_words,
)
from schedules.when.zones import short_words

CODE_LENGTH = 8


@subcommand(
    "approvals",
    examples="""
    cronty approvals
    cronty approvals 17
    cronty approvals 17 once --code 5f0c2a9e
    cronty approvals 18 reply --code 91b7d20c --text "the first one"
    """,
)
@click.argument("number", type=click.IntRange(min=1), required=False)
@click.argument("chosen", metavar=f"[{'|'.join(ANSWERS)}]", type=click.Choice(ANSWERS), required=False)
@click.option("--code", help="The code that is shown with it, so that you answer what you have seen.")
@click.option("--text", default="", help="What to reply to a question.")
def approvals_command(
    session: Session, number: int | None, chosen: str | None, code: str | None, text: str
) -> None:
    """List what agents ask, show one by its NUMBER, or answer it: allow a call once, always for its job, or deny it; reply to a question."""
    if (chosen is None) != (code is None):
        raise click.UsageError("An answer needs --code, which is shown with the approval.")
    if text and chosen != REPLY:
        raise click.UsageError("--text goes with the answer reply.")
    if number is None:
        _list(session)
        return
    approval = session.expect(find_approval(session.actor, number))
    if chosen is None:
        _show(session, approval)
        return
    seen = approval.digest if code == approval.digest[:CODE_LENGTH] else str(code)
    result = answer_approval(session.actor, number, chosen, seen=seen, text=text)
    answered = session.expect(result).approval
    more = f" Its job may use {line(answered.grant)} from now on." if chosen == ALWAYS else ""
    answer(approval_json(answered), f"{number}: {state_words(answered)}.{more}")


def _list(session: Session) -> None:
    print_list(
        list_waiting(session.actor),
        approval_json,
        ("number", "job", "asks", "until"),
        _row,
        shrink="asks",
        if_none="No agent asks for anything.",
    )


def _row(approval: Approval) -> list[str]:
    zone = approval.job.timezone if approval.job else "UTC"
    until = short_words(approval.expires_at, zone)
    return [str(approval.pk), approval.execution.job_name, approval.call_summary, until]


def _show(session: Session, approval: Approval) -> None:
    if session.as_json:
        print_json(approval_json(approval))
        return
    request: dict[str, Any] = {"tool": approval.tool}
    if approval.is_question:
        request = {"question": approval.question, "choices": ", ".join(approval.choices)}
    else:
        request |= {f"  {name}": text for name, text in approval.shown_arguments}
    facts: dict[str, Any] = {
        "job": approval.execution.job_name,
        "state": state_words(approval),
        **request,
        "folder": approval.folder,
        "it said": approval.why,
        "always adds": approval.grant,
        "code": approval.digest[:CODE_LENGTH],
    }
    print_facts(facts)
    if approval.status == Approval.Status.WAITING:
        how, more = (REPLY, ' --text "…"') if approval.is_question else (ONCE, "")
        note(
            f"Answer with `cronty approvals {approval.pk} {how} --code {approval.digest[:CODE_LENGTH]}{more}`."
        )
