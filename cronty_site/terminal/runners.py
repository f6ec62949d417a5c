"""The subcommand `runner`: list and check runners, and stop all agents."""

from typing import Any

import click

from cronty_site.terminal.changing import wait_for_end
from cronty_site.terminal.failures import ExitCode, Failure
from cronty_site.terminal.output import answer, line, note, print_facts, print_json, print_list
from cronty_site.terminal.session import Session, subcommand
from schedules import engine
from schedules.agents.catalog import catalog
from schedules.agents.checking import CheckResult, check_runner
from schedules.agents.choice import choose
from schedules.result import Kind
from schedules.services.runs.agent_stops import read_stop, resume_agents, stop_agents
from schedules.services.runs.runner_checks import result_of_check, start_check
from schedules.services.runs.runner_list import ListedRunner, list_runners

# A check has 5 minutes, after it has waited for a place.
MAX_WAIT_SECONDS = 900


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
            _list(session)
        case "check":
            _check(session, str(name))
        case "stop":
            stopped = session.expect(stop_agents(session.actor, everybody=everybody))
            ended = {"runs": stopped.runs, "prompts": stopped.leases}
            answer({"stopped": True, **ended}, f"Agents are stopped; {stopped.runs} runs have ended.")
        case _:
            session.expect(resume_agents(session.actor, everybody=everybody))
            answer({"stopped": False}, "Agents work again.")


def _list(session: Session) -> None:
    print_list(
        list_runners(session.actor, session.now),
        _as_json,
        ("runner", "kind", "limits", "left today", "last verdict"),
        _row,
        shrink="left today",
        if_none="No runners: prompts wait in the inbox.",
    )
    if stop := read_stop(session.actor):
        note(f"{stop.sentence} `cronty runner start` lets them work again.")


def _row(listed: ListedRunner) -> list[str]:
    last = next(iter(listed.last_runs), None)
    name = f"{listed.name} (default)" if listed.is_default else listed.name
    verdict = last.get_verdict_display() if last else ""
    return [name, listed.runner.kind, listed.limits, ", ".join(listed.left), verdict]


def _as_json(listed: ListedRunner) -> dict[str, Any]:
    return {
        "name": listed.name,
        "kind": listed.runner.kind,
        "description": listed.runner.description,
        "default": listed.is_default,
        "limits": listed.limits,
        "left": [
            {"scope": each.scope, "unit": each.unit, "cap": each.cap, "left": each.remaining}
            for each in listed.allowances
        ],
        "last_verdict": next((run.verdict for run in listed.last_runs), None),
    }


def _check(session: Session, name: str) -> None:
    chosen = choose(session.actor.user, name, is_agent=session.actor.is_agent)
    if chosen.problem:
        unknown = catalog.get(name) is None
        raise Failure(chosen.problem, ExitCode.NOT_FOUND if unknown else ExitCode.REFUSED, code="refused")
    runner = catalog.get(name) or chosen.runner
    if runner is None:
        raise Failure(f"{line(name)} is the inbox: nothing is started.", code=Kind.WRONG_STATE)
    if session.token is None:
        checked = check_runner(name, runner, session.actor.user)
    else:
        # Only on the operator's machine may a check pass by the limits and start a program outside of the clusters.
        if not engine.is_any_cluster_running(session.now):
            raise Failure(
                "No cluster is running, which would start it.", ExitCode.NOT_READY, code="not_ready"
            )
        run = session.expect(start_check(session.actor, name))
        checked = result_of_check(wait_for_end(session, run, MAX_WAIT_SECONDS))
    if session.as_json:
        print_json(_checked_json(name, checked))
    else:
        print_facts(_facts(checked))
    if not checked.is_good:
        raise Failure(
            checked.judgement.reason or "It did not end well.",
            ExitCode.RUN_FAILED,
            code=str(checked.judgement.verdict),
        )


def _facts(checked: CheckResult) -> dict[str, Any]:
    report = checked.report
    return {
        "verdict": checked.judgement.verdict.label,
        "why": checked.judgement.reason if checked.is_good else "",
        "time": f"{checked.seconds:.1f} s",
        "tokens": f"{report.tokens_in:,} read, {report.tokens_out:,} written"
        if report.tokens
        else "not reported",
        "money": "unknown" if report.cost is None else f"${report.cost:.4f} as reported",
        "version": report.version,
        "warning": checked.note,
        "answer": report.answer[:500],
    }


def _checked_json(name: str, checked: CheckResult) -> dict[str, Any]:
    report = checked.report
    return {
        "runner": name,
        "verdict": str(checked.judgement.verdict),
        "words": checked.judgement.reason or None,
        "seconds": round(checked.seconds, 3),
        "tokens_in": report.tokens_in,
        "tokens_out": report.tokens_out,
        "cost": report.cost,
        "version": report.version or None,
        "warning": checked.note or None,
        "answer": report.answer[:2000],
    }
