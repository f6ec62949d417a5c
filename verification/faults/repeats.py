"""Budget of repeated deliveries: each is tied to the fault that explains it, and every kind of fault has a bar."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from verification.faults.excuses import (
    AT_ONE_MOMENT,
    REPEATING,
    SLACK,
    Bounds,
    arrivals,
    faults_that_repeat,
    last_effect_at,
    moment_of,
)
from verification.faults.records import Delivery, Fault, History
from verification.faults.timelines import jobs_of, offsets_between, policy_of

# Kinds that stop all workers of a cluster at once: a run that starts later is not in their hands.
STARTED_BEFORE = ("freeze-cluster", "freeze-workers", "frozen-claim", "partition")
# Kinds that lose answers on the way: every attempt may meet them.
LOSE_ANSWERS = ("target-",)
# Seconds that it takes to stop all processes of a cluster.
STRIKING = 0.5
# Seconds between the start of a run and its delivery, at most, on a machine that stands still.
LONGEST_START = 60.0


@dataclass(frozen=True, slots=True)
class Repeat:
    """A delivery of a run that had been accepted before, and the fault that explains it."""

    before: Delivery
    again: Delivery
    fault: Fault | None


def repeats_of(history: History) -> list[Repeat]:
    """Return every repeated delivery, in order."""
    found = []
    for received in arrivals(history).values():
        for one, other in pairwise(received):
            if other.verdict == "repeated":
                found.append(Repeat(one, other, _blamed(history, one)))
    return sorted(found, key=lambda repeat: repeat.again.at)


def _blamed(history: History, before: Delivery) -> Fault | None:
    """Return the fault in which the previous delivery was in flight, or else the nearest that must repeat nothing."""

    def distance(fault: Fault) -> float:
        return max(fault.began_at - before.at, before.at - fault.ended_at, 0.0)

    near = [
        fault
        for fault in history.faults
        if fault.began_at - SLACK <= before.at <= last_effect_at(history, fault) + SLACK
    ]
    return min(faults_that_repeat(history, before) or near, key=distance, default=None)


def by_kind(history: History) -> dict[str, Counter[Fault]]:
    """Return how many deliveries each fault repeated, by its kind; the kind "" stands for no fault at all."""
    counts: dict[str, Counter[Fault]] = defaultdict(Counter)
    nothing = Fault("", 0.0, 0.0, 0.0)
    for repeat in repeats_of(history):
        fault = repeat.fault or nothing
        counts[fault.kind][fault] += 1
    return counts


def bar_of(kind: str) -> str:
    """Return in words how many deliveries a fault of this kind may repeat."""
    if kind.startswith(LOSE_ANSWERS) and kind.startswith(REPEATING):
        return "answers lost"
    return "in hand" if kind.startswith(REPEATING) else "0"


def repeats_have_a_reason(history: History, bounds: Bounds) -> Iterator[str]:
    """A fault repeats at most the runs that were in flight in the process it hit, and each only once.

    So no attempt is sent twice; and a run sent again after it was accepted must have arrived during or shortly before
    a fault that can explain it. If the network lost the answer, each attempt may meet the same fault.
    """
    started = {row.id: row.first_started_at for row in history.rows}
    for execution, received in arrivals(history).items():
        for attempt, count in Counter(delivery.attempt for delivery in received).items():
            if count > 1:
                yield f"execution {execution} was sent {count} times in its attempt {attempt}"
        repeats = [(one, other) for one, other in pairwise(received) if other.verdict == "repeated"]
        explaining: set[Fault] = set()
        for one, _ in repeats:
            found = {
                fault for fault in faults_that_repeat(history, one) if _was_in_hand(fault, one, bounds, SLACK)
            }
            explaining |= found
            if not found and not _came_too_late(history, one, started.get(execution), bounds):
                blamed = _blamed(history, one)
                near = f"; {blamed.kind} must repeat nothing" if blamed else ""
                yield f"execution {execution} was repeated, but no fault hit it in flight at {moment_of(one.at)}{near}"
        is_network = any(fault.kind.startswith(LOSE_ANSWERS) for fault in explaining)
        if explaining and len(repeats) > len(explaining) and not is_network:
            yield f"execution {execution} was repeated {len(repeats)} times in {len(explaining)} faults"


def _came_too_late(
    history: History, delivery: Delivery, first_started_at: float | None, bounds: Bounds
) -> bool:
    """Return whether the caller had given up by the time of the answer, because this machine is slow."""
    if first_started_at is None or delivery.attempt != 1:
        return False
    # By the sink's clock: the product's may have been shifted, so take the latest start before the delivery.
    offsets = offsets_between(history, delivery.at - LONGEST_START, delivery.at)
    starts = [first_started_at - offset for offset in offsets]
    started_at = max((start for start in starts if start <= delivery.at), default=delivery.at)
    return delivery.at + delivery.held > started_at + bounds.caller_waits


def repeats_are_within_budget(history: History, bounds: Bounds) -> Iterator[str]:
    """A kill repeats what was in hand and unwritten at one moment, a freeze only what had started before it."""
    started = {row.id: row.first_started_at for row in history.rows}
    for fault, repeats in _assigned(history, bounds).items():
        where = f"{fault.kind} at {moment_of(fault.began_at)}"
        if fault.kind.startswith(AT_ONE_MOMENT):
            apart = _apart([repeat.before for repeat in repeats], bounds.in_hand(fault.kind))
            if apart > 0:
                yield f"{len(repeats)} runs were repeated after {where}, more than in hand: {apart:.1f} s of work"
        if fault.kind.startswith(STARTED_BEFORE) and fault.struck_at is not None:
            for repeat in repeats:
                started_at = started.get(repeat.again.execution)
                late = (started_at or 0.0) - fault.struck_at
                if late > STRIKING and not _came_too_late(history, repeat.before, started_at, bounds):
                    yield (
                        f"execution {repeat.again.execution} was repeated after {where},"
                        f" although it started {late:.1f} s into it"
                    )


def _assigned(history: History, bounds: Bounds) -> dict[Fault, list[Repeat]]:
    """Assign each repeat to one of the faults that can explain it: if there are several, to one whose budget has room."""
    mine: dict[Fault, list[Repeat]] = defaultdict(list)
    able: dict[Repeat, list[Fault]] = {}
    for repeat in repeats_of(history):
        one = repeat.before
        able[repeat] = sorted(
            (fault for fault in faults_that_repeat(history, one) if _was_in_hand(fault, one, bounds)),
            key=lambda fault: fault.began_at,
        )
    for repeat, faults in sorted(able.items(), key=lambda item: (len(item[1]), item[0].before.at)):
        if faults:
            roomy = (fault for fault in faults if _has_room(fault, [*mine[fault], repeat], bounds))
            mine[next(roomy, faults[0])].append(repeat)
    return mine


def _was_in_hand(fault: Fault, one: Delivery, bounds: Bounds, slack: float = 0.0) -> bool:
    """Return whether the outcome of a delivery can still have been unwritten when a fault began."""
    return fault.began_at <= one.at + one.held + bounds.in_hand(fault.kind) + slack


def _has_room(fault: Fault, repeats: Sequence[Repeat], bounds: Bounds) -> bool:
    if not fault.kind.startswith(AT_ONE_MOMENT):
        return True
    return _apart([repeat.before for repeat in repeats], bounds.in_hand(fault.kind)) <= 0


def _apart(received: Sequence[Delivery], unwritten: float) -> float:
    """Return by how many seconds these deliveries were not in hand at the same moment."""
    latest = max(delivery.at for delivery in received)
    return latest - min(delivery.at + delivery.held + unwritten for delivery in received)


def at_most_once_is_kept(history: History, bounds: Bounds) -> Iterator[str]:
    """A job that asked for at most one delivery is never delivered twice, whatever happened."""
    careful = {job for job, ops in jobs_of(history).items() if policy_of(ops).at_most_once}
    for execution, received in arrivals(history).items():
        taken = [delivery for delivery in received if delivery.verdict != "refused"]
        if len(taken) > 1 and taken[0].job_id in careful:
            yield f"execution {execution} of {taken[0].job_id} was delivered {len(taken)} times, not at most once"
