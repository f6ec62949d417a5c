"""Pinned dependencies against known advisories: `make advisories`.

Without a network it compares the lock files with verification/advisories.json. With --online it also asks the JSON API of
the package index that pip uses; what cannot be asked there is left to the file, and the output says so. It exits 1 if a
pinned version is affected, or if the file is older than 60 days and the index was not asked about every pin.
"""

import base64
import json
import re
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import Request, urlopen

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

PROJECT = Path(__file__).resolve().parent.parent
FILE = PROJECT / "verification" / "advisories.json"
LOCKS = [PROJECT / "requirements.txt", PROJECT / "requirements-dev.txt"]
PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)", re.MULTILINE)
KEYS = {"id", "package", "affected", "fixed", "summary"}
# Older advisories say little about today's pins.
MAX_AGE_DAYS = 60
REQUEST_SECONDS = 10
ONLINE_SECONDS = 120
MOST_BYTES = 20_000_000

Pin = tuple[str, str]


class UnusableError(Exception):
    """A file that cannot be used; the text says why."""


@dataclass(frozen=True)
class Advisory:
    """A known vulnerability: `affected` has one range of versions for each branch, `fixed` the first good version of each."""

    id: str
    package: str
    affected: Sequence[SpecifierSet]
    fixed: Sequence[str]
    summary: str

    @classmethod
    def parse(cls, entry: Any) -> "Advisory":
        """Read an entry of the file; raises UnusableError."""
        if not isinstance(entry, dict) or entry.keys() != KEYS:
            raise UnusableError(f"an entry needs exactly the keys {', '.join(sorted(KEYS))}: {entry!r:.200}")
        name = entry["id"]
        if not entry["affected"] or len(entry["affected"]) != len(entry["fixed"]):
            raise UnusableError(f"{name}: give a fixed version for each affected range")
        try:
            ranges = [SpecifierSet(text) for text in entry["affected"]]
            fixed = [str(Version(text)) for text in entry["fixed"]]
        except (InvalidSpecifier, InvalidVersion) as error:
            raise UnusableError(f"{name}: {error}") from error
        for text, good in zip(ranges, fixed, strict=True):
            if good in text or not str(text):
                raise UnusableError(f"{name}: {good} is in the affected range {str(text)!r}")
        return cls(name, canonicalize_name(entry["package"]), ranges, fixed, entry["summary"])

    def affects(self, pin: Pin) -> bool:
        name, version = pin
        return name == self.package and any(
            each.contains(version, prereleases=True) for each in self.affected
        )


@dataclass
class Lookup:
    """What an index said: problems of pins, and how many of them it was asked about."""

    problems: list[str] = field(default_factory=list)
    asked: set[Pin] = field(default_factory=set)
    trouble: str = ""
    """Why some pins were not asked about."""


def read_pins(files: Iterable[Path]) -> list[Pin]:
    """Return names and versions of lock files, each once; raises UnusableError for a file without any."""
    found: set[Pin] = set()
    for file in files:
        pins = PIN.findall(file.read_text(encoding="utf-8"))
        if not pins:
            raise UnusableError(f"{file}: no pinned versions in it")
        found |= {(canonicalize_name(name), version) for name, version in pins}
    return sorted(found)


def read_advisories(file: Path) -> tuple[date, list[Advisory]]:
    """Return until when the file knows advisories, and these; raises UnusableError."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return date.fromisoformat(content["as_of"]), [
            Advisory.parse(entry) for entry in content["advisories"]
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnusableError(f"{file}: {error!r}") from error


def problems_in(pins: Iterable[Pin], advisories: Sequence[Advisory]) -> list[str]:
    return [
        f"{pin[0]} {pin[1]}: {each.id}, fixed in {', '.join(each.fixed)}: {each.summary}"
        for pin in pins
        for each in advisories
        if each.affects(pin)
    ]


def configured_index() -> SplitResult | None:
    """Return the address of the package index that pip is configured with, or None."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    found = dict(re.findall(r"^(\S+)\.index-url='(.*)'$", listed.stdout, re.MULTILINE))
    # Pip's own order of precedence.
    address = next((found[section] for section in (":env:", "install", "global") if section in found), "")
    parts = urlsplit(address)
    return parts if parts.scheme in ("http", "https") and parts.hostname else None


