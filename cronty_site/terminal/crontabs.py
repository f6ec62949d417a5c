"""The subcommand `import crontab`: turn a crontab into commands for commands.toml, and jobs that run them."""

import getpass
import os
import platform
import pwd
import subprocess
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from django.conf import settings

from cronty_site.terminal import here
from cronty_site.terminal.failures import Failure
from cronty_site.terminal.files import healthchecks_command, planned, print_plan
from cronty_site.terminal.output import line, note, print_json, print_table, say
from cronty_site.terminal.session import Session, subcommand
from schedules import clock
from schedules.models.counting import counted
from schedules.services.files.crontab import Crontab, parse_crontab
from schedules.services.files.crontab_jobs import make_jobs, toml_of
from schedules.services.files.writing import write_jobs
from schedules.services.people.preferences import MEND, UNALERTED
from schedules.spec.readers import read_zone
from schedules.tasks import registry
from schedules.tasks.commands.accounts import AccountError, account_of
from schedules.tasks.commands.catalog import catalog
from schedules.tasks.commands.definitions import parse
from schedules.tasks.operator_files.tables import OperatorFileError
from schedules.when.triggers import TriggerError

SYSTEM_PATHS = ("/etc/crontab", "/etc/cron.d/")


@click.group("import")
def import_command() -> None:
    """Take over the jobs of another scheduler.

    \b
    Examples:
      cronty import crontab --check
      cronty import crontab /etc/cron.d/backup
      cronty import healthchecks checks.json
    """


@subcommand(
    "crontab",
    examples="""
    cronty import crontab --check
    cronty import crontab my.crontab --timezone Europe/Berlin
    cronty import crontab --write imported/
    """,
)
# Not `click.Path`, which looks at files of the server before a token is refused.
@click.argument("path", type=Path, required=False)
@click.option("--timezone", help="The zone of lines without CRON_TZ.  [default: this host's]")
@click.option("--system", is_flag=True, help="Lines name a user, as in /etc/crontab.")
@click.option("--source", help="The name that jobs remember.  [default: crontab, or the name of the file]")
@click.option(
    "--write",
    "folder",
    type=Path,
    help="Write commands.toml and jobs.yaml into this folder instead.",
)
@click.option("--prune", is_flag=True, help="Delete jobs taken over before whose lines are gone or changed.")
@click.option("--force", is_flag=True, help="Overwrite the jobs.yaml of that folder.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--check", is_flag=True, help="Only show what would be taken over.")
def crontab_command(
    session: Session,
    path: Path | None,
    timezone: str | None,
    system: bool,
    source: str | None,
    folder: Path | None,
    prune: bool,
    force: bool,
    yes: bool,
    check: bool,
) -> None:
    """Turn every line of a crontab into a command and a job: of PATH, or of your own crontab.

    The commands are added to commands.toml, and the jobs are applied like a file. Lines that cannot be taken over are
    listed with the reason.
    """
    if session.is_remote:
        raise Failure("Crontabs are taken over on the machine of Cronty itself, which runs their commands.")
    if folder and folder.exists() and not folder.is_dir():
        raise click.BadParameter(f"{folder} is no folder.", param_hint="--write")
    zone = _zone(timezone or host_zone())
    # One source per file, because another file may have lines with the same comments.
    source = source or ("crontab" if path is None or str(path) == "-" else path.resolve().name)
    has_users = system or (path is not None and str(path.resolve()).startswith(SYSTEM_PATHS))
    crontab = parse_crontab(
        _text(path),
        timezone=zone,
        user=getpass.getuser(),
        home=str(Path.home()),
        has_users=has_users,
        host=platform.node(),
        home_of=_home_of,
    )
    file = folder / "commands.toml" if folder else Path(settings.CRONTY_COMMANDS_FILE or "")
    text = _existing(file)
    commands, jobs = make_jobs(crontab.entries, tomllib.loads(text), registry.is_function)
    added = toml_of(commands)
    if session.as_json:
        lines = {
            "left_out": [asdict(each) for each in crontab.left_out],
            "changed": [asdict(each) for each in crontab.changed],
        }
        print_json({"commands": commands, "jobs": jobs, **lines})
    else:
        _show(crontab, jobs, commands)
    if not has_users and _begin_with_users(crontab):
        note("The commands begin with names of users: a system crontab is read with --system.")
    if jobs and not (session.me["alert_topic"] or session.me["alert_channel"]):
        note(f"{UNALERTED} {MEND}")
    if check or not jobs:
        return
    if not yes:
        here.confirm("Take these over?")
        if _existing(file) != text:
            raise Failure(f"{file} changed meanwhile: try again.")
    merged = f"{text.rstrip()}\n\n{added}".lstrip("\n") if added else text
    _check_commands(file, merged)
    document = write_jobs(jobs, zone)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        here.write_text(str(folder / "jobs.yaml"), document, force=force)
        here.write_text(str(file), merged, force=True)
        note(
            f"Written to {folder}: move commands.toml to {settings.CRONTY_COMMANDS_FILE}, then apply jobs.yaml."
        )
        return
    if added:
        here.write_text(str(file), merged, force=True)
        catalog.refresh()
    request = {
        "source": source,
        "files": [{"name": source, "text": document}],
        "timezone": zone,
        "prune": prune,
    }
    plan = planned(session, "apply_file", request | {"at_once": True})
    if not session.as_json:
        print_plan(plan)
    if plan["applied"] and not session.as_json:
        say("Applied.", "green")


