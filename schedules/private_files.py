"""Files that only the user who runs Cronty may read: the data folder, the database, backups, logs and the secret key."""

import logging
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from django.conf import settings

logger = logging.getLogger(__name__)

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def restrict_to_owner() -> None:
    """Take the rights of other users away from files that are ours, and log it; older versions left them readable."""
    for path in open_to_others():
        if _restrict(path):
            logger.warning("Other users of this machine had rights on %s: they are taken away", path)
        else:
            logger.warning("Other users of this machine have rights on %s, which is not ours to change", path)


def open_to_others() -> list[Path]:
    """Return the private files and folders that other users of this machine have rights on."""
    return [path for path in _private_paths() if _mode_of(path) & OTHERS]


def _private_paths() -> Iterator[Path]:
    # Nobody else can reach what is in a folder of a private folder.
    if folder := getattr(settings, "CRONTY_DATA", None):
        yield Path(folder)
        yield from (path for path in sorted(Path(folder).iterdir()) if path.is_file())
        yield settings.BASE_DIR / ".env"
    database = settings.DATABASES["default"]
    file = Path(str(database.get("NAME", ""))).resolve()
    if database["ENGINE"] == "django.db.backends.sqlite3" and file.parent != folder and file.is_file():
        # With its write-ahead log, and the databases that `restore` replaced.
        yield from sorted(file.parent.glob(f"{file.name}*"))


def _mode_of(path: Path) -> int:
    """Return the permissions of a file; none for a link or a file that has just been deleted."""
    with suppress(OSError):
        found = path.lstat()
        return 0 if stat.S_ISLNK(found.st_mode) else stat.S_IMODE(found.st_mode)
    return 0


def _restrict(path: Path) -> bool:
    with suppress(OSError):
        found = path.lstat()
        # A folder like /tmp is shared on purpose.
        if found.st_uid == os.getuid() and not found.st_mode & stat.S_ISVTX:
            path.chmod(stat.S_IMODE(found.st_mode) & ~OTHERS)
            return True
    return False
