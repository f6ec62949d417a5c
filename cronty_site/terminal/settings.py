"""The subcommands for what belongs to a person: preferences, alerts and calendars."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from cronty_site.terminal import here
from cronty_site.terminal.arguments import Duration
from cronty_site.terminal.output import answer, print_facts, print_json, print_list, say
from cronty_site.terminal.rows import Document, clock_text
from cronty_site.terminal.session import Session, subcommand
from schedules.models import Calendar, Profile
from schedules.services.people.preferences import quiet_words
from schedules.when import durations
from schedules.when.ics import MAX_CHARACTERS

MAX_ALERTS = 50
_LABELS = {
    "timezone": "time zone",
    "topic": "notifications go to",
    "runner": "runner of prompts",
    "failure_topic": "alerts go to",
    "alert_rules": "alerts",
    "quiet_hours": "quiet hours",
    "alert_every": "reminded every",
    "clock_hours": "clock",
    "week_start": "week starts on",
}


@subcommand(
    "preferences",
    examples="""
    cronty preferences
    cronty preferences --timezone Berlin --topic my-phone
    cronty preferences --failure-topic channel:phone --quiet-hours 22:00-07:00
    cronty preferences --alert-rules "not late, not recovered" --alert-every 1d
    """,
)
@click.option("--timezone", help="A city or a zone.")
@click.option("--topic", help='Where notifications go by default, a topic or a channel; "" for nowhere.')
@click.option("--runner", help='The runner of prompts that name none; "" for that of the installation.')
@click.option("--failure-topic", help='Where alerts go, a topic or a channel; "" for nowhere.')
@click.option("--alert-rules", help='Which alerts you do not want, like "not late"; "" for all of them.')
@click.option(
    "--quiet-hours", help='When notifications, reminders and alerts wait, like 22:00-07:00; "" for never.'
)
@click.option("--alert-every", type=Duration(), help="Remind of what lasts this often; 0 for never.")
@click.option(
    "--clock", type=click.Choice(["12", "24"]), help="How times are shown, on a clock of so many hours."
)
@click.option("--week-start", type=click.Choice(["monday", "saturday", "sunday"]), help="In the calendar.")
def preferences_command(
    session: Session,
    alert_every: timedelta | None,
    clock: str | None,
    week_start: str | None,
    **texts: str | None,
) -> None:
    """Show your preferences, or change those that are given."""
    changes: dict[str, Any] = {name: text for name, text in texts.items() if text is not None}
    if alert_every is not None:
        changes["alert_every"] = durations.typed(alert_every)
    if clock is not None:
        changes["clock_hours"] = int(clock)
    if week_start is not None:
        changes["week_start"] = Profile.WeekStart[week_start.upper()].value
    if not changes:
        preferences = session.call("show_preferences")
        if session.as_json:
            print_json(preferences)
        else:
            print_facts({label: _text(preferences, name) for name, label in _LABELS.items()})
        return
    preferences = session.call("change_preferences", **changes)
    changed = ", ".join(f"{_LABELS[name]}: {_text(preferences, name)}" for name in changes)
    answer(preferences, f"Saved: {changed}.")


def _text(preferences: Document, name: str) -> str:
    value = preferences[name]
    match name:
        case "alert_every":
            return durations.in_words(timedelta(seconds=value)) or "never"
        case "clock_hours":
            return f"{value} hours"
        case "week_start":
            return Profile.WeekStart(value).label
        case "quiet_hours" if value:
            return f"{value} ({quiet_words(value).rstrip('.')})"
    return str(value) or "none"


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
        alerts, _ = session.listed("list_incidents", "incidents", MAX_ALERTS)
        print_list(
            alerts,
            ("#", "about", "alerts"),
            lambda alert: (alert["id"], alert["name"], _whole(alert)),
            shrink="alerts",
            if_none="No alerts.",
        )
    elif action == "snooze":
        alert = session.call("snooze_incident", incident=number, until=until)
        answer(alert, f"{alert['name']}: {alert['plan']}")
    else:
        alert = session.call("show_incident", incident=number)
        if session.as_json:
            print_json(alert)
        else:
            _show_alert(session, alert)


def _whole(alert: Document) -> str:
    return " ".join(filter(None, [alert["description"], alert["delivery"], alert["plan"]]))


def _show_alert(session: Session, alert: Document) -> None:
    say(alert["name"], "bold")
    say(_whole(alert))
    for message in alert["sent"]:
        say("")
        at = clock_text(message["at"], session.zone)
        print_facts(
            {"sent": f"{at} to the {message['place']}", "title": message["title"], "text": message["text"]}
        )


@subcommand(
    "calendars",
    examples="""
    cronty calendars
    cronty calendars DE-BY --holidays DE-BY --category catholic
    cronty calendars "company holidays" --date "12-24..01-02 Christmas break" --dry-run
    cronty calendars office --hours "mon-fri 09:00-17:00" --open
    cronty calendars work --ics https://calendar.example.org/work.ics
    cronty calendars office --delete
    """,
)
@click.argument("name", required=False)
@click.option(
    "--holidays", metavar="PLACE", help="Public holidays of a country, or a part of it, like DE-BY."
)
@click.option(
    "--category", "categories", multiple=True, help="A category besides public ones; repeat for several."
)
@click.option("--date", "dates", multiple=True, help="A date, a range, or 12-24 for every year; repeat it.")
@click.option("--hours", multiple=True, help='Weekly hours like "mon-fri 09:00-17:00"; repeat for several.')
@click.option(
    "--ics", metavar="FILE|ADDRESS", help="The events of an ICS file, or of an address read every 15 minutes."
)
@click.option("--open", "is_open", is_flag=True, help="Jobs run only at these times, not outside of them.")
@click.option("--timezone", default="", help="The zone of its days and hours.  [default: that of each job]")
@click.option("--dry-run", is_flag=True, help="Show its dates, and save nothing.")
@click.option("--delete", is_flag=True, help="Delete it.")
def calendars_command(
    session: Session,
    name: str | None,
    holidays: str | None,
    categories: Sequence[str],
    dates: Sequence[str],
    hours: Sequence[str],
    ics: str | None,
    is_open: bool,
    timezone: str,
    dry_run: bool,
    delete: bool,
) -> None:
    """List calendars, or set the calendar NAME, whose days or hours jobs leave out."""
    if name is None:
        print_list(
            session.call("list_calendars")["calendars"],
            ("calendar", "closes", "next", "jobs"),
            _calendar_row,
            shrink="closes",
            if_none="No calendars.",
        )
        return
    if delete:
        session.call("delete_calendar", calendar=name)
        answer({"deleted": name}, f"Deleted: {name}.")
        return
    given = {
        Calendar.Kind.HOLIDAYS: holidays,
        Calendar.Kind.DATES: dates,
        Calendar.Kind.HOURS: hours,
        Calendar.Kind.ICS: ics,
    }
    kinds = [kind for kind, value in given.items() if value]
    if len(kinds) != 1:
        raise click.UsageError("Give one of --holidays, --date, --hours and --ics.")
    calendar = session.call(
        "preview_calendar" if dry_run else "set_calendar",
        calendar=name,
        kind=kinds[0].value,
        place=holidays,
        categories=list(categories),
        lines=[*dates, *hours],
        closes=not is_open,
        timezone=timezone,
        **_source(ics),
    )
    days = ", ".join(map(_day, calendar["days"][:12]))
    done = "Would be" if dry_run else "Saved"
    answer(calendar, f"{done}: {calendar['name']}{f' ({days})' if days else ''}.")


def _source(ics: str | None) -> dict[str, str]:
    """Return the address or the content of the file that was given."""
    if not ics or "://" in ics:
        return {"address": ics or ""}
    text = here.read_text(ics, most=4 * MAX_CHARACTERS, is_strict=False)
    return {"file_name": Path(ics).name, "file_text": text}


def _calendar_row(calendar: Document) -> list[str]:
    following = next(map(_day, calendar["days"]), "")
    is_hours = calendar["kind"] == Calendar.Kind.HOURS
    marked = ", ".join(calendar["lines"]) if is_hours else calendar["description"]
    closes = marked if calendar["closes"] else f"everything except {marked}"
    return [calendar["name"], closes, following, str(len(calendar["jobs"]))]


def _day(marked: Mapping[str, str]) -> str:
    return f"{marked['day']} {marked['title']}".strip()