import_command.add_command(crontab_command)
import_command.add_command(healthchecks_command)


def host_zone() -> str:
    """Return the name of this host's time zone, or UTC if it has none."""
    if name := os.environ.get("TZ", "").lstrip(":"):
        return name
    try:
        return Path("/etc/timezone").read_text().strip() or "UTC"
    except OSError:
        _, separator, name = str(Path("/etc/localtime").resolve()).partition("zoneinfo/")
        return name if separator else "UTC"


def _zone(name: str) -> str:
    try:
        return read_zone(name, clock.now())
    except TriggerError as error:
        raise click.BadParameter(error.reason, param_hint="--timezone") from error


def _home_of(user: str) -> str | None:
    """Return the home folder of a user that commands can run as."""
    try:
        return account_of(user).home
    except AccountError:
        return None


def _text(path: Path | None) -> str:
    if path is not None:
        return here.read_text(str(path))
    try:
        listed = subprocess.run(["crontab", "-l"], capture_output=True, text=True, check=False)  # noqa: S607  # nosec B603, B607  # of the person who types it
    except OSError as error:
        raise Failure("There is no crontab command here: give the path of a file.") from error
    if listed.returncode:
        raise Failure(line(listed.stderr) or "You have no crontab.")
    return listed.stdout


def _existing(file: Path) -> str:
    """Return the content of commands.toml; a broken file must be corrected first."""
    if str(file) == ".":
        raise Failure("CRONTY_COMMANDS_FILE is not set: commands cannot be added.")
    text = here.read_text(str(file)) if file.exists() else ""
    _check_commands(file, text)
    return text


def _check_commands(file: Path, text: str) -> None:
    try:
        parse(text)
    except OperatorFileError as error:
        raise Failure(f"{file}: {error}") from error


def _show(crontab: Crontab, jobs: dict[str, dict[str, Any]], commands: dict[str, dict[str, Any]]) -> None:
    if jobs:
        rows = [
            (
                entry.line,
                job.get("name", key),
                job["schedule"],
                job["timezone"],
                job["task"],
                "shell" if entry.words is None else "",
            )
            for entry, (key, job) in zip(crontab.entries, jobs.items(), strict=True)
        ]
        print_table(("line", "job", "schedule", "zone", "command", ""), rows, shrink="job")
    for each in crontab.left_out:
        say(f"line {each.line}: not taken over: {each.reason}: {each.text}", "yellow")
    for each in crontab.changed:
        say(f"line {each.line}: taken over with a change: {each.reason}: {each.text}", "yellow")
    taken = f"{counted(len(jobs), 'job')}, {counted(len(commands), 'new command')}"
    changed = f", {len(crontab.changed)} with a change" if crontab.changed else ""
    say(f"{taken}, {counted(len(crontab.left_out), 'line')} not taken over{changed}")


def _begin_with_users(crontab: Crontab) -> bool:
    """Return whether most commands begin with the name of a user of this host."""
    users = {user.pw_name for user in pwd.getpwall()}
    named = [entry for entry in crontab.entries if entry.command.split()[0] in users]
    return 2 * len(named) > len(crontab.entries)
