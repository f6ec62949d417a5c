"""Periods of each job derived from the operations: when it was certainly armed, and when it certainly was not."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from verification.faults.records import History, Operation, Policy, Row, When

# Slots are truncated to seconds, and the two clocks are read one after the other.
MARGIN = 1.5
FAILURES_BEFORE_A_PAUSE = 10


@dataclass(frozen=True, slots=True)
class Period:
    """A period of the product's time in which the driver knows the state of a job."""

    after: float
    before: float
    is_armed: bool
    when: When | None = None
    grid: int | None = None
    ends_at: int | None = None
    # The first slot that the answer named, if earlier slots are not owed; else 0.
    told: int = 0

    def holds(self, slot: int) -> bool:
        return self.after + MARGIN < slot < self.before - MARGIN

    def slots(self) -> list[int]:
        if not self.is_armed or self.when is None or self.grid is None:
            return []
        # The answer named the first slot: none is before it, whatever the clock showed then.
        earliest = (self.grid if self.when.kind == "interval" else self.told) - 1
        latest = min(self.before - MARGIN, self.ends_at or float("inf"))
        return self.when.slots(self.grid, max(self.after + MARGIN, earliest), latest)

    def next_slots(self, after: int, count: int) -> list[int]:
        """Return the slots after this one, as far as they are certain."""
        return [slot for slot in self.slots() if slot > after][:count]

    def asks_for(self, slot: int) -> bool:
        """Return whether the schedule includes this slot; any slot may be right if the grid is unknown."""
        if not self.is_armed or (self.ends_at is not None and slot > self.ends_at):
            return False
        return self.when is None or self.grid is None or self.when.has(slot, self.grid)


def jobs_of(history: History) -> dict[str, list[Operation]]:
    """Return the operations by job id, in the order in which they were sent."""
    names = {op.tag: op.job_id for op in history.operations if op.verb == "create" and op.job_id}
    jobs: dict[str, list[Operation]] = defaultdict(list)
    for op in sorted(history.operations, key=lambda op: op.sent_at):
        if op.tag in names:
            jobs[names[op.tag]].append(op)
    return jobs


def policy_of(operations: Sequence[Operation], *, for_certain: bool = False) -> Policy:
    """Return the policy requested at creation; of several run limits the highest, which must never be exceeded.

    `for_certain` leaves out limits that may not have taken effect.
    """
    outcomes = ("acknowledged",) if for_certain else ("acknowledged", "unknown")
    asked = [op.policy for op in operations if op.policy and op.outcome in outcomes]
    if not asked:
        return Policy()
    limits = [policy.max_runs for policy in asked]
    return replace(asked[0], max_runs=None if None in limits else max(limit for limit in limits if limit))


def periods(history: History, operations: Sequence[Operation]) -> list[Period]:
    """Return the certain periods of one job; between an operation and its answer nothing is certain."""
    ends_at = policy_of(operations).ends_at
    return [replace(period, ends_at=ends_at) for period in _periods(history, operations)]


def _periods(history: History, operations: Sequence[Operation]) -> list[Period]:
    found: list[Period] = []
    current: Period | None = None
    when: When | None = None
    grid: int | None = None
    was_armed_when_deleted: bool | None = None
    for op in operations:
        if op.outcome == "refused" or op.verb == "run":
            continue
        low, high = span(history, op)
        if current:
            found.append(current)
        # Cut all known periods, not only the last: after the clock was set back, an operation comes before slots
        # that had already passed, and withdraws those recorded as missed.
        found = [
            replace(period, before=min(period.before, low))
            for period in found
            if period.after < min(period.before, low)
        ]
        is_known, was_armed = current is not None, current is not None and current.is_armed
        current = None
        if op.outcome == "unknown":
            continue
        # A new schedule has its own grid, known once an answer has named one of its slots.
        grid = op.grid if op.grid is not None or op.when else grid
        when = op.when or when
        if op.verb == "delete":
            was_armed_when_deleted = was_armed if is_known else None
        if op.verb in ("cancel", "delete"):
            current = Period(high, float("inf"), False)
        elif op.verb == "restore" and was_armed_when_deleted is not None:
            current = Period(high, float("inf"), was_armed_when_deleted, when, grid)
        elif op.verb == "create" or (is_known and op.verb == "resume"):
            current = Period(high, float("inf"), True, when, grid)
        elif is_known and op.verb == "pause":
            current = Period(high, float("inf"), False, when, grid)
        elif is_known and op.verb == "edit":
            current = Period(high, float("inf"), was_armed, when, grid)
        if current and _was_set_back(history, operations[0], op):
            current = replace(current, told=op.grid or 0)
    if current:
        found.append(replace(current, before=history.ended_at) if current.is_armed else current)
    return found


def _was_set_back(history: History, creation: Operation, op: Operation) -> bool:
    """Return whether the clock was ahead of what it shows during the operation at any time since the job was created.

    Then the job may have passed slots that are in the future again. Its answers still name the slot that follows.
    """
    now = offsets_between(history, op.sent_at - 1, op.answered_at + 1)
    return max(offsets_between(history, creation.sent_at - 1, op.answered_at + 1)) > max(now)


def span(history: History, op: Operation) -> tuple[float, float]:
    """Return the period, by the product's clock, in which the operation may have taken effect."""
    offsets = {0.0, *offsets_between(history, op.sent_at - 1, op.answered_at + 1)}
    return op.sent_at + min(offsets), op.answered_at + max(offsets)


def offsets_between(history: History, start: float, end: float) -> list[float]:
    """Return every offset of the product's clock between the two moments."""
    found, offset = [], 0.0
    for at, following in history.shifts:
        if at > end:
            break
        if at >= start:
            found.append(offset)
        offset = following
    return [*found, offset]


def last_allowed_run_at(rows: Sequence[Row], policy: Policy) -> float:
    """Return when the last run that the limit allows was due, including runs withdrawn after their claim.

    Ordered by claim: while the clock was ahead, later slots were claimed before earlier ones.
    """
    counted = sorted((row for row in rows if row.status not in ("skipped", "missed")), key=lambda row: row.id)
    if policy.max_runs is None or len(counted) < policy.max_runs:
        return float("inf")
    return counted[policy.max_runs - 1].scheduled_for


def paused_by_engine_at(rows: Sequence[Row]) -> float:
    """Return when the engine paused the job after too many failures in a row."""
    failures = 0
    for row in sorted(rows, key=lambda row: row.finished_at or 0.0):
        if row.status == "succeeded":
            failures = 0
        failures += row.status in ("failed", "lost")
        if failures >= FAILURES_BEFORE_A_PAUSE:
            return row.finished_at or 0.0
    return float("inf")
