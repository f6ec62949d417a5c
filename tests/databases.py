"""A migrated SQLite file that all workers of one run share: migrations take seconds, and a copy takes none."""

import fcntl
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from tests.forks import ROOT, python

# Names the folder of this test run to the workers of pytest.
SHARED_DATABASE = "TESTS_DATABASE_FOLDER"
FILE = "cronty.sqlite3"


def fill(data: Path) -> None:
    """Put a migrated database into a data folder; outside of pytest, leave it to the migrations."""
    if SHARED_DATABASE in os.environ:
        copy_to(data / FILE)


def copy_to(path: Path) -> None:
    shutil.copyfile(_migrated(Path(os.environ[SHARED_DATABASE])), path)
    path.chmod(0o600)


def _migrated(folder: Path) -> Path:
    """Return the file; the first worker that needs it makes it."""
    path, new = folder / FILE, folder / "new"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            new.mkdir(exist_ok=True)
            environment = {
                "PATH": os.environ["PATH"],
                "CRONTY_DATA": str(new),
                "DJANGO_SETTINGS_MODULE": "cronty_site.settings",
            }
            command = [*python(), str(ROOT / "manage.py"), "migrate", "-v0"]
            subprocess.run(command, cwd=ROOT, env=environment, check=True)
            with closing(sqlite3.connect(new / FILE)) as database:
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            (new / FILE).rename(path)
    return path
