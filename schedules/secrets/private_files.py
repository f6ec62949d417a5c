"""Private files: find and close access that other users have to the data folder, database, secret key and settings."""

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
# Files that control what Cronty does.
CONTROL_FILES = ("commands.toml", ".env")
# The database, SQLite's files beside it, the startup lock, and the copy that `restore` prepares.
DATABASE_SUFFIXES = ("", "-wal", "-shm", "-journal", ".lock", ".restoring")


def restrict_to_owner() -> None:
    """Remove other users' access to our files, and log it; older versions left them readable."""
    for path in open_to_others():
        if path.name in CONTROL_FILES and _mode_of(path) & OTHERS_WRITE:
            # Somebody else may have changed it, which nobody would suspect once it is private: only warn.
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
    """Return the private files and folders that other users of this machine can access."""
    return [path for path in _private_paths() if _mode_of(path) & OTHERS]


def foreign_link(path: Path) -> Path | None:
    """Return the first symbolic link in a path that belongs neither to this user nor to root, or None."""
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
    """Yield the paths of the files that Cronty itself creates or reads."""
    if folder:
        yield from (
            Path(folder) / name for name in ("secret_key", "commands.toml", "commands.last-good.toml", ".env")
        )
        yield settings.BASE_DIR / ".env"
    database = settings.DATABASES["default"]
    file = Path(str(database.get("NAME", ""))).resolve()
    if database["ENGINE"] == "django.db.backends.sqlite3" and _is_sqlite(file):
        yield from (file.with_name(f"{file.name}{suffix}") for suffix in DATABASE_SUFFIXES)
        # Databases that `restore` replaced.
        yield from sorted(file.parent.glob(f"{escape(file.name)}.before-*"))


def _is_sqlite(file: Path) -> bool:
    """Return whether a file is an SQLite database; an empty file is one, until its first table exists.

    Ask SQLite instead of reading the file: closing it would release every lock that this process holds on it, including
    those of open sessions, and the next process to leave the database would delete the log that they still write to.
    """
    try:
        if not file.is_file():
            return False
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            database.execute("PRAGMA schema_version").fetchone()
    except OSError:
        return False
    except sqlite3.Error as error:
        # Any other error, such as a page that exists only in the log, comes from a database.
        return error.sqlite_errorcode != sqlite3.SQLITE_NOTADB
    return True


def _mode_of(path: Path) -> int:
    """Return the permission bits of a file; 0 for a link, or a file that has just been deleted."""
    with suppress(OSError):
        status = path.lstat()
        return 0 if stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode)
    return 0


def _restrict(path: Path) -> bool:
    with suppress(OSError):
        status = path.lstat()
        # A folder with the sticky bit, like /tmp, is shared on purpose.
        if status.st_uid == os.getuid() and not status.st_mode & stat.S_ISVTX:
            path.chmod(stat.S_IMODE(status.st_mode) & ~OTHERS)
            return True
    return False
