"""Reading an operator's file safely, and keeping a copy of its last good content across restarts."""

import json
import logging
import os
import stat
import time
from contextlib import suppress
from pathlib import Path

from django.conf import settings

from schedules.secrets.private_files import foreign_link
from schedules.tasks.operator_files.tables import LONGEST_FILE, TOO_LARGE, OperatorFileError

logger = logging.getLogger(__name__)

# A file that has not changed for this long is not being written.
SETTLED_SECONDS = 1.0

Signature = tuple[int, int, int] | None


def signature_of(path: Path) -> Signature:
    """Return a value that changes whenever the file does, or None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def has_settled(signature: Signature) -> bool:
    return signature is not None and time.time_ns() - signature[0] >= SETTLED_SECONDS * 1e9


def read_content(path: Path) -> str:
    """Return the text of a file that only its owner can change; raises OperatorFileError."""
    try:
        # O_NONBLOCK, because opening a named pipe would otherwise wait for a writer.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OperatorFileError("It is not a file.")
            if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or status.st_uid not in (0, os.getuid()):
                raise OperatorFileError(
                    "Others than the user who runs Cronty can change it. Make it yours: chmod go-w, chown."
                )
            if link := foreign_link(path):
                raise OperatorFileError(f"Another user made the link {link}, and can change where it leads.")
            content = file.read(LONGEST_FILE + 1)
        if len(content) > LONGEST_FILE:
            raise OperatorFileError(TOO_LARGE)
        return content.decode()
    except OSError as error:
        raise OperatorFileError(f"It cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise OperatorFileError("It is not UTF-8 text.") from error


def copy_of(path: Path, nouns: str) -> Path:
    """Return the path of the copy: in the data folder if there is one, else beside the file."""
    return Path(getattr(settings, "CRONTY_DATA", None) or path.parent) / f"{nouns}.last-good.toml"


def save_copy(path: Path, nouns: str, text: str) -> None:
    """Save the content of a good file, or log why that is not possible."""
    copy = copy_of(path, nouns)
    content = f"{_heading(path)}\n{text}".encode()
    try:
        with suppress(FileNotFoundError):
            if copy.read_bytes() == content:
                return
        _write(copy, content)
    except OSError as error:
        logger.warning(
            "%s cannot be written (%s): a broken %s would stop all %s after a restart",
            copy,
            error.strerror,
            path.name,
            nouns,
        )


def discard_copy(path: Path, nouns: str) -> None:
    """Delete the copy of a file that the operator has deleted, so that its entries do not come back."""
    with suppress(OSError):
        copy = copy_of(path, nouns)
        if copy.read_text(errors="replace").startswith(_heading(path) + "\n"):
            copy.unlink()


def read_copy(path: Path, nouns: str) -> str | None:
    """Return the last good content of a file, or None."""
    try:
        heading, _, text = read_content(copy_of(path, nouns)).partition("\n")
    except OperatorFileError:
        return None
    # A copy of a file at another path says nothing about this one.
    return text if heading == _heading(path) else None


def _heading(path: Path) -> str:
    return (
        f"# The last good content of {json.dumps(str(path))}, kept by Cronty: change that file, not this one."
    )


def _write(copy: Path, content: bytes) -> None:
    """Replace the copy atomically; only the owner of its folder can read it."""
    new = copy.with_name(f".{copy.name}.{os.getpid()}")
    try:
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if os.geteuid() == 0:
                # If root runs a command once, the owner of the data must still be able to read the copy.
                folder = copy.parent.stat()
                os.fchown(file.fileno(), folder.st_uid, folder.st_gid)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, copy)
    finally:
        with suppress(OSError):
            new.unlink()
