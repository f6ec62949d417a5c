"""The subcommand `import healthchecks`: turn checks of healthchecks into heartbeats that keep their addresses."""

from dataclasses import asdict

import click

from cronty_site.terminal.failures import ExitCode, Failure
from cronty_site.terminal.files import invalid_file, print_plan, read_text
from cronty_site.terminal.output import note, print_json, print_table, say
from cronty_site.terminal.session import Session, refused, subcommand
from schedules.models.counting import counted
from schedules.models.heartbeats import HEALTHCHECKS
from schedules.result import Err
from schedules.services.documents import plan_json
from schedules.services.files.healthchecks import (
    Checks,
    ChecksError,
    leave_out_taken,
    parse_checks,
    ping_key_to_take,
    take_over,
)
from schedules.services.files.jobs import read_jobs
from schedules.services.files.plans import Plan, make_plan
from schedules.services.files.writing import write_jobs


@subcommand(
    HEALTHCHECKS,
    examples="""
    cronty import healthchecks checks.json --check
    cronty import healthchecks checks.json --ping-key fqOOd6-F4MMNuCEnzTU01w
    """,
)
@click.argument("path", metavar="FILE")
@click.option("--ping-key", help="The key of the project, if clients use addresses with names.")
@click.option("--replace-ping-key", is_flag=True, help="Replace your ping key by that of the file.")
@click.option("--source", default=HEALTHCHECKS, show_default=True, help="The name that jobs remember.")
@click.option("--prune", is_flag=True, help="Delete jobs taken over before whose checks are gone.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--check", is_flag=True, help="Only show what would be taken over.")
def healthchecks_command(
    session: Session,
    path: str,
    ping_key: str | None,
    replace_ping_key: bool,
    source: str,
    prune: bool,
    yes: bool,
    check: bool,
) -> None:
    """Turn every check into a heartbeat with the same UUID, name and ping key.

    FILE is what the API answers to a full key: curl -H "X-Api-Key: …" https://healthchecks.io/api/v3/checks/
    """
    try:
        checks = parse_checks(read_text(path))
    except ChecksError as error:
        raise Failure(str(error)) from error
    leave_out_taken(session.actor, checks, source)
    plan = _plan(session, checks, source, prune=prune)
    key = ping_key_to_take(
        session.actor, {ping_key} if ping_key else checks.ping_keys, replace=replace_ping_key
    )
    if isinstance(key, Err):
        raise refused(key)
    _show(session, checks, plan, key.value)
    if check or not (plan.steps or key.value):
        _print_json(session, checks, plan, is_applied=False)
        if check and (plan.steps or key.value):
            click.get_current_context().exit(ExitCode.DIFFERENT)
        return
    if not yes:
        session.confirm("Take these over?")
    session.expect(take_over(session.actor, plan, checks.ping_ids, key.value))
    _print_json(session, checks, plan, is_applied=True)
    if not session.as_json:
        say("Applied.", "green")


def _plan(session: Session, checks: Checks, source: str, *, prune: bool) -> Plan:
    specs, problems = read_jobs([(source, write_jobs(checks.jobs, session.zone))], session.zone, session.now)
    if not problems:
        plan = make_plan(session.actor, source, specs, session.now, prune=prune)
        problems = plan.problems
    if problems:
        raise invalid_file(problems)
    if adopted := [step.job.name for step in plan.steps if step.is_adopted]:
        raise Failure(
            f"You have heartbeats with other addresses and the same names: {', '.join(adopted[:10])}. Rename them first."
        )
    return plan


def _show(session: Session, checks: Checks, plan: Plan, ping_key: str) -> None:
    if session.as_json:
        return
    if checks.jobs:
        rows = [
            (job["name"], _schedule_text(job["schedule"]), job["timezone"], job["arguments"]["grace"], key)
            for key, job in checks.jobs.items()
        ]
        print_table(("check", "schedule", "zone", "grace", "UUID"), rows, shrink="check")
    print_plan(plan)
    for each in checks.left_out:
        say(f"{each.name}: not taken over: {each.reason}", "yellow")
    if ping_key:
        say("Your ping key becomes that of the checks, so that addresses with names go on.")
    if checks.has_more:
        note(
            "Integrations, and rules for methods, resuming, subjects and keywords are not taken over: set up your alerts."
        )
    say(f"{counted(len(checks.jobs), 'check')}, {len(checks.left_out)} not taken over")


def _schedule_text(schedule: str | dict[str, str]) -> str:
    return schedule if isinstance(schedule, str) else f"every {schedule['every']}"


def _print_json(session: Session, checks: Checks, plan: Plan, *, is_applied: bool) -> None:
    if session.as_json:
        left_out = [asdict(each) for each in checks.left_out]
        print_json(plan_json(plan) | {"left_out": left_out, "applied": is_applied})
