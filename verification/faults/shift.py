"""A clock that every process of the product reads, and that the campaign can shift."""

import mmap
import struct
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from django.utils import timezone

_OFFSET = struct.Struct("d")


class ShiftedClock:
    """The product's clock plus an offset from a shared file, so that all hosts agree on a time that is wrong."""

    def __init__(self, path: str | Path, base: Callable[[], datetime] = timezone.now) -> None:
        self._base = base
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
        return self._base() + timedelta(seconds=self.offset)
