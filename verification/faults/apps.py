"""App that adds the campaign to the product: tasks, a migration, a clock that can be shifted, and names of hosts."""

import mmap
import os
import socket
import struct
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from django.apps import AppConfig
from django.utils import timezone

from schedules import clock
from schedules.tasks.outbound import requests

_OFFSET = struct.Struct("d")
SHIFT_FILE = "CRONTY_FAULTS_CLOCK"
HOST = "CRONTY_FAULTS_HOST"


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


class FaultsConfig(AppConfig):
    name = "verification.faults"
    label = "faults"

    def ready(self) -> None:
        if path := os.environ.get(SHIFT_FILE):
            clock.now = ShiftedClock(path, clock.now).now  # type: ignore[assignment]
        if host := os.environ.get(HOST):
            # All parts run on one machine. The sink reads the name from each delivery.
            socket.gethostname = lambda: host
            requests.USER_AGENT = host
