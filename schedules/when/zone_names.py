"""Time zones by the names that people write: Berlin, "new york", europe/berlin, France."""

import difflib
import re
import unicodedata
import zoneinfo
from contextlib import suppress
from functools import lru_cache
from importlib import resources
from zoneinfo import ZoneInfo

from schedules.when.durations import listed

MAX_LENGTH = 64
_NAME = re.compile(r"(?!posix/|right/)[A-Za-z][A-Za-z0-9_+/-]{0,63}")
_MAX_SUGGESTIONS = 10
_CLOSE = 0.78
_NOT_PLACES = {"localtime", "posixrules", "Factory"}
# Large cities that no zone is named after.
_CITIES = {
    "America/Chicago": "austin, dallas, houston, minneapolis, new orleans, san antonio",
    "America/Los_Angeles": "las vegas, portland, san diego, san francisco, san jose, seattle",
    "America/New_York": "atlanta, boston, cleveland, miami, orlando, philadelphia, washington, washington dc",
    "America/Sao_Paulo": "brasilia, rio de janeiro",
    "America/Toronto": "montreal, ottawa, quebec",
    "Asia/Dubai": "abu dhabi",
    "Asia/Ho_Chi_Minh": "hanoi",
    "Asia/Jerusalem": "tel aviv",
    "Asia/Kolkata": "bangalore, bengaluru, chennai, delhi, hyderabad, mumbai, new delhi, pune",
    "Asia/Shanghai": "beijing, guangzhou, shenzhen",
    "Asia/Tokyo": "kyoto, osaka, yokohama",
    "Australia/Sydney": "canberra",
    "Europe/Berlin": "cologne, dresden, frankfurt, germany, hamburg, koln, leipzig, munchen, munich, stuttgart",
    "Europe/Istanbul": "ankara, izmir",
    "Europe/London": "birmingham, edinburgh, england, glasgow, liverpool, manchester, scotland, uk, united kingdom, wales",
    "Europe/Madrid": "barcelona, seville, valencia",
    "Europe/Moscow": "saint petersburg, st petersburg",
    "Europe/Paris": "lyon, marseille, nice, toulouse",
    "Europe/Rome": "florence, milan, naples, turin, venice",
    "Europe/Warsaw": "gdansk, krakow, wroclaw",
    "Europe/Zurich": "basel, bern, geneva, lausanne",
    "Pacific/Auckland": "wellington",
}
_UNITED_STATES = ["America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles"]
# Abbreviations are ambiguous or cover only half of the year: they lead to suggestions, never to a choice.
_SUGGESTED = {
    "bst": ["Europe/London"],
    "cdt": ["America/Chicago"],
    "cest": ["Europe/Berlin", "Europe/Paris", "Europe/Madrid"],
    "cst": ["America/Chicago", "Asia/Shanghai"],
    "edt": ["America/New_York"],
    "eest": ["Europe/Athens", "Europe/Helsinki"],
    "et": ["America/New_York"],
    "ist": ["Asia/Kolkata", "Europe/Dublin"],
    "jst": ["Asia/Tokyo"],
    "mdt": ["America/Denver"],
    "pacific time": ["America/Los_Angeles"],
    "pdt": ["America/Los_Angeles"],
    "pst": ["America/Los_Angeles"],
    "pt": ["America/Los_Angeles"],
    "eastern time": ["America/New_York"],
    "us": _UNITED_STATES,
    "usa": _UNITED_STATES,
    "america": _UNITED_STATES,
}


@lru_cache(maxsize=1024)
def exact_zone(name: str) -> ZoneInfo | None:
    """Return the zone of an IANA name, or None."""
    # The pattern refuses paths, because ZoneInfo opens files.
    if _NAME.fullmatch(name) and name not in _NOT_PLACES:
        with suppress(KeyError, ValueError, OSError):
            return ZoneInfo(name)
    return None


def zone_named(text: str) -> str:
    """Return the zone that a text names unambiguously, or else the text itself."""
    zones = _exact_matches(text)
    return zones[0] if len(zones) == 1 else text


def zone_note(text: str, zone: str) -> str:
    """Say which zone a text was read as; return an empty text if that is what was typed."""
    typed = text.strip()
    return (
        f"\N{LEFT DOUBLE QUOTATION MARK}{typed}\N{RIGHT DOUBLE QUOTATION MARK} is read as {zone}."
        if typed and typed != zone
        else ""
    )


def suggested_zones(text: str) -> list[str]:
    """Return the zones that a text may mean, the most likely first."""
    if len(text) > MAX_LENGTH:
        return []
    zones = _exact_matches(text) or _SUGGESTED.get(_key(text), [])
    if not zones:
        names = _zones_by_name()
        close = difflib.get_close_matches(_key(text), names, n=1, cutoff=_CLOSE)
        zones = [zone for name in close for zone in names[name]]
    return zones[:_MAX_SUGGESTIONS]


def unknown_zone(text: object) -> str:
    """Return the error for a text that is not a zone, with suggestions."""
    zones = suggested_zones(text) if isinstance(text, str) else []
    problem = f"unknown time zone {ascii(text)[:70]}"
    if not zones:
        return f"{problem}. Enter a city or a name like Europe/Berlin"
    return f"{problem}. Did you mean {listed(zones, last=' or ')}?"


def _exact_matches(text: str) -> list[str]:
    if len(text) > MAX_LENGTH:
        return []
    # An exact name comes first: "EST" is a zone, too.
    name = text.strip()
    if exact_zone(name):
        return [name]
    return _zones_by_name().get(_key(text), [])


def _key(text: str) -> str:
    """Return a name without case, accents, underscores and spaces around slashes."""
    plain = "".join(
        letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter)
    )
    words = plain.casefold().replace("_", " ").replace("/", " / ").split()
    return " ".join(words).replace(" / ", "/")


@lru_cache(maxsize=1)
def _all_names() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones() - _NOT_PLACES)


@lru_cache(maxsize=1)
def _zones_by_name() -> dict[str, list[str]]:
    """Return zones by full name, city, large city and country; for a name in several, the first of these wins."""
    table = [line.split("\t") for line in _table("zone.tab")]
    full = {_key(name): [name] for name in sorted(_all_names())}
    # The table leaves out old names, which count only where it has none.
    current = _by_city([row[2] for row in table])
    old = _by_city(sorted(name for name in _all_names() if "/" in name))
    large = {city: [zone] for zone, cities in _CITIES.items() for city in cities.split(", ")}
    countries = {code: _key(name) for code, name in (line.split("\t")[:2] for line in _table("iso3166.tab"))}
    by_country: dict[str, list[str]] = {}
    for code, _, zone, *_ in table:
        by_country.setdefault(countries.get(code, code), []).append(zone)
    return by_country | large | old | current | full


def _by_city(names: list[str]) -> dict[str, list[str]]:
    cities: dict[str, list[str]] = {}
    for name in names:
        if not name.startswith("Etc/"):
            cities.setdefault(_key(name.rpartition("/")[2]), []).append(name)
    return cities


def _table(name: str) -> list[str]:
    text = resources.files("tzdata").joinpath("zoneinfo", name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]
