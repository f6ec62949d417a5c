"""manage.py restore PATH: replace the database by a backup, and decide about the slots since then."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from argparse import ArgumentParser
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError, connection, transaction

from schedules import clock, engine
from schedules.checks import MOVE_TO_THIS_BUILD, foreign_schema_problem
from schedules.engine import sqlite_file
from schedules.management import archive
from schedules.management.base_command import CrontyCommand
from schedules.management.commands.backup import connection_options, is_cronty, sync
from schedules.management.database import missing_database_problem
from schedules.models import Cluster, Job
from schedules.models.counting import counted
from schedules.services.installation.command_words import how_to_run
from schedules.services.installation.secret_key import secret_key_problem
from schedules.tasks import registry

SLOTS = {"skip": engine.skip_since_backup, "catch-up": engine.catch_up_since_backup}
QUESTION = """Slots between the backup and now may have run already.
  skip      do not run them again; each is recorded as skipped
  catch-up  let each job catch up with them under its own policy
Which one? """


class Command(CrontyCommand):
    help = "Replace the database by a backup, keep the replaced one, and decide about the slots since then."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, nargs="?", help="a file that `backup` or pg_dump has written")
        parser.add_argument("--slots", choices=SLOTS, help="what to do with slots between the backup and now")
        parser.add_argument("--yes", action="store_true", help="do not ask before replacing the database")
        parser.add_argument(
            "--passphrase-file", type=Path, help="of an encrypted archive; default: ask at the terminal"
        )
        parser.add_argument(
            "--already-in-place",
            action="store_true",
            help="the backup was restored by other means: decide about the slots only",
        )

    def handle(self, *args: Any, **options: Any) -> str:
        path: Path | None = options["path"]
        if (path is None) != options["already_in_place"]:
            raise CommandError("Give the file of a backup, or --already-in-place.")
        is_sqlite = connection.vendor == "sqlite"
        try:
            if path is None:
                _refuse_if_in_use()
                return _finish(_choose_slots(options["slots"])) + _missing_notes()
            if not path.is_file():
                raise CommandError(f"{path} does not exist.")
            if is_sqlite and (archive.is_encrypted(path) or tarfile.is_tarfile(path)):
                return _restore_archive(path.absolute(), options)
            restore = _restore_sqlite if is_sqlite else _restore_postgresql
            return restore(path.absolute(), options["slots"], is_confirmed=options["yes"]) + _missing_notes()
        except (DatabaseError, sqlite3.Error, OSError, subprocess.CalledProcessError) as error:
            raise CommandError(f"The backup was not restored: {error}") from error


def _restore_archive(path: Path, options: dict[str, Any]) -> str:
    """Restore the database of an archive, then the files; nothing is replaced until the database is accepted."""
    if not hasattr(settings, "CRONTY_DATA"):
        raise CommandError("An archive is for Cronty's own data folder, which this project does not have.")
    current = Path(connection.settings_dict["NAME"])
    with TemporaryDirectory(dir=current.parent, prefix=".restoring-") as name:
        folder = Path(name)
        plain = path
        if archive.is_encrypted(path):
            passphrase = archive.read_passphrase(
                options["passphrase_file"], if_no_terminal="The archive is encrypted: give --passphrase-file."
            )
            plain = folder / "plain"
            archive.decrypt(path, plain, passphrase)
        extracted = folder / "files"
        archive.unpack(plain, extracted)
        report = _restore_sqlite(extracted / archive.DATABASE, options["slots"], is_confirmed=options["yes"])
        return "\n".join([report, *archive.put_in_place(extracted, f"{clock.now():%Y%m%dT%H%M%S}")])


def _restore_sqlite(path: Path, slots: str | None, *, is_confirmed: bool) -> str:
    """Prepare a copy of the backup beside the database, then swap the two."""
    current = Path(connection.settings_dict["NAME"])
    copy = current.with_name(f"{current.name}.restoring")
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as backup:
        if not is_cronty(backup):
            raise CommandError(f"{path} is not a backup of Cronty.")
        if (verdict := backup.execute("PRAGMA quick_check").fetchone()[0]) != "ok":
            raise CommandError(f"{path} is damaged: {verdict}")
        is_replaced = current.exists()
        if is_replaced:
            _refuse_clusters()
        slots = _choose_slots(slots)
        _confirm(current, is_replaced=is_replaced, is_confirmed=is_confirmed)
        copy.unlink(missing_ok=True)
        os.close(os.open(copy, os.O_CREAT | os.O_WRONLY, 0o600))
        with closing(sqlite3.connect(copy)) as target:
            backup.backup(target)
    try:
        _connect_to(str(copy))
        report = _finish(slots)
    except BaseException:
        connection.close()
        copy.unlink()
        raise
    finally:
        _connect_to(str(current))
    _make_single_file(copy)
    replaced = current.with_name(f"{current.name}.before-{clock.now():%Y%m%dT%H%M%S}")
    if is_replaced:
        _make_single_file(current)
        os.link(current, replaced)
    # In one step: if the file were missing for a moment, a start would create an empty database.
    os.replace(copy, current)
    sqlite_file.forget()
    sync(current.parent)
    return f"{report}\nThe replaced database is kept as {replaced}." if is_replaced else report


def _make_single_file(path: Path) -> None:
    """Remove the write-ahead log; this fails while another process has the database open."""
    with closing(sqlite3.connect(path, timeout=1)) as database:
        try:
            database.execute("PRAGMA journal_mode=DELETE").fetchone()
        except sqlite3.OperationalError as error:
            raise CommandError(f"Another process uses {path}: stop Cronty first ({error}).") from error


def _restore_postgresql(path: Path, slots: str | None, *, is_confirmed: bool) -> str:
    """Restore the dump into a new database, then swap the names of the two."""
    program = shutil.which("pg_restore")
    if program is None:
        raise CommandError(
            "pg_restore is not on the PATH. Restore the dump with it, then run: "
            f"{how_to_run('restore --already-in-place')}"
        )
    values = connection.settings_dict
    current, new = values["NAME"], f"{values['NAME']}_{uuid4().hex[:8]}"
    listed = subprocess.run([program, "--list", path], capture_output=True, text=True, check=False)  # noqa: S603  # nosec B603  # found by its name, and no shell
    if "schedules_job" not in listed.stdout:
        raise CommandError(f"{path} is not a dump of Cronty in pg_dump's custom format.")
    maintenance = maintenance_database(current)
    _connect_to(maintenance)
    is_replaced = bool(_execute("SELECT 1 FROM pg_database WHERE datname = %s", [current]))
    if is_replaced:
        _connect_to(current)
        _refuse_clusters()
        _refuse_other_sessions()
    slots = _choose_slots(slots)
    _confirm(current, is_replaced=is_replaced, is_confirmed=is_confirmed)
    _connect_to(maintenance)
    quote = connection.ops.quote_name
    _execute(f"CREATE DATABASE {quote(new)}")
    try:
        command = [program, "--no-owner", "--no-privileges", "--exit-on-error"]
        password = {"PGPASSWORD": str(values["PASSWORD"])} if values["PASSWORD"] else {}
        subprocess.run(  # noqa: S603  # nosec B603  # found by its name, and no shell
            [*command, *connection_options(values | {"NAME": new}), path],
            env=os.environ | password,
            check=True,
        )
        _connect_to(new)
        report = _finish(slots)
        _connect_to(maintenance)
        replaced = f"{current}_before_{clock.now():%Y%m%d_%H%M%S}"
        # In one transaction, because a start between the two would find no database.
        with transaction.atomic():
            if is_replaced:
                _execute(f"ALTER DATABASE {quote(current)} RENAME TO {quote(replaced)}")
            _execute(f"ALTER DATABASE {quote(new)} RENAME TO {quote(current)}")
    except BaseException:
        _connect_to(maintenance)
        _execute(f"DROP DATABASE IF EXISTS {quote(new)}")
        raise
    finally:
        _connect_to(current)
    return f"{report}\nThe replaced database is kept as {replaced}." if is_replaced else report


def maintenance_database(current: str) -> str:
    """Return the database to connect to while the current one is renamed, which no session may use."""
    return "template1" if current == "postgres" else "postgres"


def _finish(slots: str) -> str:
    """Migrate the restored database, and skip or catch up with slots; return a report."""
    if problem := foreign_schema_problem():
        raise CommandError(f"{problem} {MOVE_TO_THIS_BUILD}")
    call_command("migrate", verbosity=0, interactive=False)
    now = clock.now()
    backed_up_at = min(_recorded_moment() or engine.newest_trace() or now, now)
    done = SLOTS[slots](backed_up_at, now)
    if connection.vendor == "sqlite":
        _execute("PRAGMA user_version=0")
    verb = "skipped" if slots == "skip" else "caught up with by the next cluster"
    return (
        f"Restored from a backup of {backed_up_at:%Y-%m-%d %H:%M:%S} UTC. "
        f"Slots of {counted(done.jobs, 'job')} are {verb}; runs under way that were "
        f"{'ended' if slots == 'skip' else 'released'}: {done.runs:,}."
    )


def _missing_notes() -> str:
    """List what the restored database needs and this host lacks, or return an empty text."""
    lines = []
    if secret_key_problem():
        lines.append(
            "Missing: its secret key. Without it, its secrets, tokens and logins cannot be used, and Cronty does not"
            " start. Copy secret_key into the data folder, or set CRONTY_SECRET_KEY; look for its .env, too."
        )
    tasks = Job.objects.armed().order_by("task").values_list("task", flat=True).distinct()
    if unknown := [task for task in tasks if registry.get(task) is None]:
        lines.append(
            f"Missing: the tasks {', '.join(unknown[:10])}{' …' if unknown[10:] else ''}, which jobs use."
            " Copy commands.toml and apps/, and set CRONTY_APPS as before."
        )
    return "".join(f"\n{line}" for line in lines)


def _recorded_moment() -> datetime | None:
    """Return when the backup was made, if it is one of `manage.py backup`; others do not record it."""
    seconds = _execute("PRAGMA user_version")[0][0] if connection.vendor == "sqlite" else 0
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


def _refuse_clusters(seen_after: datetime | None = None) -> None:
    """Refuse while a cluster sends heartbeats."""
    if "schedules_cluster" not in connection.introspection.table_names():
        return
    clusters = Cluster.objects.fresh(clock.now())
    if alive := (clusters.filter(last_seen_at__gt=seen_after) if seen_after else clusters).first():
        raise CommandError(f"A cluster is running on {alive.host} (process {alive.pid}): stop Cronty first.")


def _refuse_if_in_use() -> None:
    """Refuse if processes already work on a database that was restored by other means."""
    if connection.vendor == "postgresql":
        _refuse_other_sessions()
        return
    if problem := missing_database_problem():
        raise CommandError(problem)
    connection.close()
    _make_single_file(Path(connection.settings_dict["NAME"]))
    # Without a write-ahead log, only heartbeats show that it is in use; those in the backup are older than it.
    backed_up_at = _recorded_moment()
    _refuse_clusters(backed_up_at and backed_up_at + timedelta(seconds=2))


def _refuse_other_sessions() -> None:
    others = _execute(
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND backend_type = 'client backend'"
    )
    if others:
        raise CommandError(
            f"This database is used by {counted(len(others), 'other session')}: stop Cronty first."
        )


def _choose_slots(choice: str | None) -> str:
    if choice is None:
        if not sys.stdin.isatty():
            raise CommandError(
                "Say what to do with slots since the backup: --slots skip or --slots catch-up."
            )
        choice = input(QUESTION).strip()
    if choice not in SLOTS:
        raise CommandError(f"Choose one of: {', '.join(SLOTS)}.")
    return choice


def _confirm(current: object, *, is_replaced: bool, is_confirmed: bool) -> None:
    tables = connection.introspection.table_names() if is_replaced else []
    if not tables or is_confirmed:
        return
    newest = engine.newest_trace() if "schedules_cluster" in tables else None
    state = f"{current} has changes until {newest:%Y-%m-%d %H:%M:%S} UTC" if newest else f"{current} exists"
    if not sys.stdin.isatty():
        raise CommandError(f"{state}; to replace it, add --yes. It is kept under another name.")
    typed = input(f"{state}. Replace it? It is kept under another name. [y/N] ")
    if typed.strip().lower() not in ("y", "yes"):
        raise CommandError("Nothing was changed.")


def _connect_to(name: str) -> None:
    connection.close()
    connection.settings_dict["NAME"] = name


def _execute(statement: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall()) if cursor.description else []