def ask_index(index: SplitResult, pins: Sequence[Pin]) -> Lookup:
    """Ask the index about each pin; end at the first sign that it cannot be reached."""
    lookup = Lookup()
    end = time.monotonic() + ONLINE_SECONDS
    for name, version in pins:
        if time.monotonic() > end:
            lookup.trouble = f"no more time after {ONLINE_SECONDS} s"
            break
        try:
            found = _vulnerabilities(index, name, version)
        except HTTPError as error:
            lookup.trouble = f"it answered {error.code}"
            continue
        except (OSError, HTTPException) as error:
            lookup.trouble = f"it cannot be reached ({type(error).__name__})"
            break
        except (ValueError, KeyError, TypeError):
            lookup.trouble = "it has no list of vulnerabilities"
            continue
        lookup.asked.add((name, version))
        lookup.problems += [f"{name} {version}: {words}" for words in found]
    return lookup


def _vulnerabilities(index: SplitResult, name: str, version: str) -> list[str]:
    place = index.netloc.rpartition("@")[2]
    folder = index.path.rstrip("/").removesuffix("/simple")
    request = Request(f"{index.scheme}://{place}{folder}/pypi/{name}/{version}/json")
    if index.username:
        login = f"{unquote(index.username)}:{unquote(index.password or '')}"
        request.add_header("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
    with urlopen(request, timeout=REQUEST_SECONDS) as answer:
        content = json.loads(answer.read(MOST_BYTES))
    return [
        f"{each['id']}, fixed in {', '.join(each.get('fixed_in') or ['no version'])}: {each.get('summary') or 'no summary'}"
        for each in content["vulnerabilities"]
        if not each.get("withdrawn")
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = ArgumentParser(prog="python -m verification.advisories", description=__doc__)
    parser.add_argument("--online", action="store_true", help="ask pip's package index, too")
    parser.add_argument("--any-age", action="store_true", help="do not fail because the advisories are old")
    parser.add_argument("--file", type=Path, default=FILE, help="advisories, instead of the committed ones")
    parser.add_argument("locks", type=Path, nargs="*", default=LOCKS, help="lock files")
    options = parser.parse_args(arguments)
    try:
        pins = read_pins(options.locks)
        as_of, advisories = read_advisories(options.file)
    except (UnusableError, OSError) as error:
        sys.stderr.write(f"advisories: {error}\n")
        return 2
    problems, asked = problems_in(pins, advisories), 0
    lines = [f"{len(pins)} pins compared with {len(advisories)} advisories, known as of {as_of}."]
    if options.online:
        index = configured_index()
        lookup = ask_index(index, pins) if index else Lookup(trouble="pip names no index")
        why = f" ({lookup.trouble}; the file alone decides about the others)" if lookup.trouble else ""
        lines.append(f"Online: asked about {len(lookup.asked)} of {len(pins)} pins{why}.")
        problems += lookup.problems
        asked = len(lookup.asked)
    lines += [f"affected: {problem}" for problem in dict.fromkeys(problems)]
    lines.append("Update these pins: make lock." if problems else "No pin is known to be affected.")
    age = (datetime.now(UTC).date() - as_of).days
    is_old = age > MAX_AGE_DAYS and asked < len(pins)
    if is_old:
        lines.append(
            f"The advisories are {age} days old: bring {options.file.name} up to date, or use --online."
        )
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if problems or (is_old and not options.any_age) else 0


if __name__ == "__main__":
    sys.exit(main())
