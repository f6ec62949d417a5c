"""A watched operator's file: read it again when it changes, and use its last good content while it is broken."""

import logging
import time
from pathlib import Path
from typing import Generic, TypeVar

from django.conf import settings

from schedules.tasks.operator_files.content import (
    Signature,
    discard_copy,
    has_settled,
    read_content,
    read_copy,
    save_copy,
    signature_of,
)
from schedules.tasks.operator_files.tables import OperatorFileError

logger = logging.getLogger(__name__)

# How long a process uses what it has read before it checks the file again.
POLL_SECONDS = 1.0

Entry = TypeVar("Entry")


class WatchedFile(Generic[Entry]):
    """The entries of one file; while the file is broken, those of its last good content."""

    setting: str
    """The name of the setting that contains its path; if the setting is empty, there is no file."""
    noun: str
    """What the file defines, in the singular."""

    def __init__(self) -> None:
        self._content = self.read("")
        self._path = Path()
        self._polled_at = float("-inf")
        self._seen: Signature = None
        """The signature at the last poll."""
        self._read: Signature = None
        """The signature of the content that was read last."""
        self._unsaved: str | None = None
        """Good content that has not been copied yet."""
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
        self._refresh()
        if name not in self._content:
            self._read_unless_partial()
        return self._content.get(name)

    def all(self) -> list[Entry]:
        return list(self.content().values())

    def refresh(self) -> None:
        """Read the file now if it has changed."""
        self._polled_at = float("-inf")
        self._seen = signature_of(self._path)
        self._refresh()

    @property
    def _nouns(self) -> str:
        return f"{self.noun}s"

    def _configured_path(self) -> str:
        return str(getattr(settings, self.setting))

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._polled_at < POLL_SECONDS:
            return
        is_first = self._polled_at == float("-inf")
        self._polled_at = now
        configured = self._configured_path()
        if not configured:
            self._content = self.read("")
            self.problem = ""
            return
        path = Path(configured)
        if path != self._path:
            self._path, self._seen, self._read, is_first = path, None, None, True
            self._is_good = False
        signature = signature_of(path)
        # Somebody may still be writing it: read it once it is the same at two polls, or old enough. An idle worker polls
        # only for its next run, which must not miss a change that was made long before.
        is_settled = signature == self._seen or has_settled(signature)
        self._seen = signature
        if signature is None and is_first:
            discard_copy(path, self._nouns)
        if (is_settled or is_first) and signature != self._read:
            self._load(path, signature)
        if is_settled and signature == self._read and self._unsaved is not None:
            save_copy(path, self._nouns, self._unsaved)
            self._unsaved = None

    def _read_unless_partial(self) -> None:
        """Read a file that has just changed, because a new entry is wanted; ignore it if it is incomplete."""
        signature = signature_of(self._path) if self._configured_path() else None
        if signature is not None and signature != self._read:
            self._load(self._path, signature, may_be_partial=True)

    def _load(self, path: Path, signature: Signature, *, may_be_partial: bool = False) -> None:
        try:
            text = read_content(path) if signature else ""
            if signature_of(path) != signature:
                # It changed while it was read: the next polls read it again.
                return
            content = self.read(text)
        except OperatorFileError as error:
            if may_be_partial:
                return
            if self._is_good and self._unsaved is not None:
                # It is in force here, so other processes and later ones need it, too.
                save_copy(path, self._nouns, self._unsaved)
            self._read, self._unsaved = signature, None
            if not self._is_good:
                self._use_copy(path)
            self._report(path, error)
            return
        self._content = content
        self._read, self._is_good = signature, signature is not None
        self._unsaved = text if signature else None
        if not signature:
            discard_copy(path, self._nouns)
        if self.problem:
            logger.info("%s can be used again", path.name)
        self.problem = ""

    def _use_copy(self, path: Path) -> None:
        """Use the last good content from before this process started, if there is a copy."""
        text = read_copy(path, self._nouns)
        try:
            self._content = self.read(text or "")
            self._is_good = text is not None
        except OperatorFileError as error:
            self._content = self.read("")
            logger.warning("The last good content of %s cannot be used any more: %s", path.name, error)

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
