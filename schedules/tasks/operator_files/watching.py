"""A watched operator's file: read it again when it changes, and keep its last good content, also across restarts."""

import json
import logging
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from django.conf import settings

from schedules.secrets.private_files import foreign_link
from schedules.tasks.operator_files.tables import LONGEST_FILE, TOO_LARGE, OperatorFileError

logger = logging.getLogger(__name__)

# How long a process uses what it has read before it checks the file again.
POLL_SECONDS = 1.0
# A file that has not changed for this long is not being written.
SETTLED_SECONDS = 1.0

Entry = TypeVar("Entry")
Signature = tuple[int, int, int] | None


class WatchedFile(Generic[Entry]):
    """The entries of one file; while the file is broken, those of its last good content."""

    setting: str
    """The name of the setting that contains its path; if the setting is empty, there is no file."""
    noun: str
    """What the file defines, in the singular."""

    def __init__(self) -> None:
        self._content = self.read("")
        self._path: Path | None = None
        self._polled_at = float("-inf")
        self._seen: Signature = None
        """The signature at the last poll."""
        self._read: Signature = None
        """The signature of the content that was read last."""
        self._is_good = False
        self.problem = ""
        """Why the file as it is now cannot be used, or an empty text."""
        self._place = ""

    def read(self, text: str) -> dict[str, Entry]:
        """Return the entries that a text defines, by name; raises OperatorFileError. An empty text defines none."""
        raise NotImplementedError

    @property
    def short_problem(self) -> str:
        """The problem in a form that everybody may read: the file's name and the line, but nothing of its content."""
        if not self.problem:
            return ""
        effect = "the last good one stays in force" if self._is_good else f"no {self.noun} can run"
        return f"{self._place} cannot be used, so {effect}."

    @property
    def is_usable(self) -> bool:
        """Whether the file, or its last good content, can be used."""
        self._refresh()
        return not self.problem or self._is_good

    def current_problem(self) -> str:
        self._refresh()
        return self.problem

    def content(self) -> dict[str, Entry]:
        self._refresh()
        return self._content

    def get(self, name: str) -> Entry | None:
        entry = self.content().get(name)
        if (
            entry is None
            and self._path
            and (signature := _signature_of(self._path)) not in (None, self._read)
        ):
            # A new entry is wanted from a file that has just changed.
            self._load(self._path, signature, may_be_partial=True)
            entry = self._content.get(name)
        return entry

    def all(self) -> list[Entry]:
        return list(self.content().values())

    def refresh(self) -> None:
        """Read the file now if it has changed."""
        self._polled_at = float("-inf")
        self._seen = _signature_of(self._path) if self._path else None
        self._refresh()

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._polled_at < POLL_SECONDS:
            return
        self._polled_at = now
        configured = str(getattr(settings, self.setting))
        if not configured:
            self._path, self._content, self.problem = None, self.read(""), ""
            return
        path = Path(configured)
        signature = _signature_of(path)
        if path != self._path:
            self._path, self._is_good = path, False
            self._load(path, signature)
        # Somebody may still be writing it: read it once it is the same at two polls, or old enough. An idle worker polls
        # only for its next run, which must not miss a change that was made long before.
        elif signature != self._read and (signature == self._seen or _has_settled(signature)):
            self._load(path, signature)
        self._seen = signature

    def _load(self, path: Path, signature: Signature, *, may_be_partial: bool = False) -> None:
        try:
            text = _read(path) if signature else ""
            if _signature_of(path) != signature:
                # It changed while it was read: the next polls read it again.
                return
            content = self.read(text)
        except OperatorFileError as error:
            if not may_be_partial:
                self._read = signature
                if not self._is_good:
                    self._use_copy(path)
                self._report(path, error)
            return
        self._content, self._read, self._is_good = content, signature, signature is not None
        if signature:
            self._save_copy(path, text)
        else:
            self._discard_copy(path)
        if self.problem:
            logger.info("%s can be used again", path.name)
        self.problem = ""

    def _report(self, path: Path, error: OperatorFileError) -> None:
        effect = (
            "the last good one stays in force"
            if self._is_good
            else f"there is no good copy of it, so no {self.noun} can run"
        )
        problem = f"The file {path} cannot be used, and {effect}: {error}"
        if problem != self.problem:
            logger.error("%s", problem)
        self.problem = problem
        self._place = f"The file {path.name}" + (f", line {error.line}," if error.line else "")

    def _copy_of(self, path: Path) -> Path:
        """Return the path of the copy: in the data folder if there is one, else beside the file."""
        return Path(getattr(settings, "CRONTY_DATA", None) or path.parent) / f"{self.noun}s.last-good.toml"

    def _use_copy(self, path: Path) -> None:
        """Use the last good content from before this process started, if there is a copy of this very file."""
        self._content = self.read("")
        with suppress(OperatorFileError):
            heading, _, text = _read(self._copy_of(path)).partition("\n")
            if heading == _heading(path):
                self._content = self.read(text)
                self._is_good = True

    def _save_copy(self, path: Path, text: str) -> None:
        """Save the content of a good file, or log why that is not possible."""
        copy, content = self._copy_of(path), f"{_heading(path)}\n{text}".encode()
        try:
            if not copy.is_file() or copy.read_bytes() != content:
                _write(copy, content)
        except OSError as error:
            logger.warning(
                "%s cannot be written (%s): a broken %s would stop all %ss after a restart",
                copy,
                error.strerror,
                path.name,
                self.noun,
            )

    def _discard_copy(self, path: Path) -> None:
        """Delete the copy of a file that the operator has deleted, so that its entries do not come back."""
        copy = self._copy_of(path)
        with suppress(OSError):
            if copy.read_text(errors="replace").startswith(_heading(path) + "\n"):
                copy.unlink()


def _signature_of(path: Path) -> Signature:
    """Return a value that changes whenever the file does, or None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _has_settled(signature: Signature) -> bool:
    return signature is not None and time.time_ns() - signature[0] >= SETTLED_SECONDS * 1e9


def _read(path: Path) -> str:
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
