"""Rules for a history: each is a function of the records that yields violations as text."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from verification.faults.disturbances import (
    counters_agree_with_the_ledger,
    failed_has_a_reason,
    missed_has_a_reason,
    nothing_is_early,
    nothing_is_late,
    runs_end_in_time,
)
from verification.faults.excuses import (
    ENDED_BY_THE_PRODUCT,
    SLACK,
    STOPPED,
    Bounds,
    by_job,
    faults_between,
    moment_of,
    name_of,
    near_shift,
    ran_by_a_wrong_clock,
)
from verification.faults.policies import (
    attempts_are_kept,
    catch_up_follows_the_policy,
    limits_are_kept,
    overlap_is_kept,
)
from verification.faults.records import Delivery, History, Operation, Row
from verification.faults.repeats import (
    at_most_once_is_kept,
    repeats_are_within_budget,
    repeats_have_a_reason,
)
from verification.faults.timelines import (
    jobs_of,
    last_allowed_run_at,
    paused_by_engine_at,
    periods,
    policy_of,
)

FINAL = {"succeeded", "failed", "skipped", "missed", "cancelled", "lost"}
NEVER_RAN = {"skipped", "missed", "cancelled"}


@dataclass(frozen=True, slots=True)
class Violation:
    rule: str
    words: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.words}"


Rule = Callable[[History, Bounds], Iterator[str]]


def check(
    history: History, bounds: Bounds | None = None, *, exclude: Collection[str] = ()
) -> list[Violation]:
    """Apply every rule, except those to exclude."""
    limits = bounds or Bounds()
    return [
        Violation(name, words)
        for name, rule in RULES.items()
        if name not in exclude
        for words in rule(history, limits)
    ]


def owed_slots_have_one_row(history: History, bounds: Bounds) -> Iterator[str]:
    rows_of = by_job(history.rows)
    for job_id, operations in jobs_of(history).items():
        rows = [row for row in rows_of[job_id] if row.cause != "manual"]
        over_at = min(
            paused_by_engine_at(rows), last_allowed_run_at(rows, policy_of(operations, for_certain=True))
        )
        for period in periods(history, operations):
            for slot in period.slots():
                if slot < over_at and not any(row.slot <= slot <= row.until for row in rows):
                    yield f"{job_id} was owed {moment_of(slot)}, and there is no row of it"


def no_slot_has_two_rows(history: History, bounds: Bounds) -> Iterator[str]:
    for job_id, mine in by_job(history.rows).items():
        rows = sorted((row for row in mine if row.cause != "manual"), key=lambda row: row.scheduled_for)
        for one, other in pairwise(rows):
            if _accounts_for(one, other.scheduled_for):
                yield f"{job_id} has rows {one.id} and {other.id} for {moment_of(other.scheduled_for)}"


def every_row_is_final(history: History, bounds: Bounds) -> Iterator[str]:
    for row in history.rows:
        if row.status not in FINAL:
            yield f"{name_of(row)} is still {row.status}"


def succeeded_was_accepted(history: History, bounds: Bounds) -> Iterator[str]:
    accepted = {delivery.execution for delivery in history.deliveries if delivery.verdict != "refused"}
    for row in history.rows:
        if row.status == "succeeded" and row.task in ("webhook", "faults.deliver") and row.id not in accepted:
            yield f"{name_of(row)} succeeded, but the sink accepted nothing"


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


def runs_that_never_started_were_not_delivered(history: History, bounds: Bounds) -> Iterator[str]:
    delivered = Counter(delivery.execution for delivery in history.deliveries)
    for row in history.rows:
        if row.status in NEVER_RAN and delivered[row.id]:
            yield f"{name_of(row)} is {row.status}, but was delivered"
        # A prompt starts when it waits for an agent; it can still be withdrawn then.
        if row.status in NEVER_RAN and row.attempt and row.task != "prompt":
            yield f"{name_of(row)} is {row.status}, but was started"


def deliveries_belong_to_rows(history: History, bounds: Bounds) -> Iterator[str]:
    attempts = {row.id: row.attempt for row in history.rows}
    for delivery in history.deliveries:
        if delivery.execution not in attempts:
            yield f"execution {delivery.execution} was delivered, but is not in the ledger"
        elif delivery.attempt > attempts[delivery.execution]:
            yield f"execution {delivery.execution} was delivered in attempt {delivery.attempt}, unknown to its row"


def skipped_has_a_reason(history: History, bounds: Bounds) -> Iterator[str]:
    """While a job was certainly armed, the only valid reason is a previous run that was still going."""
    rows_of = by_job(history.rows)
    received = defaultdict(list)
    for delivery in history.deliveries:
        received[delivery.job_id].append(delivery)
    for job_id, operations in jobs_of(history).items():
        policy, rows = policy_of(operations), rows_of[job_id]
        over_at = paused_by_engine_at(rows)
        for period in periods(history, operations):
            for row in rows:
                if row.status != "skipped" or not period.is_armed or not period.holds(row.slot):
                    continue
                if row.scheduled_for >= over_at or near_shift(history, row.scheduled_for):
                    continue
                if _was_stopped_in_a_fault(history, row, operations):
                    continue
                if policy.overlap != "skip":
                    yield f"{name_of(row)} is skipped ({row.reason}), which nobody asked for"
                elif not (
                    any(_was_going(other, row) for other in rows)
                    or any(_was_held(delivery, row) for delivery in received[job_id])
                    # During a fault, the end of the previous run may not have been written yet.
                    or faults_between(history, row.scheduled_for, row.ended_at, job_id=row.job_id)
                ):
                    yield f"{name_of(row)} is skipped ({row.reason}), but nothing was going on"


def _was_stopped_in_a_fault(history: History, row: Row, operations: Sequence[Operation]) -> bool:
    """Return whether a fault prevented the claim of a slot until its job was stopped or changed."""
    if not row.reason.startswith(STOPPED) or not faults_between(
        history, row.scheduled_for, row.ended_at, job_id=row.job_id
    ):
        return False
    return any(
        op.verb in ("pause", "cancel", "delete", "edit")
        and op.outcome != "refused"
        and op.sent_at - SLACK <= row.ended_at <= op.answered_at + SLACK
        for op in operations
    )


def nothing_runs_without_a_request(history: History, bounds: Bounds) -> Iterator[str]:
    rows_of = by_job(history.rows)
    for job_id, operations in jobs_of(history).items():
        for period in periods(history, operations):
            for row in rows_of[job_id]:
                if row.cause == "manual" or not row.attempt or not period.holds(row.slot):
                    continue
                if not period.asks_for(row.slot) and not ran_by_a_wrong_clock(history, row):
                    stood = "armed for other moments" if period.is_armed else "stopped"
                    yield f"{name_of(row)} ran, but its job was {stood}"


def manual_runs_are_kept(history: History, bounds: Bounds) -> Iterator[str]:
    rows = {row.id: row for row in history.rows}
    rows_of = by_job(history.rows)
    for job_id, operations in jobs_of(history).items():
        asked = [op for op in operations if op.verb == "run" and op.outcome != "refused"]
        for op in asked:
            if op.execution is not None and op.execution not in rows:
                yield f"{job_id} was told to run, and the row {op.execution} it got is gone"
        manual = [row for row in rows_of[job_id] if row.cause == "manual"]
        if len(manual) > len(asked):
            yield f"{job_id} ran {len(manual)} times by hand, but was asked {len(asked)} times"
        if len(manual) < sum(op.outcome == "acknowledged" for op in asked):
            yield f"{job_id} ran {len(manual)} times by hand, fewer than was acknowledged"


def faults_heal(history: History, bounds: Bounds) -> Iterator[str]:
    for fault in history.faults:
        limit = bounds.heals_within(fault.kind)
        lasted = fault.ended_at - (fault.struck_at or fault.ended_at)
        if fault.kind.startswith(ENDED_BY_THE_PRODUCT) and lasted > bounds.taken_over_within:
            yield f"{fault.kind} at {moment_of(fault.began_at)} was ended after {lasted:.1f} s {fault.note}"
        if fault.problem:
            yield f"{fault.kind} at {moment_of(fault.began_at)}: {fault.problem} {fault.note}"
        if fault.healing is None:
            yield f"{fault.kind} at {moment_of(fault.began_at)} never healed {fault.note}"
        elif fault.healing > limit:
            yield (
                f"{fault.kind} at {moment_of(fault.began_at)} healed after {fault.healing:.1f} s,"
                f" not {limit:.0f} s {fault.note}"
            )


def all_is_quiet_afterwards(history: History, bounds: Bounds) -> Iterator[str]:
    after = history.aftermath
    if after.fresh_clusters != after.expected_clusters:
        yield f"{after.fresh_clusters} clusters are fresh, not {after.expected_clusters}"
    if after.live_runs:
        yield f"{after.live_runs} runs are still in the queue"
    if after.overdue_jobs:
        yield f"{after.overdue_jobs} jobs are overdue"
    yield from after.complaints
    if after.held_after_stop:
        yield f"{after.held_after_stop} runs were still claimed or running after a clean stop"
    if after.orphans:
        yield f"processes were left behind: {'; '.join(after.orphans)}"
    if after.connections > after.most_connections:
        yield f"{after.connections} connections to the database, more than {after.most_connections}"


def wings_say_what_is_so(history: History, bounds: Bounds) -> Iterator[str]:
    yield from history.wings


RULES: dict[str, Rule] = {
    "lost": owed_slots_have_one_row,
    "doubled": no_slot_has_two_rows,
    "unfinished": every_row_is_final,
    "undelivered": succeeded_was_accepted,
    "accepted twice": accepted_at_most_once,
    "repeated": repeats_have_a_reason,
    "repeated too much": repeats_are_within_budget,
    "at most once": at_most_once_is_kept,
    "not run, yet delivered": runs_that_never_started_were_not_delivered,
    "unknown delivery": deliveries_belong_to_rows,
    "attempts": attempts_are_kept,
    "overlap": overlap_is_kept,
    "catch-up": catch_up_follows_the_policy,
    "limits": limits_are_kept,
    "missed": missed_has_a_reason,
    "failed": failed_has_a_reason,
    "skipped": skipped_has_a_reason,
    "late": nothing_is_late,
    "unending": runs_end_in_time,
    "early": nothing_is_early,
    "unasked": nothing_runs_without_a_request,
    "counters": counters_agree_with_the_ledger,
    "by hand": manual_runs_are_kept,
    "healing": faults_heal,
    "wings": wings_say_what_is_so,
    "aftermath": all_is_quiet_afterwards,
}


def _accounts_for(row: Row, moment: float) -> bool:
    """Return whether a row covers the slot of a moment; a gap covers evenly spaced slots.

    Slots of another schedule may lie between them if a job was edited and the clock went back.
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


def _was_held(delivery: Delivery, row: Row) -> bool:
    """Return whether the sink was still holding another run of the job when this slot was due."""
    since, until = delivery.at - SLACK, delivery.at + delivery.held + SLACK
    return delivery.execution != row.id and since <= row.scheduled_for <= until
