"""Counters of finished runs for monitoring, which a process updates from the ledger at each reading.

Workers count nothing, so runs cost nothing extra. A reading continues at the last primary key, so its cost depends on
what happened since the last one, not on the size of the table.
"""

import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from schedules.models import Execution

BATCH = 10_000
MAX_BATCHES = 5
# How many unfinished rows are remembered for the next reading; beyond it, the oldest are dropped.
MAX_PENDING = 20_000
# How many seconds after taking its key a transaction may still commit.
COMMIT_DELAY = 10.0
BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

Row: TypeAlias = tuple[int, str, str, str, timedelta | None, Any]


class RunCounts(NamedTuple):
    """A snapshot of the counts at one reading."""

    runs: dict[tuple[str, str], int]
    late_runs: list[int]
    lateness: float


class RunCounters:
    """Finished runs by task and outcome, and how late they started."""

    def __init__(self) -> None:
        self.runs: Counter[tuple[str, str]] = Counter()
        self.late_runs = [0] * (len(BUCKETS) + 1)
        """Started runs by the first bucket that their lateness fits into; the last bucket has no limit."""
        self.lateness = 0.0
        self._lock = threading.Lock()
        # All rows up to this key were read; after it, rows may still be committed between those already read.
        self._floor: int | None = None
        self._read: set[int] = set()
        self._tops: deque[tuple[float, int]] = deque()
        self._pending: dict[int, None] = {}

    def update(self) -> RunCounts:
        """Count what finished since the last reading; the first reading only notes what is under way."""
        with self._lock:
            if self._floor is None:
                self._floor = Execution.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
                live = Execution.objects.live().order_by("job_id").values_list("pk", flat=True)[:BATCH]
                self._pending = dict.fromkeys(live)
            else:
                self._read_pending()
                self._read_new()
            return RunCounts(dict(self.runs), list(self.late_runs), self.lateness)

    def _read_pending(self) -> None:
        waiting = iter(list(self._pending))
        while keys := list(islice(waiting, BATCH)):
            gone = set(keys)
            for row in _rows(pk__in=keys):
                gone.discard(row[0])
                if row[-1] is not None:
                    self._count(row)
                    gone.add(row[0])
            for key in gone:
                del self._pending[key]

    def _read_new(self) -> None:
        assert self._floor is not None
        for _ in range(MAX_BATCHES):
            rows = list(islice(_rows(pk__gt=self._floor), BATCH))
            for row in rows:
                if row[0] not in self._read:
                    self._note(row)
            if len(rows) < BATCH:
                break
            # With this many rows, don't wait for late commits among them.
            self._floor = rows[-1][0]
            self._read.clear()
            self._tops.clear()
        self._raise_floor()

    def _note(self, row: Row) -> None:
        self._read.add(row[0])
        if row[-1] is not None:
            self._count(row)
            return
        self._pending[row[0]] = None
        if len(self._pending) > MAX_PENDING:
            del self._pending[next(iter(self._pending))]

    def _raise_floor(self) -> None:
        now = time.monotonic()
        if self._read:
            self._tops.append((now, max(self._read)))
        while self._tops and now - self._tops[0][0] >= COMMIT_DELAY:
            self._floor = floor = self._tops.popleft()[1]
            self._read = {key for key in self._read if key > floor}

    def _count(self, row: Row) -> None:
        _, task, status, cause, lateness, _ = row
        self.runs[task, status] += 1
        if lateness is not None and cause == Execution.Cause.SCHEDULE:
            seconds = max(lateness.total_seconds(), 0.0)
            self.late_runs[bisect_left(BUCKETS, seconds)] += 1
            self.lateness += seconds


def _rows(**filters: Any) -> Iterator[Row]:
    columns = ("pk", "task", "status", "cause", "lateness", "finished_at")
    rows: Iterable[Row] = Execution.objects.filter(**filters).order_by("pk").values_list(*columns)[:BATCH]
    return iter(rows)
