"""Calendars compiled from what people enter: dates, weekly hours, public holidays, or an ICS file."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from importlib import import_module
from typing import Any

from schedules.when.calendars import Calendar, Hours, marks_of
from schedules.when.ics import IcsError, read_ics

MAX_LINES = 500
MAX_DAYS = 5000
LONGEST_RANGE = 366
LONGEST_TITLE = 100
DATES_EXAMPLE = "Write 2026-12-24, 2026-12-24..2027-01-02 or 12-24 for every year; a title may follow"
HOURS_EXAMPLE = "Write mon-fri 09:00-17:00, sat,sun or daily 01:00-05:00"
DEFAULT_CATEGORIES = ("public",)
_DATE_LINE = re.compile(
    r"(?P<first>\d{4}-\d\d-\d\d|\d\d-\d\d)(?:\s*(?:\.\.|/| to )\s*(?P<last>\d{4}-\d\d-\d\d|\d\d-\d\d))?"
    r"(?:[\s,:]+(?P<title>.*))?",
    re.ASCII,
)
_HOURS_LINE = re.compile(
    r"(?P<days>[a-z]+(?:\s*[-,]\s*[a-z]+)*)(?:\s+(?P<start>\d\d?:\d\d)\s*[-–]\s*(?P<end>\d\d?:\d\d))?",
    re.ASCII,
)
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_GROUPS = {"daily": range(7), "weekdays": range(5), "weekends": range(5, 7), "weekend": range(5, 7)}
_HOLIDAYS = re.compile(r"(?:the )?(?:public |bank )?holidays in (?P<place>.+)", re.IGNORECASE)
_PLACE = re.compile(r"([A-Za-z]{2})(?:[- ]([A-Za-z0-9-]{1,40}))?", re.ASCII)


class RuleError(ValueError):
    """A rule that cannot be read; the text says what to write instead."""


def compile_rule(
    kind: str, rule: Mapping[str, Any], *, name: str, closes: bool, timezone: str, first: date, last: date
) -> Calendar:
    """Build the calendar of a rule, with its days from the first to the last; raises RuleError."""
    empty = Calendar(name, name, closes, timezone)
    match kind:
        case "dates":
            is_yearly = any(_DATE_LINE.fullmatch(line) and line[4:5] != "-" for line in rule["dates"])
            days = days_of(rule["dates"], first, last)
            return replace(empty, days=days, until=last if is_yearly else None)
        case "hours":
            return replace(empty, hours=hours_of(rule["hours"]))
        case _:
            days = holidays_of(rule["country"], rule["subdivision"], rule["categories"], first, last)
            description = describe_holidays(rule["country"], rule["subdivision"], rule["categories"])
            return replace(empty, words=description, days=days, until=last)


def compile_events(
    text: str, zone: str, *, name: str, closes: bool, timezone: str, first: date, last: date
) -> tuple[Calendar, int]:
    """Build the calendar of an ICS file, and count the events that cannot be read; raises RuleError.

    All-day events are in the calendar's zone, or else in that of each job. Times without a zone are in `zone`.
    """
    try:
        read = read_ics(text, first, last, timezone or zone)
    except IcsError as error:
        raise RuleError(str(error)) from error
    days, periods = marks_of(read.events, first, read.until)
    calendar = Calendar(
        name, f"events in {name}", closes, timezone, days, (), periods, read.until, read.events
    )
    return calendar, read.unread


def days_of(lines: Sequence[str], first: date, last: date) -> dict[str, str]:
    """Return the days that these lines mark, with their titles; days without a year recur within the period."""
    if not lines:
        raise RuleError(f"Enter at least one date. {DATES_EXAMPLE}.")
    if len(lines) > MAX_LINES:
        raise RuleError(f"At most {MAX_LINES} lines.")
    days: dict[str, str] = {}
    for line in lines:
        match = _DATE_LINE.fullmatch(line.strip())
        if match is None:
            raise RuleError(f"{line.strip()[:60]!r} is not a date. {DATES_EXAMPLE}.")
        start, end = match["first"], match["last"] or match["first"]
        if len(start) != len(end):
            raise RuleError(f"{line.strip()[:60]!r}: write both dates with a year, or both without.")
        title = (match["title"] or "").strip()[:LONGEST_TITLE]
        years = [""] if len(start) == 10 else [f"{year}-" for year in range(first.year, last.year + 1)]
        for year in years:
            days |= dict.fromkeys(_range(f"{year}{start}", f"{year}{end}", line, is_yearly=bool(year)), title)
        if len(days) > MAX_DAYS:
            raise RuleError(f"At most {MAX_DAYS:,} days.")
    return days


def _range(start: str, end: str, line: str, *, is_yearly: bool) -> Iterable[str]:
    try:
        first, last = date.fromisoformat(start), date.fromisoformat(end)
        if is_yearly and last < first:
            # From one year into the next: "12-24..01-02".
            last = last.replace(year=last.year + 1)
    except ValueError as error:
        if is_yearly and "02-29" in (start[5:], end[5:]):
            return []
        raise RuleError(f"{line.strip()[:60]!r}: there is no such date.") from error
    if last < first:
        raise RuleError(f"{line.strip()[:60]!r} ends before it begins.")
    if (last - first).days >= LONGEST_RANGE:
        raise RuleError(f"{line.strip()[:60]!r}: a range has at most {LONGEST_RANGE} days.")
    return [(first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1)]


def hours_of(lines: Sequence[str]) -> list[Hours]:
    """Return the weekly windows that these lines mark; one that ends before it begins spans midnight."""
    if not lines:
        raise RuleError(f"Enter at least one window. {HOURS_EXAMPLE}.")
    if len(lines) > MAX_LINES:
        raise RuleError(f"At most {MAX_LINES} lines.")
    windows: set[Hours] = set()
    for line in lines:
        match = _HOURS_LINE.fullmatch(line.strip().lower())
        if match is None:
            raise RuleError(f"{line.strip()[:60]!r} is not a window. {HOURS_EXAMPLE}.")
        start, end = _minutes(match["start"] or "00:00", line), _minutes(match["end"] or "24:00", line)
        if start == 1440:
            raise RuleError(f"{line.strip()[:60]!r}: a window begins before 24:00.")
        for day in _weekdays(match["days"], line):
            if end > start:
                windows.add(Hours(day, start, end))
            else:
                windows |= {Hours(day, start, 1440), Hours((day + 1) % 7, 0, end)}
    return sorted(window for window in windows if window.end > window.start)


def _minutes(text: str, line: str) -> int:
    hour, minute = map(int, text.split(":"))
    if minute > 59 or hour * 60 + minute > 1440:
        raise RuleError(f"{line.strip()[:60]!r}: there is no such time of day.")
    return hour * 60 + minute


def _weekdays(text: str, line: str) -> list[int]:
    days: list[int] = []
    for part in text.split(","):
        first, _, last = (name.strip() for name in part.partition("-"))
        if first in _GROUPS and not last:
            days += _GROUPS[first]
            continue
        start = _weekday(first, line)
        end = _weekday(last, line) if last else start
        days += [(start + number) % 7 for number in range((end - start) % 7 + 1)]
    return days


def _weekday(name: str, line: str) -> int:
    # In full, or at least three letters of it: "thu", "thurs", "thursday".
    if len(name) >= 3 and name[:3] in _WEEKDAYS and _FULL_NAMES[_WEEKDAYS.index(name[:3])].startswith(name):
        return _WEEKDAYS.index(name[:3])
    raise RuleError(f"{line.strip()[:60]!r}: {name!r} is not a day of the week. {HOURS_EXAMPLE}.")


_FULL_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def place_of(text: str) -> tuple[str, str]:
    """Return the codes of a country and a part of it, which may be empty: "DE-BY", "GB". Raises RuleError."""
    match = _PLACE.fullmatch(text.strip())
    country = match[1].upper() if match else ""
    parts = _library().list_supported_countries().get(country) if match else None
    if parts is None or match is None:
        raise RuleError(
            f"{text.strip()[:20]!r} is not a country that has holidays here. Write DE, US or DE-BY."
        )
    if not match[2]:
        return country, ""
    for part in parts:
        if part.lower() == match[2].lower():
            return country, part
    raise RuleError(f"{country} has no part {match[2]!r}. Choose one of: {', '.join(parts) or 'none'}.")


def holiday_rule(name: str) -> dict[str, Any] | None:
    """Return the rule of the public holidays that a usual name means, like "DE-BY" or "DE-BY catholic"; None for another name.

    Raises RuleError for an unknown category.
    """
    place, *categories = name.split() or [""]
    try:
        country, subdivision = place_of(place)
    except RuleError:
        return None
    chosen = list(dict.fromkeys([*DEFAULT_CATEGORIES, *categories]))
    _check_categories(country, chosen)
    return {"country": country, "subdivision": subdivision, "categories": chosen}


def usual_name(text: str) -> str | None:
    """Return the usual name of the holidays that a text means: DE-BY for "public holidays in Bavaria"; None for other texts."""
    described = _HOLIDAYS.fullmatch(text.strip())
    place = (described["place"] if described else text).strip()
    try:
        rule = holiday_rule(place) or holiday_rule(_code_of(place))
    except RuleError:
        return None
    if rule is None:
        return None
    code = "-".join(filter(None, (rule["country"], rule["subdivision"])))
    return " ".join([code, *rule["categories"][len(DEFAULT_CATEGORIES) :]])


def _code_of(place: str) -> str:
    """Return the code of a place by its name, like DE-BY for "Bavaria" or "Bayern"; empty if none or several have it."""
    name = place.lower().removeprefix("the ")
    if code := _PLACES.get(name):
        return code
    countries: dict[str, str] = {
        key.replace("_", " "): codes[1] for key, codes in import_module("holidays.registry").COUNTRIES.items()
    }
    if name in countries:
        return countries[name]
    parts = [
        f"{country}-{part}"
        for country in countries.values()
        for alias, part in getattr(_library(), country).subdivisions_aliases.items()
        if len(name) > len("abc") and alias.lower() == name
    ]
    return parts[0] if len(parts) == 1 else ""


def categories_of(country: str) -> list[str]:
    """Return the categories of holidays that a country has, the usual one first."""
    categories = _country(country, "", (), ()).supported_categories
    return sorted(categories, key=lambda category: (category != "public", category))


def holidays_of(
    country: str, subdivision: str, categories: Sequence[str], first: date, last: date
) -> dict[str, str]:
    """Return the holidays from the first day to the last with their names, in English where available."""
    _check_categories(country, categories)
    if not categories:
        raise RuleError("Choose at least one category.")
    years = range(first.year, last.year + 1)
    holidays = _country(country, subdivision, categories, years)
    return {
        day.isoformat(): name[:LONGEST_TITLE]
        for day, name in sorted(holidays.items())
        if first <= day <= last
    }


def _check_categories(country: str, categories: Sequence[str]) -> None:
    if unknown := [category for category in categories if category not in categories_of(country)]:
        choices = ", ".join(categories_of(country))
        raise RuleError(f"{country} has no category {unknown[0][:40]!r}. Choose from: {choices}.")


def describe_holidays(country: str, subdivision: str, categories: Sequence[str]) -> str:
    """Describe holidays: "public holidays in Bavaria, Germany (public, catholic)"."""
    code = "-".join(filter(None, (country, subdivision)))
    place = _NAMES.get(code, code)
    special = [category for category in categories if category not in DEFAULT_CATEGORIES]
    if "public" not in categories:
        return f"{' and '.join(special)} holidays in {place}"
    return f"public holidays in {place}" + (f" (also {', '.join(special)})" if special else "")


def _country(country: str, subdivision: str, categories: Sequence[str], years: Iterable[int]) -> Any:
    library = _library()
    languages = library.list_localized_countries().get(country, [])
    language = next((each for each in ("en_US", "en_GB", "en") if each in languages), None)
    options: dict[str, Any] = {"categories": tuple(categories)} if categories else {}
    return library.country_holidays(
        country, subdiv=subdivision or None, years=years, language=language, expand=False, **options
    )


def _library() -> Any:
    # Imported only when a calendar is made: it takes a quarter of a second.
    return import_module("holidays")


# The names of places by the usual name of their holidays.
_NAMES = {
    "AT": "Austria",
    "CH": "Switzerland",
    "DE": "Germany",
    "ES": "Spain",
    "FR": "France",
    "GB": "the United Kingdom",
    "IE": "Ireland",
    "IN": "India",
    "IT": "Italy",
    "JP": "Japan",
    "NL": "the Netherlands",
    "PL": "Poland",
    "US": "the United States",
    "DE-BB": "Brandenburg",
    "DE-BE": "Berlin",
    "DE-BW": "Baden-Württemberg",
    "DE-BY": "Bavaria",
    "DE-HB": "Bremen",
    "DE-HE": "Hesse",
    "DE-HH": "Hamburg",
    "DE-MV": "Mecklenburg-Vorpommern",
    "DE-NI": "Lower Saxony",
    "DE-NW": "North Rhine-Westphalia",
    "DE-RP": "Rhineland-Palatinate",
    "DE-SH": "Schleswig-Holstein",
    "DE-SL": "Saarland",
    "DE-SN": "Saxony",
    "DE-ST": "Saxony-Anhalt",
    "DE-TH": "Thuringia",
    "GB-ENG": "England",
    "GB-NIR": "Northern Ireland",
    "GB-SCT": "Scotland",
    "GB-WLS": "Wales",
    "US-CA": "California",
    "US-NY": "New York",
    "US-TX": "Texas",
}
_PLACES = {name.lower().removeprefix("the "): code for code, name in _NAMES.items()}
