"""manage.py backup PATH: copy the database while Cronty runs."""

import fcntl
import os
import shlex
import shutil
import sqlite3
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import connection

from schedules import clock
from schedules.management import archive
from schedules.management.base_command import CrontyCommand
from schedules.management.database import missing_database_problem


class Command(CrontyCommand):
    help = "Copy the SQLite database to PATH while Cronty runs; for PostgreSQL, print the command to use."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, help="the file to create; it must not exist yet")
        parser.add_argument(
            "--all",
            action="store_true",
            dest="with_files",
            help="also the secret key, commands.toml, .env and apps/, in one encrypted archive",
        )
        parser.add_argument(
            "--passphrase-file", type=Path, help="of the archive; default: ask at the terminal"
        )
        parser.add_argument(
            "--plain", action="store_true", help="do not encrypt the archive, which can read every secret"
        )

    def handle(self, *args: Any, **options: Any) -> str:
        path: Path = options["path"].absolute()
        if connection.vendor != "sqlite":
            raise CommandError(
                f"This database is PostgreSQL; back it up with its own tool:\n"
                f"{pg_dump_command(connection.settings_dict, path)}\n"
                "Copy the secret key, commands.toml, .env and apps/ of a host, too."
            )
        if path.exists():
            raise CommandError(f"{path} exists already; a backup overwrites nothing.")
        if not path.parent.is_dir():
            raise CommandError(f"The folder {path.parent} does not exist.")
        if problem := missing_database_problem():
            raise CommandError(problem)
        passphrase = self._passphrase(options) if options["with_files"] else ""
        try:
            with _partial(path) as folder:
                complete = folder / archive.DATABASE
                copy_sqlite(complete)
                if options["with_files"]:
                    archive.pack(complete, folder / "plain")
                    complete = folder / "plain"
                if passphrase:
                    archive.encrypt(complete, folder / "sealed", passphrase)
                    complete = folder / "sealed"
                sync(complete)
                # Link instead of rename: a link never replaces an existing file.
                os.link(complete, path)
            sync(path.parent)
        except FileExistsError as error:
            raise CommandError(f"{path} exists already; a backup overwrites nothing.") from error
        except (OSError, sqlite3.Error) as error:
            raise CommandError(f"The backup could not be created: {error}") from error
        message = f"Backed up to {path} ({path.stat().st_size:,} bytes)"
        if not options["with_files"] and hasattr(settings, "CRONTY_DATA"):
            message += ". It does not hold the secret key, commands.toml, .env or apps/: see --all."
        return message

    def _passphrase(self, options: dict[str, Any]) -> str:
        """Return the passphrase of an archive, or an empty text for a plain one."""
        if not hasattr(settings, "CRONTY_DATA"):
            raise CommandError(
                "--all is for Cronty's own data folder: back up your project's files yourself."
            )
        if options["plain"]:
            return ""
        return archive.read_passphrase(
            options["passphrase_file"],
            is_new=True,
            if_no_terminal="An archive can read every secret: give --passphrase-file, or --plain to write it unencrypted.",
        )


def copy_sqlite(path: Path) -> None:
    """Copy a consistent state of the database to a new file."""
    started_at = clock.now()
    connection.ensure_connection()
    with closing(sqlite3.connect(path)) as copy:
        # All pages in one step: a write would restart a copy in several. With a write-ahead log, this blocks nobody.
        connection.connection.backup(copy, pages=-1)
        # Leave a single file, without a separate log.
        copy.execute("PRAGMA journal_mode=DELETE")
        # Tells `restore` when the backup was made; nothing else uses this number.
        copy.execute(f"PRAGMA user_version={int(started_at.timestamp())}")
        if (verdict := copy.execute("PRAGMA quick_check").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(f"the copy is damaged: {verdict}")
        if not is_cronty(copy):
            raise sqlite3.DatabaseError("the database is not one of Cronty")


def is_cronty(database: sqlite3.Connection) -> bool:
    """Return whether a database has the tables of Cronty."""
    return ("schedules_job",) in database.execute("SELECT name FROM sqlite_master").fetchall()


@contextmanager
def _partial(path: Path) -> Iterator[Path]:
    """Yield an empty private folder to write to; what a killed backup left there is deleted."""
    folder = path.with_name(f"{path.name}.partial")
    folder.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for file in folder.iterdir():
            file.unlink()
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
    except BlockingIOError as error:
        raise OSError(f"another backup is writing to {folder}") from error
    finally:
        os.close(handle)


def sync(path: Path) -> None:
    """Flush a file or folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def pg_dump_command(values: Mapping[str, Any], path: Path) -> str:
    """Return the command that backs up a PostgreSQL database, without the password."""
    return shlex.join(["pg_dump", "--format=custom", f"--file={path}", *connection_options(values)])


def connection_options(values: Mapping[str, Any]) -> list[str]:
    """Return the options of PostgreSQL's tools for a connection, without the password."""
    names = (("host", "HOST"), ("port", "PORT"), ("username", "USER"), ("dbname", "NAME"))
    return [f"--{option}={values[name]}" for option, name in names if values.get(name)]
