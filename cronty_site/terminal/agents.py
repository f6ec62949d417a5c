"""The subcommands `approvals` and `runner`: answer what agents ask, check runners, and stop all agents."""

from typing import Any

import click

from cronty_site.terminal.failures import ExitCode, Failure
from cronty_site.terminal.logs import wait_for_end
from cronty_site.terminal.output import answer, line, note, print_facts, print_json, print_list
from cronty_site.terminal.rows import Document
from cronty_site.terminal.session import Session, subcommand
from schedules.models import AgentRun, Approval
from schedules.services.runs.approvals import ALWAYS, ANSWERS, ONCE, REPLY

CODE_LENGTH = 8
# A check has 5 minutes, after it has waited for a place.
MAX_WAIT_SECONDS = 900


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
        print_list(
            session.call("list_approvals")["approvals"],
            ("number", "job", "asks", "until"),
            lambda each: [str(each["id"]), each["job"], each["summary"], each["expires_in_words"]],
            shrink="asks",
            if_none="No agent asks for anything.",
        )
        return
    approval = session.call("show_approval", approval=number)
    if chosen is None:
        _show_approval(session, approval)
        return
    digest = approval["digest"]
    seen = digest if code == digest[:CODE_LENGTH] else str(code)
    answered = session.call("answer_approval", approval=number, answer=chosen, digest=seen, text=text)
    more = f" Its job may use {line(answered['grant'])} from now on." if chosen == ALWAYS else ""
    answer(answered, f"{number}: {answered['state']}.{more}")


def _show_approval(session: Session, approval: Document) -> None:
    if session.as_json:
        print_json(approval)
        return
    is_question, code = approval["kind"] == "question", approval["digest"][:CODE_LENGTH]
    request: dict[str, Any] = {"tool": approval["tool"]}
    if is_question:
        request = {"question": approval["question"], "choices": ", ".join(approval["choices"])}
    else:
        request |= {f"  {name}": text for name, text in approval["arguments"].items()}
    print_facts(
        {
            "job": approval["job"],
            "state": approval["state"],
            **request,
            "folder": approval["folder"],
            "it said": approval["why"],
            "always adds": approval["grant"],
            "code": code,
        }
    )
    if approval["status"] == Approval.Status.WAITING:
        how, more = (REPLY, ' --text "…"') if is_question else (ONCE, "")
        note(f"Answer with `cronty approvals {approval['id']} {how} --code {code}{more}`.")


@subcommand(
    "runner",
    examples="""
    cronty runner
    cronty runner check notes
    cronty runner stop
    cronty runner start --everybody
    """,
)
@click.argument("action", type=click.Choice(["list", "check", "stop", "start"]), default="list")
@click.argument("name", required=False)
@click.option("--everybody", is_flag=True, help="With stop and start: the agents of all people.")
def runner_command(session: Session, action: str, name: str | None, everybody: bool) -> None:
    """List the runners of prompts, check the runner NAME, or stop all agents and let them work again."""
    if (action == "check") != (name is not None):
        raise click.UsageError("Give a NAME to check, and only then.")
    if everybody and action not in ("stop", "start"):
        raise click.UsageError("--everybody goes with stop and start.")
    match action:
        case "list":
            _list_runners(session)
        case "check":
            _check(session, str(name))
        case "stop":
            ended = session.call("stop_all_agents", everybody=everybody)["ended"]
            answer({"stopped": True, **ended}, f"Agents are stopped; {ended['runs']} runs have ended.")
        case _:
            session.call("start_agents", everybody=everybody)
            answer({"stopped": False}, "Agents work again.")


def _list_runners(session: Session) -> None:
    agents = session.call("show_agents")
    print_list(
        agents["runners"],
        ("runner", "kind", "limits", "left today", "last verdict"),
        _runner_row,
        shrink="left today",
        if_none="No runners: prompts wait in the inbox.",
    )
    if stop := agents["stopped"]:
        note(f"{stop['description']} `cronty runner start` lets them work again.")


def _runner_row(runner: Document) -> list[str]:
    name = f"{runner['name']} (default)" if runner["default"] else runner["name"]
    verdict = AgentRun.Verdict(runner["last_verdict"]).label if runner["last_verdict"] else ""
    left = ", ".join(each["description"] for each in runner["left"])
    return [name, runner["kind"], runner["limits"], left, verdict]


def _check(session: Session, name: str) -> None:
    if not session.is_remote:
        checked = session.call("check_here", runner=name)
    elif not session.me["is_worker_running"]:
        # Only on the operator's machine may a check start a program outside of the clusters.
        problem = "No cluster is running, which would start it."
        raise Failure(problem, ExitCode.NOT_READY, code="not_ready")
    else:
        run = session.call("begin_check", runner=name)["run"]
        wait_for_end(session, run, MAX_WAIT_SECONDS)
        checked = session.call("show_check", run=run)
    if session.as_json:
        print_json({"runner": name, **checked})
    else:
        print_facts(_check_facts(checked))
    if not checked["is_good"]:
        problem = checked["words"] or "It did not end well."
        raise Failure(problem, ExitCode.RUN_FAILED, code=checked["verdict"])


def _check_facts(checked: Document) -> dict[str, Any]:
    has_tokens = checked["tokens_in"] or checked["tokens_out"]
    return {
        "verdict": AgentRun.Verdict(checked["verdict"]).label,
        "why": checked["words"] if checked["is_good"] else "",
        "time": f"{checked['seconds']:.1f} s",
        "tokens": f"{checked['tokens_in']:,} read, {checked['tokens_out']:,} written"
        if has_tokens
        else "not reported",
        "money": "unknown" if checked["cost"] is None else f"${checked['cost']:.4f} as reported",
        "version": checked["version"],
        "warning": checked["warning"],
        "answer": checked["answer"][:500],
    }
