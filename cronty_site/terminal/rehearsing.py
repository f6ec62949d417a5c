"""The subcommand `rehearse`: show what the coming days will bring if nothing changes."""

from datetime import datetime

import click

from cronty_site.terminal.completion import complete_job
from cronty_site.terminal.output import note, print_json, print_table, say
from cronty_site.terminal.rows import clock_text
from cronty_site.terminal.session import Session, subcommand
from schedules import engine
from schedules.services.job_list import JobQuery
from schedules.services.rehearsal.documents import (
    describe_crowds,
    describe_left_out,
    describe_queue,
    describe_spend,
    describe_total,
    notes_on,
    rehearsal_document,
)
from schedules.services.rehearsal.rehearsal import Line, Rehearsal, rehearse
from schedules.services.text_search import text_problem
from schedules.when.periods import ends_of, parse_period

COLUMNS = ("name", "runs", "first", "last", "left out")


@subcommand(
    "rehearse",
    examples="""
    cronty rehearse
    cronty rehearse --from "next week" --tag home
    cronty rehearse --job "Nightly report" --to "in 14 days"
    """,
)
@click.option("--from", "since", metavar="TIME", help='Where it begins, like "tomorrow" or "next week".')
@click.option(
    "--to", "until", metavar="TIME", help="Where it ends, at most 31 days later.  [default: 7 days]"
)
@click.option("--job", "reference", metavar="JOB", shell_complete=complete_job, help="Only this job.")
@click.option("--tag", metavar="TEXT", type=str.strip, help="Only jobs with this tag.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="How many jobs to list."
)
def rehearse_command(
    session: Session, since: str | None, until: str | None, reference: str | None, tag: str | None, limit: int
) -> None:
    """Show what will fire, what is left out and why, what collides, and what agents will spend.

    The plan of the engine is applied to copies of the jobs; nothing is changed.
    """
    if tag and (problem := text_problem(tag)):
        raise click.BadParameter(f"{problem}.", param_hint="--tag")
    start, end = _period(session, since, until)
    job = session.job(reference) if reference is not None else None
    query = JobQuery(tag=tag or "")
    rehearsal = session.expect(
        rehearse(session.actor, session.now, start=start, end=end, query=query, job=job)
    )
    if session.as_json:
        print_json(rehearsal_document(rehearsal, session.zone, limit))
        return
    _print(session, rehearsal, limit)


def _period(
    session: Session, since: str | None, until: str | None
) -> tuple[datetime | None, datetime | None]:
    first, last = (
        None if text is None else session.read(parse_period, text, option, session.zone)
        for option, text in (("--from", since), ("--to", until))
    )
    return ends_of(first, last)


def _print(session: Session, rehearsal: Rehearsal, limit: int) -> None:
    zone = session.zone
    say(f"{clock_text(rehearsal.start, zone)} – {clock_text(rehearsal.end, zone)} {zone}", "bold")
    say(f"{rehearsal.count:,} runs, {rehearsal.left_out:,} left out")
    if rehearsal.lines:
        print_table(COLUMNS, [_row(line, zone) for line in rehearsal.lines[:limit]], shrink="left out")
    else:
        say("Nothing is planned.")
    if rehearsal.collisions.crowds:
        say(f"{describe_crowds(rehearsal)}:", "bold")
        for crowd in rehearsal.collisions.crowds:
            say(f"  {clock_text(crowd.at, zone)}  {crowd.starts:,}: {', '.join(crowd.names)} …")
    for queue in rehearsal.collisions.queues:
        say(f"{describe_queue(queue)} ({clock_text(queue.at, zone)})")
    if rehearsal.spend:
        say(f"Agents: {describe_total(rehearsal.spend)}", "bold")
        for line in rehearsal.lines[:limit]:
            if line.spend and line.spend.runs:
                at_most = ", if its gate always lets it run" if line.has_gate else ""
                say(f"  {line.name}: {describe_spend(line.spend)}{at_most}")
    for text in notes_on(rehearsal, limit):
        note(text)
    if not engine.is_any_cluster_running(session.now):
        note("No cluster is running: nothing fires until `cronty up` runs.")


def _row(line: Line, zone: str) -> tuple[str, ...]:
    name = f"{line.name} (after {line.follows})" if line.follows else line.name
    reasons = "; ".join([*describe_left_out(line), *([line.problem] if line.problem else [])])
    return name, f"{line.count:,}", clock_text(line.first, zone), clock_text(line.last, zone), reasons
