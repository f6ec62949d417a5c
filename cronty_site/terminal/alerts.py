"""The subcommand `alerts`: list incidents with the alerts about them, show what was sent, and snooze one."""

import click

from cronty_site.terminal.output import answer, print_facts, print_json, print_list, say
from cronty_site.terminal.rows import clock_text
from cronty_site.terminal.session import Session, subcommand
from schedules.services.documents import incident_json
from schedules.services.people.incidents import (
    ShownIncident,
    described,
    find_incident,
    list_incidents,
    snooze_incident,
)


@subcommand(
    "alerts",
    examples="""
    cronty alerts
    cronty alerts show 17
    cronty alerts snooze 17
    cronty alerts snooze 17 "monday at 9:00"
    """,
)
@click.argument("action", type=click.Choice(["list", "show", "snooze"]), default="list")
@click.argument("number", type=click.IntRange(1, 2**63 - 1), required=False)
@click.argument("until", required=False)
def alerts_command(session: Session, action: str, number: int | None, until: str | None) -> None:
    """List alerts, show what was sent about the alert NUMBER, or send no more about it UNTIL a time. Default: for a day."""
    if (action == "list") != (number is None):
        raise click.UsageError("Give a NUMBER to show or snooze, and only then.")
    if until is not None and action != "snooze":
        raise click.UsageError("UNTIL goes with snooze.")
    if number is None:
        print_list(
            described(list_incidents(session.actor), session.zone),
            lambda shown: incident_json(shown, session.zone),
            ("#", "about", "alerts"),
            lambda shown: (shown.incident.pk, shown.incident.name, shown.whole),
            shrink="alerts",
            if_none="No alerts.",
        )
        return
    if action == "snooze":
        session.expect(snooze_incident(session.actor, number, until or ""))
    (shown,) = described([session.expect(find_incident(session.actor, number))], session.zone)
    if action == "snooze":
        answer(incident_json(shown, session.zone), f"{shown.incident.name}: {shown.plan}")
    elif session.as_json:
        print_json(incident_json(shown, session.zone))
    else:
        _show(session, shown)


def _show(session: Session, shown: ShownIncident) -> None:
    say(shown.incident.name, "bold")
    say(shown.whole)
    for message in shown.sent:
        say("")
        at = clock_text(message.at, session.zone)
        print_facts({"sent": f"{at} to the {message.place}", "title": message.title, "text": message.text})
