"""A migrated database that all workers of one run share: migrations take seconds, and a copy takes none."""

import fcntl
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from tests.forks import ROOT, python

# Names the folder of this test run to the workers of pytest.
SHARED_DATABASE = "TESTS_DATABASE_FOLDER"
FILE = "cronty.sqlite3"
TEMPLATE = "cronty_template"


def fill(data: Path) -> None:
    """Put a migrated database into a data folder; outside of pytest, leave it to the migrations."""
    if SHARED_DATABASE in os.environ:
        copy_to(data / FILE)


def copy_to(path: Path) -> None:
    shutil.copyfile(_migrated(Path(os.environ[SHARED_DATABASE])), path)
    path.chmod(0o600)


def copy_on_server(database: dict[str, Any]) -> None:
    """Create the test database of this worker on PostgreSQL."""
    name, folder = database["TEST"]["NAME"], Path(os.environ[SHARED_DATABASE])
    if database["NAME"] == name:
        # `verification` has the fixture of `tests` once more: this worker uses its copy already.
        return
    server = f"postgres://{database['USER']}:{database['PASSWORD']}@{database['HOST']}:{database['PORT']}"
    new, template = sql.Identifier(name), sql.Identifier(TEMPLATE)
    with _turn(folder), psycopg.connect(f"{server}/{database['NAME']}", autocommit=True) as connection:
        if not (folder / TEMPLATE).exists():
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(template))
            connection.execute(sql.SQL("CREATE DATABASE {}").format(template))
            _migrate(folder, DATABASE_URL=f"{server}/{TEMPLATE}")
            (folder / TEMPLATE).touch()
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(new))
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(new, template))


def _migrated(folder: Path) -> Path:
    """Return the file; the first worker that needs it makes it."""
    path, new = folder / FILE, folder / "new"
    with _turn(folder):
        if not path.exists():
            new.mkdir(exist_ok=True)
            _migrate(new)
            with closing(sqlite3.connect(new / FILE)) as database:
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            (new / FILE).rename(path)
    return path


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _migrate(data: Path, **variables: str) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "CRONTY_DATA": str(data),
        "DJANGO_SETTINGS_MODULE": "cronty_site.settings",
    }
    command = [*python(), str(ROOT / "manage.py"), "migrate", "-v0"]
    subprocess.run(command, cwd=ROOT, env=environment | variables, check=True)
