"""The subcommand `alerts`: list incidents with the alerts about them, show what was sent, and snooze one."""

from typing import Any

import click

from cronty_site.terminal.output import answer, print_facts, print_json, print_list, say
from cronty_site.terminal.rows import clock_text, iso_in
from cronty_site.terminal.session import Session, subcommand
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
            lambda shown: _as_json(shown, session.zone),
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
        answer(_as_json(shown, session.zone), f"{shown.incident.name}: {shown.plan}")
    elif session.as_json:
        print_json(_as_json(shown, session.zone))
    else:
        _show(session, shown)


def _show(session: Session, shown: ShownIncident) -> None:
    say(shown.incident.name, "bold")
    say(shown.whole)
    for message in shown.sent:
        say("")
        at = clock_text(message.at, session.zone)
        print_facts({"sent": f"{at} to the {message.place}", "title": message.title, "text": message.text})


def _as_json(shown: ShownIncident, zone: str) -> dict[str, Any]:
    incident = shown.incident
    return {
        "id": incident.pk,
        "name": incident.name,
        "kind": incident.kind,
        "job_id": incident.job.public_id if incident.job else None,
        "is_open": incident.is_open,
        "opened_at": iso_in(incident.opened_at, zone),
        "ended_at": iso_in(incident.ended_at, zone),
        "snoozed_until": iso_in(incident.snoozed_until, zone),
        "next_alert_at": iso_in(incident.due_at, zone),
        "details": incident.details or None,
        "description": shown.whole,
        "sent": [
            {"at": iso_in(each.at, zone), "title": each.title, "text": each.text, "place": each.place}
            for each in shown.sent
        ],
    }
