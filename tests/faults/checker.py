"""Judges a history: each rule is a function of the records alone and returns what it finds wrong, in words."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise

from tests.faults.records import Fault, History, Row
from tests.faults.timelines import gave_up_at, jobs_of, offsets_between, periods

FINAL = {"succeeded", "failed", "skipped", "missed", "cancelled", "lost"}
NEVER_RAN = {"skipped", "missed", "cancelled"}
# A fault may be felt a little before the harness noted its beginning.
SLACK = 2.0
STOPPED = ("The job was", "The schedule was", "Its job is gone")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long things may take, in seconds. `pace` is how much slower than a quiet machine this one is.

    What the product waits for by design (leases, the watchdog) does not depend on the machine; starting processes
    does. So only `work` of each bound is multiplied by the pace.
    """

    pace: float = 1.0
    lateness: float = 1.0
    plain_lateness: float = 3.0
    work: float = 5.0
    healing: Mapping[str, float] = field(
        default_factory=lambda: {"kill": 15.0, "freeze": 25.0, "database": 30.0, "disk": 30.0}
    )
    other_healing: float = 25.0

    def heals_within(self, kind: str) -> float:
        bar = self.healing.get(kind.partition("-")[0], self.other_healing)
        return bar + self.work * (self.pace - 1)

    def late(self, row: Row) -> float:
        return (self.plain_lateness if row.task == "faults.deliver" else self.lateness) * self.pace


@dataclass(frozen=True, slots=True)
class Violation:
    rule: str
    words: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.words}"


Rule = Callable[[History, Bounds], Iterator[str]]


def check(history: History, bounds: Bounds | None = None) -> list[Violation]:
    """Apply every rule."""
    limits = bounds or Bounds()
    return [Violation(name, words) for name, rule in RULES.items() for words in rule(history, limits)]


def owed_slots_have_one_row(history: History, bounds: Bounds) -> Iterator[str]:
    by_job = _by_job(history.rows)
    for job_id, operations in jobs_of(history).items():
        rows = [row for row in by_job[job_id] if row.cause != "manual"]
        over_at = gave_up_at(rows)
        for period in periods(history, operations):
            for slot in period.slots():
                if slot < over_at and not any(row.slot <= slot <= row.until for row in rows):
                    yield f"{job_id} was owed {_moment(slot)}, and there is no row of it"


def no_slot_has_two_rows(history: History, bounds: Bounds) -> Iterator[str]:
    for job_id, mine in _by_job(history.rows).items():
        rows = sorted((row for row in mine if row.cause != "manual"), key=lambda row: row.scheduled_for)
        for one, other in pairwise(rows):
            if _accounts_for(one, other.scheduled_for):
                yield f"{job_id} has rows {one.id} and {other.id} for {_moment(other.scheduled_for)}"


def every_row_is_final(history: History, bounds: Bounds) -> Iterator[str]:
    for row in history.rows:
        if row.status not in FINAL:
            yield f"{_name(row)} is still {row.status}"


def succeeded_was_accepted(history: History, bounds: Bounds) -> Iterator[str]:
    accepted = {delivery.execution for delivery in history.deliveries if delivery.verdict != "refused"}
    for row in history.rows:
        if row.status == "succeeded" and row.task in ("webhook", "faults.deliver") and row.id not in accepted:
            yield f"{_name(row)} succeeded, but the sink accepted nothing"


def accepted_at_most_once(history: History, bounds: Bounds) -> Iterator[str]:
    accepted = Counter(
        delivery.execution for delivery in history.deliveries if delivery.verdict == "accepted"
    )
    for execution, count in accepted.items():
        if count > 1:
            yield f"execution {execution} was accepted {count} times"
    for name, pairs in (
        ("execution", {(delivery.execution, delivery.key) for delivery in history.deliveries}),
        ("key", {(delivery.key, delivery.execution) for delivery in history.deliveries}),
    ):
        for value, count in Counter(value for value, _ in pairs).items():
            if count > 1:
                yield f"{name} {value} goes with {count} different partners"


def repeats_have_a_reason(history: History, bounds: Bounds) -> Iterator[str]:
    """Whoever receives more than once must blame a fault; in all, not more often than there were faults."""
    repeats = [delivery for delivery in history.deliveries if delivery.verdict == "repeated"]
    first = {d.execution: d.at for d in history.deliveries if d.verdict == "accepted"}
    for execution, count in Counter(delivery.execution for delivery in repeats).items():
        last = max(delivery.at for delivery in repeats if delivery.execution == execution)
        reasons = _faults_between(history, first.get(execution, last) - SLACK, last)
        if count > len(reasons):
            yield f"execution {execution} was repeated {count} times in {len(reasons)} faults"
    if len(repeats) > len(history.faults):
        yield f"{len(repeats)} repeats for {len(history.faults)} faults"


