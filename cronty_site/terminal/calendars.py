"""The subcommand `calendars`: list, preview, set and delete calendars."""

from collections.abc import Sequence
from pathlib import Path

import click

from cronty_site.terminal.consoles import current_console
from cronty_site.terminal.output import answer, print_list
from cronty_site.terminal.session import Session, subcommand
from schedules.models import Calendar
from schedules.services.documents import calendar_json
from schedules.services.people.calendars import (
    CalendarSpec,
    ShownCalendar,
    delete_calendar,
    list_calendars,
    preview_calendar,
    set_calendar,
)
from schedules.when.ics import MAX_CHARACTERS


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
            list_calendars(session.actor),
            calendar_json,
            ("calendar", "closes", "next", "jobs"),
            _row,
            shrink="closes",
            if_none="No calendars.",
        )
        return
    if delete:
        session.expect(delete_calendar(session.actor, name))
        answer({"deleted": name}, f"Deleted: {name}.")
        return
    kinds = [kind for kind, value in _kinds(holidays, dates, hours, ics).items() if value]
    if len(kinds) != 1:
        raise click.UsageError("Give one of --holidays, --date, --hours and --ics.")
    spec = CalendarSpec(
        name,
        kinds[0],
        holidays or "",
        ["public", *(each for each in categories if each != "public")],
        [*dates, *hours],
        closes=not is_open,
        timezone=timezone,
        **_source(ics),
    )
    shown = session.expect((preview_calendar if dry_run else set_calendar)(session.actor, spec))
    days = ", ".join(f"{day} {title}".strip() for day, title in shown.days[:12])
    answer(
        calendar_json(shown),
        f"{'Would be' if dry_run else 'Saved'}: {shown.name}{f' ({days})' if days else ''}.",
    )


def _kinds(
    holidays: str | None, dates: Sequence[str], hours: Sequence[str], ics: str | None
) -> dict[str, object]:
    kinds = Calendar.Kind
    return {kinds.HOLIDAYS: holidays, kinds.DATES: dates, kinds.HOURS: hours, kinds.ICS: ics}


def _source(ics: str | None) -> dict[str, str]:
    """Return the address or the content of the file that was given."""
    if not ics or "://" in ics:
        return {"address": ics or ""}
    text = current_console().do("read_text", ics, most=4 * MAX_CHARACTERS, is_strict=False)
    return {"file_name": Path(ics).name, "file_text": text}


def _row(calendar: ShownCalendar) -> list[str]:
    marked = ", ".join(calendar.lines) if calendar.kind == Calendar.Kind.HOURS else calendar.words
    following = next((f"{day} {title}".strip() for day, title in calendar.days), "")
    return [
        calendar.name,
        marked if calendar.closes else f"everything except {marked}",
        following,
        str(len(calendar.jobs)),
    ]
