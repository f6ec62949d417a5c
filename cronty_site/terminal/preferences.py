"""The subcommand `preferences`: show and change the time zone, default places and runner, alerts, and how times are shown."""

from datetime import timedelta
from typing import Any, cast

import click

from cronty_site.terminal.arguments import Duration
from cronty_site.terminal.output import answer, print_facts, print_json
from cronty_site.terminal.session import Session, subcommand
from schedules.models import Profile
from schedules.services.people.preferences import (
    Preferences,
    preference,
    preferences_of,
    quiet_words,
    set_preferences,
)
from schedules.when import durations

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
        changes["alert_every"] = int(alert_every.total_seconds())
    if clock is not None:
        changes["clock_hours"] = int(clock)
    if week_start is not None:
        changes["week_start"] = Profile.WeekStart[week_start.upper()].value
    if not changes:
        profile = session.actor.read_profile()
        if session.as_json:
            print_json(preferences_of(profile))
        else:
            print_facts({label: _text(profile, name) for name, label in _LABELS.items()})
        return
    profile = session.expect(set_preferences(session.actor, **cast(Preferences, changes)))
    changed = ", ".join(f"{_LABELS[name]}: {_text(profile, name)}" for name in changes)
    answer(preferences_of(profile), f"Saved: {changed}.")


def _text(profile: Profile, name: str) -> str:
    match name:
        case "alert_every":
            return durations.in_words(profile.alert_every) or "never"
        case "clock_hours":
            return f"{profile.clock_hours} hours"
        case "week_start":
            return Profile.WeekStart(profile.week_start).label
        case "quiet_hours" if profile.quiet_hours:
            return f"{profile.quiet_hours} ({quiet_words(profile.quiet_hours).rstrip('.')})"
    return str(preference(profile, name)) or "none"