def what_did_not_run_was_not_delivered(history: History, bounds: Bounds) -> Iterator[str]:
    delivered = Counter(delivery.execution for delivery in history.deliveries)
    for row in history.rows:
        if row.status in NEVER_RAN and delivered[row.id]:
            yield f"{_name(row)} is {row.status}, but was delivered"
        # A prompt is started by waiting for an agent; that can be taken back.
        if row.status in NEVER_RAN and row.attempt and row.task != "prompt":
            yield f"{_name(row)} is {row.status}, but was started"


def deliveries_belong_to_rows(history: History, bounds: Bounds) -> Iterator[str]:
    attempts = {row.id: row.attempt for row in history.rows}
    for delivery in history.deliveries:
        if delivery.execution not in attempts:
            yield f"execution {delivery.execution} was delivered, but is not in the ledger"
        elif delivery.attempt > attempts[delivery.execution]:
            yield f"execution {delivery.execution} was delivered in attempt {delivery.attempt}, unknown to its row"


def missed_has_a_reason(history: History, bounds: Bounds) -> Iterator[str]:
    for row in history.rows:
        if row.status != "missed":
            continue
        if not _faults_between(history, row.scheduled_for, row.until, and_healing=bounds):
            yield f"{_name(row)} is missed although all was well"


def failed_has_a_reason(history: History, bounds: Bounds) -> Iterator[str]:
    for row in history.rows:
        if row.status not in ("failed", "lost") or "poison" in row.task or row.reason.startswith(STOPPED):
            continue
        until = row.finished_at or row.scheduled_for
        if not _faults_between(history, row.scheduled_for, until, and_healing=bounds):
            yield f"{_name(row)} is {row.status} although all was well: {row.error or row.reason}"


def skipped_has_a_reason(history: History, bounds: Bounds) -> Iterator[str]:
    """While a job was certainly armed, only a run before it that was still going is a reason."""
    by_job = _by_job(history.rows)
    for job_id, operations in jobs_of(history).items():
        for period in periods(history, operations):
            for row in by_job[job_id]:
                if row.status != "skipped" or not period.is_armed or not period.holds(row.slot):
                    continue
                if any(_was_going(other, row) for other in by_job[job_id]):
                    continue
                # In a fault the end of the run before it may not have been written yet.
                excuses = _faults_between(history, row.scheduled_for, row.finished_at or row.scheduled_for)
                if not excuses and not _near_shift(history, row.scheduled_for):
                    yield f"{_name(row)} is skipped ({row.reason}), but nothing was going on"


def nothing_is_late(history: History, bounds: Bounds) -> Iterator[str]:
    """Within the bound; or, where a fault lay in between, within its healing time after its end."""
    for row in history.rows:
        if row.first_started_at is None or row.cause == "manual" or "poison" in row.task:
            continue
        late = row.first_started_at - row.scheduled_for
        if late <= bounds.late(row):
            continue
        faults = _faults_between(history, row.scheduled_for, row.first_started_at, and_healing=bounds)
        if not any(
            row.first_started_at <= fault.ended_at + _offset(history, fault) + bounds.heals_within(fault.kind)
            for fault in faults
        ):
            yield f"{_name(row)} started {late:.1f} s late"


def nothing_is_early(history: History, bounds: Bounds) -> Iterator[str]:
    slots = {row.id: row.scheduled_for for row in history.rows}
    for row in history.rows:
        if row.first_started_at is not None and row.first_started_at < row.scheduled_for - 0.001:
            if _near_shift(history, row.scheduled_for) or row.cause == "manual":
                continue
            yield f"{_name(row)} started {row.scheduled_for - row.first_started_at:.3f} s early"
    for delivery in history.deliveries:
        ahead = max(0.0, *offsets_between(history, delivery.at - 60, delivery.at))
        slot = slots.get(delivery.execution, 0.0)
        if delivery.at + ahead < slot - 0.001 and "-manual" not in delivery.key:
            yield f"execution {delivery.execution} was delivered {slot - delivery.at:.3f} s early"


def nothing_runs_unasked(history: History, bounds: Bounds) -> Iterator[str]:
    by_job = _by_job(history.rows)
    for job_id, operations in jobs_of(history).items():
        for period in periods(history, operations):
            for row in by_job[job_id]:
                if row.cause == "manual" or not row.attempt or not period.holds(row.slot):
                    continue
                if not period.asks_for(row.slot) and not _near_shift(history, row.scheduled_for):
                    stood = "armed for other moments" if period.is_armed else "stopped"
                    yield f"{_name(row)} ran, but its job was {stood}"


