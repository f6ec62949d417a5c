"""The state that all processes of one cluster share.

The leader creates it before it forks the other processes and passes it to the broker and to every worker.
"""

import time
from dataclasses import dataclass, field
from datetime import datetime
from multiprocessing.sharedctypes import RawValue
from typing import Any

from schedules import clock
from schedules.worker.concurrency import Permits


class Clock:
    """The time that all hosts agree on, the monotonic clock, and sleep; tests replace it."""

    def now(self) -> datetime:
        return clock.now()

    def measure(self) -> None:
        clock.measure()

    def is_host_set(self) -> bool:
        return clock.database.is_host_set()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: TID251


def _shared_flag() -> Any:
    # Shared memory without a lock, because a killed process would hold a lock for ever.
    return RawValue("b", 0)


@dataclass(frozen=True)
class ClusterContext:
    """One cluster: its row, its permits for plain functions, its clock, and whether it is stopping."""

    cluster_id: int
    permits: Permits
    clock: Clock = field(default_factory=Clock)
    _stopping: Any = field(default_factory=_shared_flag, repr=False)

    @property
    def is_stopping(self) -> bool:
        return bool(self._stopping.value)

    def stop_claiming(self) -> None:
        """Make every process of the cluster stop claiming, because the leader was asked to stop."""
        self._stopping.value = 1

    def close(self) -> None:
        self.permits.close()
