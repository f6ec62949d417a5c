"""A clock that every process of the product reads, and that the campaign can shift."""

import mmap
import struct
from datetime import datetime, timedelta
from pathlib import Path

from django.utils import timezone

_OFFSET = struct.Struct("d")


class ShiftedClock:
    """The system time plus an offset from a shared file."""

    def __init__(self, path: str | Path) -> None:
        with Path(path).open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _OFFSET.size)

    @classmethod
    def create(cls, path: Path) -> "ShiftedClock":
        path.write_bytes(_OFFSET.pack(0.0))
        return cls(path)

    @property
    def offset(self) -> float:
        return float(_OFFSET.unpack_from(self._memory)[0])

    @offset.setter
    def offset(self, seconds: float) -> None:
        _OFFSET.pack_into(self._memory, 0, seconds)

    def now(self) -> datetime:
        return timezone.now() + timedelta(seconds=self.offset)
