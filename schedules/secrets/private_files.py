"""Files that only the user who runs Cronty may read: the data folder, the database, the secret key and settings."""

import logging
import os
import shlex
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, suppress
from glob import escape
from pathlib import Path

from django.conf import settings

logger = logging.getLogger(__name__)

OTHERS = stat.S_IRWXG | stat.S_IRWXO
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
# Files that say what Cronty does.
OBEYED = ("commands.toml", ".env")
# The database, what SQLite keeps beside it, the lock of a start, and the copy that `restore` prepares.
DATABASE_SUFFIXES = ("", "-wal", "-shm", "-journal", ".lock", ".restoring")


def restrict_to_owner() -> None:
    """Take the rights of other users away from files that are ours, and log it; older versions left them readable."""
    for path in open_to_others():
        if path.name in OBEYED and _mode_of(path) & OTHERS_WRITE:
            # Somebody else may have written it: without their rights, it would look like the operator's own.
            logger.warning(
                "Other users of this machine can change %s: read it, then chmod go= %s",
                path,
                shlex.quote(str(path)),
            )
        elif _restrict(path):
            logger.warning("Other users of this machine had rights on %s: they are taken away", path)
        else:
            logger.warning("Other users of this machine have rights on %s, which is not ours to change", path)


def open_to_others() -> list[Path]:
    """Return the private files and folders that other users of this machine have rights on."""
    return [path for path in _private_paths() if _mode_of(path) & OTHERS]


def foreign_link(path: Path) -> Path | None:
    """Return the first link on the way to a file that neither this user nor root made, or None."""
    for step in (*reversed(path.parents), path):
        status = step.lstat()
        if stat.S_ISLNK(status.st_mode):
            if status.st_uid not in (0, os.getuid()):
                return step
            return foreign_link(step.parent / step.readlink() / path.relative_to(step))
    return None


def _private_paths() -> Iterator[Path]:
    folder = getattr(settings, "CRONTY_DATA", None)
    if folder and (Path(folder) / "secret_key").is_file():
        yield Path(folder)
    yield from filter(Path.is_file, _private_files(folder))


def _private_files(folder: Path | None) -> Iterator[Path]:
    """Yield the paths of files that Cronty creates or reads; any other file beside them is not ours."""
    if folder:
        yield from (
            Path(folder) / name for name in ("secret_key", "commands.toml", "commands.last-good.toml", ".env")
        )
        yield settings.BASE_DIR / ".env"
    database = settings.DATABASES["default"]
    file = Path(str(database.get("NAME", ""))).resolve()
    if database["ENGINE"] == "django.db.backends.sqlite3" and _is_sqlite(file):
        yield from (file.with_name(f"{file.name}{suffix}") for suffix in DATABASE_SUFFIXES)
        # The databases that `restore` replaced.
        yield from sorted(file.parent.glob(f"{escape(file.name)}.before-*"))


def _is_sqlite(file: Path) -> bool:
    """Return whether a file is an SQLite database, which is empty until its first table exists.

    SQLite has to look itself: closing a file releases every lock that this process holds on it, also those of its open
    sessions, and the next process that leaves the database would delete the log that they still write to.
    """
    try:
        if not file.is_file():
            return False
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            database.execute("PRAGMA schema_version").fetchone()
    except OSError:
        return False
    except sqlite3.Error as error:
        # Anything else, such as a page that is in the log only, is wrong with a database.
        return error.sqlite_errorcode != sqlite3.SQLITE_NOTADB
    return True


def _mode_of(path: Path) -> int:
    """Return the permissions of a file; none for a link or a file that has just been deleted."""
    with suppress(OSError):
        status = path.lstat()
        return 0 if stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode)
    return 0


def _restrict(path: Path) -> bool:
    with suppress(OSError):
        status = path.lstat()
        # A folder like /tmp is shared on purpose.
        if status.st_uid == os.getuid() and not status.st_mode & stat.S_ISVTX:
            path.chmod(stat.S_IMODE(status.st_mode) & ~OTHERS)
            return True
    return False
