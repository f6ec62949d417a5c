"""This host: the data folder, the disk, private files, the time zone data, and the file of commands."""

import os
import re
import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from django.conf import settings

from schedules import clock, private_files
from schedules.management.doctor.findings import Finding, ok, problem, warning
from schedules.tasks.commands.catalog import catalog
from schedules.when import zones

LITTLE_SPACE = 1_000_000_000
NO_SPACE = 100_000_000
LITTLE_SHARE = 0.05


def examine() -> Iterator[Finding]:
    if folder := data_folder():
        yield _data_folder(folder)
        yield _disk(folder)
    yield from _private_files()
    yield _zone_data()
    yield from _commands()


def data_folder() -> Path | None:
    """Return the folder of the data, or of the SQLite file in a project that embeds the app; else None."""
    if folder := getattr(settings, "CRONTY_DATA", None):
        return Path(folder)
    database = settings.DATABASES["default"]
    if database["ENGINE"] == "django.db.backends.sqlite3":
        return Path(str(database["NAME"])).resolve().parent
    return None


def _data_folder(folder: Path) -> Finding:
    needed = [folder, *(path for path in sorted(folder.glob("*.sqlite3*")) if path.is_file())]
    locked = [path for path in needed if not os.access(path, os.W_OK)]
    if locked:
        who = f"the user {os.geteuid()} who runs this"
        return problem("data", f"{locked[0]} cannot be written by {who}.", f"chown or chmod {locked[0]}.")
    return ok("data", f"{folder} can be written.")


def _disk(folder: Path) -> Finding:
    usage = shutil.disk_usage(folder)
    free = f"{usage.free / 1e9:,.1f} GB of {usage.total / 1e9:,.1f} GB are free under {folder}"
    remedy = "Free space, or lower CRONTY_HISTORY_DAYS and CRONTY_HISTORY_PER_PERSON."
    if usage.free < NO_SPACE:
        return problem("disk", f"Only {free}.", remedy)
    if usage.free < LITTLE_SPACE or usage.free < LITTLE_SHARE * usage.total:
        return warning("disk", f"Only {free}.", remedy)
    if os.statvfs(folder).f_favail == 0:
        return problem(
            "disk", f"No more files can be created under {folder}.", "Delete files: it has no inodes left."
        )
    return ok("disk", f"{free}.")


def _private_files() -> Iterator[Finding]:
    paths = private_files.open_to_others()
    for path in paths:
        yield warning(
            "permissions",
            f"Other users of this machine have rights on {path}, which holds secrets.",
            f"chmod go= {path}",
        )
    if not paths:
        yield ok("permissions", "Data and secrets are readable by this user alone.")


def _zone_data() -> Finding:
    release = zones.release()
    found = re.match(r"([0-9]{4})", release)
    if not found:
        return warning(
            "zone data", "The release of the zone data is unknown.", "Reinstall the package tzdata."
        )
    # A release of a year is certainly old when the summer of the next one begins.
    if clock.now().date() >= date(int(found[1]) + 1, 6, 1):
        return warning(
            "zone data",
            f"Release {release} is old: where a country has changed its clocks since, jobs run an hour off.",
            "Upgrade Cronty or the package tzdata, on every host.",
        )
    return ok("zone data", f"Release {release}.")


def _commands() -> Iterator[Finding]:
    catalog.refresh()
    if catalog.problem:
        yield problem("commands", catalog.problem, f"Correct {settings.CRONTY_COMMANDS_FILE}.")
        return
    programs = catalog.programs()
    for name, (program, path) in programs.items():
        if shutil.which(program, path=path) is None:
            yield warning(
                "commands",
                f"The program of the command {name} cannot be started on this host: {program}.",
                f"Install it, or correct {settings.CRONTY_COMMANDS_FILE}.",
            )
    if programs:
        yield ok("commands", f"{len(programs)} in {settings.CRONTY_COMMANDS_FILE}.")
