"""Examine this host: data folders, disks, private files, time zone data, and the files of commands and runners."""

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from datetime import date
from glob import escape
from importlib.util import find_spec
from pathlib import Path

from django.conf import settings

from schedules import clock
from schedules.agents.catalog import AGENT_COMMAND
from schedules.agents.catalog import catalog as runner_catalog
from schedules.channels.operator_services import MISSING
from schedules.channels.operator_services import catalog as operator_services
from schedules.management.doctor import Finding, ok, problem, warning
from schedules.secrets import private_files
from schedules.tasks.commands.accounts import AccountError, account_of
from schedules.tasks.commands.catalog import catalog
from schedules.when import zones

LOW_SPACE = 1_000_000_000
CRITICAL_SPACE = 100_000_000
LOW_SHARE = 0.05


def examine() -> Iterator[Finding]:
    for folder in data_folders():
        yield _data_folder(folder)
        yield _disk(folder)
    yield from _private_files()
    yield _zone_data()
    yield from _named_files()
    yield from _commands()
    yield from _runners()
    yield from _operator_services()


def data_folders() -> list[Path]:
    """Return the folder of the SQLite file, and the data folder, which an embedding project does not have."""
    folders = [Path(folder)] if (folder := getattr(settings, "CRONTY_DATA", None)) else []
    if file := _sqlite_file():
        folders.append(file.parent)
    return list(dict.fromkeys(folders))


def _sqlite_file() -> Path | None:
    database = settings.DATABASES["default"]
    file = Path(str(database["NAME"])).resolve()
    return file if database["ENGINE"] == "django.db.backends.sqlite3" and file.is_file() else None


def _data_folder(folder: Path) -> Finding:
    file = _sqlite_file()
    database_files = sorted(folder.glob(f"{escape(file.name)}*")) if file and file.parent == folder else []
    needed = [folder, *filter(Path.is_file, database_files)]
    read_only = [path for path in needed if not os.access(path, os.W_OK)]
    if read_only:
        who = f"the user {os.geteuid()} who runs this"
        return problem(
            "data", f"{read_only[0]} cannot be written by {who}.", f"chown or chmod {read_only[0]}."
        )
    return ok("data", f"{folder} can be written.")


def _disk(folder: Path) -> Finding:
    usage = shutil.disk_usage(folder)
    free = f"{usage.free / 1e9:,.1f} GB of {usage.total / 1e9:,.1f} GB are free under {folder}"
    remedy = "Free space, or lower CRONTY_HISTORY_DAYS and CRONTY_HISTORY_PER_PERSON."
    if usage.free < CRITICAL_SPACE:
        return problem("disk", f"Only {free}.", remedy)
    if usage.free < LOW_SPACE or usage.free < LOW_SHARE * usage.total:
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
            f"chmod go= {shlex.quote(str(path))}",
        )
    if not paths:
        yield ok("permissions", "Data and secrets are readable by this user alone.")


def _zone_data() -> Finding:
    release = zones.release()
    year = re.match(r"[0-9]{4}", release)
    if not year:
        return warning(
            "zone data", "The release of the zone data is unknown.", "Reinstall the package tzdata."
        )
    # A release is certainly outdated by the June of the next year.
    if clock.now().date() >= date(int(year[0]) + 1, 6, 1):
        return warning(
            "zone data",
            f"Release {release} is old: where a country has changed its clocks since, jobs run an hour off.",
            "Upgrade Cronty or the package tzdata, on every host.",
        )
    return ok("zone data", f"Release {release}.")


def _named_files() -> Iterator[Finding]:
    """Examine files and programs that a variable names; the default files need not exist."""
    named = {
        "CRONTY_COMMANDS_FILE": "commands",
        "CRONTY_RUNNERS_FILE": "runners",
        "CRONTY_APPRISE_FILE": "services",
    }
    for setting, nouns in named.items():
        file = os.environ.get(setting, "").strip()
        if file and not Path(file).exists():
            yield warning(
                nouns,
                f"{setting} names {file}, which does not exist: there are no {nouns}.",
                f"Create it, or unset {setting}.",
            )
    agent = getattr(settings, "CRONTY_AGENT_COMMAND", [])
    if agent and shutil.which(agent[0]) is None:
        yield warning(
            "agent",
            f"The program of CRONTY_AGENT_COMMAND cannot be started on this host: {agent[0]}.",
            "Install it, or give its full path.",
        )


def _commands() -> Iterator[Finding]:
    catalog.refresh()
    if catalog.problem:
        yield problem("commands", catalog.problem, f"Correct {settings.CRONTY_COMMANDS_FILE}.")
        return
    commands = catalog.commands()
    for name, command in commands.items():
        if shutil.which(command.program, path=command.environment.get("PATH")) is None:
            yield warning(
                "commands",
                f"The program of the command {name} cannot be started on this host: {command.program}.",
                f"Install it, or correct {settings.CRONTY_COMMANDS_FILE}.",
            )
        try:
            account_of(command.user)
        except AccountError as error:
            yield warning(
                "commands",
                f"The command {name} cannot be started: {error}.",
                f"Correct {settings.CRONTY_COMMANDS_FILE}, or the user that runs Cronty.",
            )
    if commands:
        yield ok("commands", f"{len(commands)} in {settings.CRONTY_COMMANDS_FILE}.")


def _runners() -> Iterator[Finding]:
    runner_catalog.refresh()
    if runner_catalog.problem:
        yield problem("runners", runner_catalog.problem, f"Correct {settings.CRONTY_RUNNERS_FILE}.")
        return
    runners = {name: each for name, each in runner_catalog.runners().items() if name != AGENT_COMMAND}
    for name, runner in runners.items():
        program = runner.command[0]
        if program and shutil.which(program, path=runner.environment.get("PATH")) is None:
            yield warning(
                "runners",
                f"The program of the runner {name} cannot be started on this host: {program}.",
                f"Install it, or correct {settings.CRONTY_RUNNERS_FILE}.",
            )
        if runner.directory and not Path(runner.directory).is_dir():
            yield warning(
                "runners",
                f"The working directory of the runner {name} does not exist on this host: {runner.directory}.",
                f"Create it, or correct {settings.CRONTY_RUNNERS_FILE}.",
            )
    if runners:
        yield ok("runners", f"{len(runners)} in {settings.CRONTY_RUNNERS_FILE}.")


def _operator_services() -> Iterator[Finding]:
    operator_services.refresh()
    if operator_services.problem:
        yield problem("services", operator_services.problem, f"Correct {settings.CRONTY_APPRISE_FILE}.")
        return
    services = operator_services.content()
    if services and find_spec("apprise") is None:
        yield warning("services", MISSING, "Install it on every host with a cluster.")
    elif services:
        yield ok("services", f"{len(services)} in {settings.CRONTY_APPRISE_FILE}.")
