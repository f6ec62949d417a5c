"""A file of the operator that is in force: read again when it changes, with its last good content kept."""

import logging
import time
from pathlib import Path
from typing import Generic, TypeVar

from django.conf import settings

from schedules.tasks.operator_files.content import (
    Signature,
    discard_copy,
    has_settled,
    keep_copy,
    read_content,
    read_copy,
    signature_of,
)
from schedules.tasks.operator_files.tables import OperatorFileError

logger = logging.getLogger(__name__)

# How many seconds a process uses what it has read before it looks at the file again.
LOOK_EVERY = 1.0

Entry = TypeVar("Entry")


class WatchedFile(Generic[Entry]):
    """One file. While it is broken, nothing changes: the last good content stays in force."""

    setting: str
    """The name of the setting with its path; without a path, there is no file."""
    noun: str
    """What the file defines, in the singular."""

    def __init__(self) -> None:
        self._content = self.read("")
        self._path = Path()
        self._looked_at = float("-inf")
        self._seen: Signature = None
        self._read: Signature = None
        self._unkept: str | None = None
        self._is_good = False
        self.problem = ""
        """Why the file as it is now cannot be used, or an empty text."""
        self._place = ""

    def read(self, text: str) -> dict[str, Entry]:
        """Return what a text defines, by name, nothing if it is empty; raises OperatorFileError."""
        raise NotImplementedError

    @property
    def short_problem(self) -> str:
        """The problem for everybody: the name of the file and the line, without the names of programs."""
        if not self.problem:
            return ""
        effect = "the last good one stays in force" if self._is_good else f"no {self.noun} can run"
        return f"{self._place} cannot be used, so {effect}."

    @property
    def is_usable(self) -> bool:
        """Whether what the file defines, or its last good content, can run."""
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
        """Read the file now, if it has changed."""
        self._looked_at = float("-inf")
        self._seen = signature_of(self._path)
        self._refresh()

    @property
    def _nouns(self) -> str:
        return f"{self.noun}s"

    def _named(self) -> str:
        return str(getattr(settings, self.setting))

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._looked_at < LOOK_EVERY:
            return
        is_first = self._looked_at == float("-inf")
        self._looked_at = now
        named = self._named()
        if not named:
            self._content = self.read("")
            self.problem = ""
            return
        path = Path(named)
        if path != self._path:
            self._path, self._seen, self._read, is_first = path, None, None, True
            self._is_good = False
        signature = signature_of(path)
        # Somebody may be writing it: wait until it has been the same for two looks, unless it is older than that. The
        # next look of an idle worker is for its next run, which would not know what is new.
        is_settled = signature == self._seen or has_settled(signature)
        self._seen = signature
        if signature is None and is_first:
            discard_copy(path, self._nouns)
        if (is_settled or is_first) and signature != self._read:
            self._load(path, signature)
        if is_settled and signature == self._read and self._unkept is not None:
            keep_copy(path, self._nouns, self._unkept)
            self._unkept = None

    def _read_unless_partial(self) -> None:
        """Read a file that has just changed, for a run of something new; a file that is not whole can wait."""
        signature = signature_of(self._path) if self._named() else None
        if signature is not None and signature != self._read:
            self._load(self._path, signature, may_be_partial=True)

    def _load(self, path: Path, signature: Signature, *, may_be_partial: bool = False) -> None:
        try:
            text = read_content(path) if signature else ""
            if signature_of(path) != signature:
                # Changed while it was read: the next looks read it again.
                return
            content = self.read(text)
        except OperatorFileError as error:
            if may_be_partial:
                return
            self._read, self._unkept = signature, None
            if not self._is_good:
                self._use_copy(path)
            self._report(path, error)
            return
        self._content = content
        self._read, self._is_good = signature, signature is not None
        self._unkept = text if signature else None
        if not signature:
            discard_copy(path, self._nouns)
        if self.problem:
            logger.info("%s can be used again", path.name)
        self.problem = ""

    def _use_copy(self, path: Path) -> None:
        """Put the content into force that was good before this process started, if there is one."""
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