def runs_by_hand_are_kept(history: History, bounds: Bounds) -> Iterator[str]:
    rows = {row.id: row for row in history.rows}
    by_job = _by_job(history.rows)
    for job_id, operations in jobs_of(history).items():
        asked = [op for op in operations if op.verb == "run" and op.outcome != "refused"]
        for op in asked:
            if op.execution is not None and op.execution not in rows:
                yield f"{job_id} was told to run, and the row {op.execution} it got is gone"
        manual = [row for row in by_job[job_id] if row.cause == "manual"]
        if len(manual) > len(asked):
            yield f"{job_id} ran {len(manual)} times by hand, but was asked {len(asked)} times"
        if len(manual) < sum(op.outcome == "acknowledged" for op in asked):
            yield f"{job_id} ran {len(manual)} times by hand, fewer than was acknowledged"


def faults_heal(history: History, bounds: Bounds) -> Iterator[str]:
    for fault in history.faults:
        limit = bounds.heals_within(fault.kind)
        if fault.healing is None:
            yield f"{fault.kind} at {_moment(fault.began_at)} never healed {fault.note}"
        elif fault.healing > limit:
            yield (
                f"{fault.kind} at {_moment(fault.began_at)} healed after {fault.healing:.1f} s,"
                f" not {limit:.0f} s {fault.note}"
            )


def all_is_quiet_afterwards(history: History, bounds: Bounds) -> Iterator[str]:
    after = history.aftermath
    if after.fresh_workers != after.expected_workers:
        yield f"{after.fresh_workers} clusters are fresh, not {after.expected_workers}"
    if after.live_runs:
        yield f"{after.live_runs} runs are still in the queue"
    if after.overdue_jobs:
        yield f"{after.overdue_jobs} jobs are overdue"
    if after.orphans:
        yield f"processes were left behind: {'; '.join(after.orphans)}"
    if after.connections > after.most_connections:
        yield f"{after.connections} connections to the database, more than {after.most_connections}"


RULES: dict[str, Rule] = {
    "lost": owed_slots_have_one_row,
    "doubled": no_slot_has_two_rows,
    "unfinished": every_row_is_final,
    "undelivered": succeeded_was_accepted,
    "accepted twice": accepted_at_most_once,
    "repeated": repeats_have_a_reason,
    "not run, yet delivered": what_did_not_run_was_not_delivered,
    "unknown delivery": deliveries_belong_to_rows,
    "missed": missed_has_a_reason,
    "failed": failed_has_a_reason,
    "skipped": skipped_has_a_reason,
    "late": nothing_is_late,
    "early": nothing_is_early,
    "unasked": nothing_runs_unasked,
    "by hand": runs_by_hand_are_kept,
    "healing": faults_heal,
    "aftermath": all_is_quiet_afterwards,
}


def _by_job(rows: Sequence[Row]) -> dict[str, list[Row]]:
    jobs: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        jobs[row.job_id].append(row)
    return jobs


def _faults_between(
    history: History, start: float, end: float, *, and_healing: Bounds | None = None
) -> list[Fault]:
    """The faults that touch a stretch of the product's time, with the time they may take to heal."""
    found = []
    for fault in history.faults:
        extra = and_healing.heals_within(fault.kind) if and_healing else (fault.healing or 0.0)
        ahead = _offset(history, fault)
        if fault.began_at - SLACK + min(0.0, ahead) <= end and start <= fault.ended_at + extra + max(
            0.0, ahead
        ):
            found.append(fault)
    return found


def _offset(history: History, fault: Fault) -> float:
    """How far the product's clock was shifted in a fault."""
    offsets = offsets_between(history, fault.began_at - SLACK, fault.ended_at)
    return max(offsets, key=abs)


def _near_shift(history: History, moment: float) -> bool:
    """Tell whether the clock was shifted around a moment: then both times of day have happened."""
    return any(
        fault.kind.startswith("clock")
        and fault.began_at - 60 - abs(_offset(history, fault))
        <= moment
        <= fault.ended_at + 60 + abs(_offset(history, fault))
        for fault in history.faults
    )


def _accounts_for(row: Row, moment: float) -> bool:
    """Tell whether a row stands for the slot of a moment; a gap stands for as many, evenly spread.

    Between them may lie slots of another schedule, where a job was edited and the clock went back.
    """
    if row.last_slot is None or row.slots < 2 or moment > row.last_slot:
        return moment == row.scheduled_for
    step = (row.last_slot - row.scheduled_for) / (row.slots - 1)
    off_by = (moment - row.scheduled_for) % step
    return min(off_by, step - off_by) < 0.01


def _was_going(other: Row, row: Row) -> bool:
    if other is row or other.status in ("skipped", "missed"):
        return False
    return other.scheduled_for < row.scheduled_for and (
        other.finished_at is None or other.finished_at > row.scheduled_for - SLACK
    )


def _name(row: Row) -> str:
    return f"{row.job_id} at {_moment(row.scheduled_for)} (row {row.id}, {row.task})"


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S.%f")[:-3]
