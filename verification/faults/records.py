"""Records of a campaign: operations, ledger rows, deliveries and faults. Moments are Unix seconds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

Outcome: TypeAlias = Literal["acknowledged", "refused", "unknown"]


@dataclass(frozen=True, slots=True)
class When:
    """The schedule that the campaign requested; `at` is the moment, or the step in seconds or minutes."""

    kind: Literal["once", "interval", "cron"]
    at: int

    def slots(self, grid: int, after: float, before: float) -> list[int]:
        """Every slot (cut to seconds) later than `after` and earlier than `before`; `grid` is one of them."""
        if self.kind == "once":
            return [self.at] if after < self.at < before else []
        step, origin = (self.at, grid) if self.kind == "interval" else (60 * self.at, 0)
        first = origin + step * (math.floor((after - origin) / step) + 1)
        return [slot for slot in range(first, int(before) + 1, step) if after < slot < before]

    def has(self, slot: int, grid: int) -> bool:
        return slot in self.slots(grid, slot - 1, slot + 1)


@dataclass(frozen=True, slots=True)
class Policy:
    """The policies that the campaign requested; None means the product's default."""

    overlap: Literal["skip", "queue", "allow"] = "skip"
    catch_up: Literal["once", "all", "none"] = "once"
    attempts: int | None = None
    max_runs: int | None = None
    ends_at: int | None = None
    at_most_once: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """One request of the driver, by the clock of the harness."""

    verb: Literal["create", "edit", "pause", "resume", "cancel", "delete", "restore", "run"]
    tag: str
    sent_at: float
    answered_at: float
    outcome: Outcome
    job_id: str = ""
    when: When | None = None
    grid: int | None = None
    policy: Policy | None = None
    execution: int | None = None
    words: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the ledger, by the product's clock.

    `first_started_at` is that of the first attempt, and `host` that of the last one.
    """

    id: int
    job_id: str
    scheduled_for: float
    status: str
    cause: str = "schedule"
    attempt: int = 0
    first_started_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    last_slot: float | None = None
    slots: int = 1
    task: str = "webhook"
    reason: str = ""
    error: str = ""
    host: str = ""

    @property
    def slot(self) -> int:
        return int(self.scheduled_for)

    @property
    def until(self) -> int:
        return int(self.last_slot or self.scheduled_for)

    @property
    def ended_at(self) -> float:
        """Return the latest moment of the row: after a clock was set back, its end may lie before its start."""
        return max(self.scheduled_for, self.started_at or 0.0, self.finished_at or 0.0)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One request as the sink received it, by its own clock; `held` is how long it kept the caller waiting."""

    at: float
    execution: int
    key: str
    attempt: int
    verdict: Literal["accepted", "repeated", "refused"]
    held: float = 0.0
    host: str = ""

    @property
    def job_id(self) -> str:
        return self.key.partition("@")[0]

    @property
    def is_manual(self) -> bool:
        return self.key.endswith("-manual")


@dataclass(frozen=True, slots=True)
class JobSummary:
    """What a job's own columns say about its runs."""

    job_id: str
    slot_count: int
    recent: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, how long it lasted, and when the product had recovered.

    `struck_at` is when it hit the product. `job_id` is the only job that it concerns, and `host` the only host.
    `problem` is what the injector itself saw go wrong.
    """

    kind: str
    began_at: float
    ended_at: float
    healed_at: float | None
    note: str = ""
    struck_at: float | None = None
    job_id: str = ""
    host: str = ""
    problem: str = ""

    @property
    def healing(self) -> float | None:
        return None if self.healed_at is None else self.healed_at - self.ended_at


@dataclass(frozen=True, slots=True)
class Aftermath:
    """The state of the product at the end of the campaign, and what is left after it was stopped."""

    fresh_clusters: int = 2
    expected_clusters: int = 2
    live_runs: int = 0
    overdue_jobs: int = 0
    held_after_stop: int = 0
    orphans: Sequence[str] = ()
    complaints: Sequence[str] = ()
    connections: int = 0
    most_connections: int = 40


@dataclass(frozen=True, slots=True)
class History:
    """All records of a campaign. `shifts` are (moment, offset) of the product's clock from then on.

    `stalls` are (moment, seconds) in which a core of the machine stood still: for the reader, not for the checker.
    """

    operations: Sequence[Operation] = ()
    rows: Sequence[Row] = ()
    jobs: Sequence[JobSummary] = ()
    deliveries: Sequence[Delivery] = ()
    faults: Sequence[Fault] = ()
    shifts: Sequence[tuple[float, float]] = ()
    stalls: Sequence[tuple[float, float]] = ()
    aftermath: Aftermath = field(default_factory=Aftermath)
    # What the wings said that was not so, or did not say.
    wings: Sequence[str] = ()
    ended_at: float = 0.0

    def with_(self, **changes: object) -> "History":
        return replace(self, **changes)  # type: ignore[arg-type]
