"""Detection of a SQLite database file that was replaced while Cronty runs.

Two files under one name that share a log corrupt each other. This module only looks up file names: opening the database
and closing it again would release the locks that this process's sessions have on it.
"""

import logging
import os
import sqlite3
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from django.db import OperationalError, connections

logger = logging.getLogger(__name__)

REPLACED = (
    "The database file was replaced or removed while Cronty was running. Nothing is written any more:"
    " stop Cronty, put the right file in its place, and start it again"
)
# The suffix of a file beside the database that makes the next start examine the database.
MARK = ".replaced"


class ReplacedError(OperationalError):
    """Another file has replaced the database."""


class DamagedError(Exception):
    """The file that replaced the database cannot be used; the text says what to do."""


class _Watch:
    """One file and its log, as this process first saw them; a forked process inherits what its parent saw."""

    def __init__(self, path: Path) -> None:
        self._path, self._log = path, path.with_name(f"{path.name}-wal")
        self._identity = _identity(path)
        self._log_identity = _identity(self._log)
        self._is_replaced = False

    def is_replaced(self) -> bool:
        if self._is_replaced:
            return True
        if _identity(self._path) == self._identity:
            # SQLite creates a new log now and then.
            self._log_identity = _identity(self._log)
            return False
        self._is_replaced = True
        logger.critical("%s: %s", REPLACED, self._path)
        with suppress(OSError):
            _mark_of(self._path).write_text(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC\n")
            self._keep_log()
        return True

    def _keep_log(self) -> None:
        """Move the log of the old file out of the way, or SQLite would apply it to the new one."""
        if self._log_identity and _identity(self._log) == self._log_identity and self._path.exists():
            copy = self._log.with_name(f"{self._log.name}{MARK}-{datetime.now(UTC):%Y%m%dT%H%M%S}")
            os.rename(self._log, copy)
            # The -shm file is only an index of the log.
            self._log.with_name(f"{self._path.name}-shm").unlink(missing_ok=True)
            logger.critical("The last changes of the file that was replaced are kept in %s", copy)


_watches: dict[Path, _Watch] = {}


def is_replaced() -> bool:
    """Return whether another file has replaced the SQLite database since this process first checked."""
    path = _path()
    if path is None:
        return False
    if path not in _watches:
        if not path.exists():
            return False
        _watches[path] = _Watch(path)
    return _watches[path].is_replaced()


def refuse_replaced() -> None:
    """Raise ReplacedError if another file has replaced the SQLite database."""
    if is_replaced():
        raise ReplacedError(REPLACED)


def replaced_at() -> str:
    """Return when a process found a replaced database that was not examined since, or an empty text."""
    path = _path()
    with suppress(OSError):
        return _mark_of(path).read_text().strip() if path else ""
    return ""


def examine_replaced() -> None:
    """Before a start, check a database that was replaced while Cronty ran; raise DamagedError if it is damaged."""
    path, moment = _path(), replaced_at()
    if path is None or not moment:
        return
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            verdict = str(database.execute("PRAGMA integrity_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        verdict = str(error)
    if verdict != "ok":
        raise DamagedError(
            f"{path} was replaced while Cronty was running ({moment}), and is damaged ({' '.join(verdict.split())})."
            f" Move it away, with {path.name}-wal and {path.name}-shm, and restore a backup."
        )
    _mark_of(path).unlink(missing_ok=True)
    logger.warning("%s was replaced while Cronty was running (%s); it is intact", path, moment)


def forget() -> None:
    """Accept the file that is now in place as the right one."""
    _watches.clear()
    if path := _path():
        _mark_of(path).unlink(missing_ok=True)


def _path() -> Path | None:
    database = connections["default"]
    path = Path(str(database.settings_dict["NAME"]))
    return path if database.vendor == "sqlite" and path.is_absolute() else None


def _mark_of(path: Path) -> Path:
    return path.with_name(f"{path.name}{MARK}")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
