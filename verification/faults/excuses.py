"""Allowances of the checker: how long things may take, and which faults and clock shifts surround a moment."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from verification.faults.product import LEASE, answer_within
from verification.faults.records import Delivery, Fault, History, Row
from verification.faults.timelines import offsets_between

# How the reason of a run begins that its owner stopped.
STOPPED = ("The job was", "The schedule was", "Its job is gone")
# A fault may take effect a little before the harness recorded its start.
SLACK = 2.0
# No clock is shifted further than this.
FURTHEST = 200.0
# How long before a clock shift and after its correction its effects may be seen.
NEAR = 15.0
# How far apart two processes may read a clock that is being shifted.
CLOCK_READ = 0.5
# How long before a fault the sink may have received a run that was still in flight: the longest hold of a caller, the
# time until outcomes are written, and the slack of the clocks.
IN_FLIGHT = 5.0
# Kinds that end the process that runs the tasks: whatever they repeat was in hand at that moment.
AT_ONE_MOMENT = (
    "kill-busy-worker",
    "kill-idle-worker",
    "kill-pusher",
    "kill-sentinel",
    "kill-leader",
    "kill-everything",
    "kill-all",
    "database-crash",
)
# Faults in which a run can be delivered without a recorded outcome: its process dies (a poisoned task may kill it,
# and a cluster whose sentinel is dead or frozen is restarted as a whole), freezes for longer than
# its lease, or does not get the answer; or the database loses what it had confirmed. Other faults, such as a clock
# jump, a graceful restart, a deployment, a held lock or a clean restart of the database, must repeat nothing.
REPEATING = (
    *AT_ONE_MOMENT,
    "kill-claiming",
    "freeze-",
    "disk-full",
    "target-cut",
    "target-slow",
    "target-reset",
    "poisoned-job",
    "stuck-",
    "frozen-claim",
    "partition",
    "spawn-refused",
)

# Faults of one host, or of one process of it: the others go on, and take over what it held.
ONE_HOST = ("partition", "frozen-claim", "freeze-cluster")
# Restarts in good order, processes that run no jobs, and trouble that concerns only one job: nothing else is noticeably
# late, missed or failed.
WITHOUT_A_GAP = (
    "rolling-restart",
    "deploy",
    "first-starts",
    "restore",
    "skew",
    "held-row",
    "guard-",
    "key-rotation",
    "kill-web",
    "kill-mcp",
    "receiver-deaf",
)
# Kinds that kill the processes that run the tasks at the moment they strike, and no other later.
KILL_AT_ONCE = ("kill-busy-worker", "kill-idle-worker", "kill-leader", "kill-everything", "kill-all")
# Kinds that leave the claim loop of their host alone: it claims further slots, which others take over from it.
GO_ON_CLAIMING = ("kill-busy-worker", "kill-idle-worker", "freeze-worker")
# Faults that last until the product itself ends them.
ENDED_BY_THE_PRODUCT = ("stuck-",)
# How long an answer takes, in seconds.
ANSWERING = 0.2
# How much of what it confirmed PostgreSQL can lose in a crash: three times its `wal_writer_delay`.
LAZY_COMMIT = 0.6


@dataclass(frozen=True, slots=True)
class Bounds:
    """Time limits in seconds. `pace` is how much slower this machine is than a quiet one.

    Waits by design (leases, the watchdog) do not depend on the machine, but the time to start processes
    does. So only the `work` part of each limit is multiplied by the pace.
    """

    pace: float = 1.0
    lateness: float = 1.0
    plain_lateness: float = 3.0
    work: float = 5.0
    # How long an outcome waits until it is written, and how long the answer and the write take themselves.
    unwritten: float = 0.1
    writing: float = 0.2
    healing: Mapping[str, float] = field(
        default_factory=lambda: {"kill": 15.0, "freeze": 25.0, "database": 30.0, "disk": 30.0}
    )
    other_healing: float = 25.0
    takeover: float = 15.0
    restart_lateness: float = 2.0
    clock_error: float = 0.1
    lease: int = LEASE

    def bar(self, kind: str) -> float:
        """Return the promised limit, on a quiet machine."""
        return self.healing.get(kind.partition("-")[0], self.other_healing)

    def heals_within(self, kind: str) -> float:
        return self.bar(kind) + self.work * (self.pace - 1)

    @property
    def caller_waits(self) -> float:
        """Return how long the product waits for an answer, less the time that the answer takes."""
        return answer_within(self.lease) - ANSWERING

    @property
    def taken_over_within(self) -> float:
        return self.takeover + self.work * (self.pace - 1)

    def in_hand(self, kind: str) -> float:
        """Return how long after its delivery a run may still be without a recorded outcome."""
        confirmed_lazily = LAZY_COMMIT if kind == "database-crash" else 0.0
        return (self.unwritten + self.writing) * self.pace + confirmed_lazily

    def late(self, row: Row) -> float:
        return (self.plain_lateness if row.task == "faults.deliver" else self.lateness) * self.pace


def hits(fault: Fault, host: str) -> bool:
    """Return whether a fault concerns a host; an empty name means all of them, or one that is not known."""
    return not fault.host or not host or fault.host == host


def faults_that_repeat(history: History, delivery: Delivery) -> set[Fault]:
    """Return the faults of its host during which a delivery can have been in flight."""
    return {
        fault
        for fault in history.faults
        if fault.kind.startswith(REPEATING)
        and hits(fault, delivery.host)
        and fault.began_at - IN_FLIGHT <= delivery.at <= last_effect_at(history, fault) + SLACK
    }


def faults_that_interrupt(history: History, held: Delivery, before: float) -> list[Fault]:
    """Return the faults that can have ended the caller of a delivery while the sink held it, before a moment.

    The product then knows nothing of the run, and may start the next one beside it.
    """
    return [
        fault
        for fault in history.faults
        if fault.kind.startswith(REPEATING)
        and hits(fault, held.host)
        and (fault.struck_at or fault.began_at) - SLACK <= min(before, held.at + held.held)
        and held.at <= _interrupts_until(history, fault) + SLACK
    ]


def _interrupts_until(history: History, fault: Fault) -> float:
    if fault.kind.startswith(KILL_AT_ONCE):
        return fault.struck_at or fault.ended_at
    return last_effect_at(history, fault)


def last_effect_at(history: History, fault: Fault) -> float:
    """Return when the effects of a fault ended; a poisoned job does harm again in each attempt."""
    attempts = [
        row.started_at
        for row in history.rows
        if fault.kind == "poisoned-job"
        and "poison" in row.task
        and row.started_at
        and fault.began_at - SLACK <= row.scheduled_for <= fault.ended_at + SLACK
    ]
    return max([fault.healed_at or fault.ended_at, *attempts])


def arrivals(history: History) -> dict[int, list[Delivery]]:
    """Return the deliveries of each execution, in order."""
    arrivals: dict[int, list[Delivery]] = defaultdict(list)
    for delivery in sorted(history.deliveries, key=lambda delivery: delivery.at):
        arrivals[delivery.execution].append(delivery)
    return arrivals


def by_job(rows: Sequence[Row]) -> dict[str, list[Row]]:
    jobs: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        jobs[row.job_id].append(row)
    return jobs


def faults_between(
    history: History, start: float, end: float, *, job_id: str = "", and_healing: Bounds | None = None
) -> list[Fault]:
    """Return the faults that overlap a period of the product's time, including their time to recover.

    With a job, leave out faults that concern only another one.
    """
    found = []
    for fault in history.faults:
        if job_id and fault.job_id and fault.job_id != job_id:
            continue
        extra = and_healing.heals_within(fault.kind) if and_healing else (fault.healing or 0.0)
        if fault.began_at - FURTHEST > end or start > fault.ended_at + extra + FURTHEST:
            continue
        ahead = offset_in(history, fault)
        if fault.began_at - SLACK + min(0.0, ahead) <= end and start <= fault.ended_at + extra + max(
            0.0, ahead
        ):
            found.append(fault)
    return found


def offset_in(history: History, fault: Fault) -> float:
    """Return how far the product's clock was shifted in a fault."""
    # Without slack: another fault may have shifted the clock the other way just before.
    return max(offsets_between(history, fault.began_at, fault.ended_at), key=abs)


def near_shift(history: History, moment: float) -> bool:
    """Return whether a moment lies in a period that the clock skipped or repeated."""
    return any(_skipped_or_repeated(history, fault, moment, NEAR) for fault in _shifts(history))


def ran_by_a_wrong_clock(history: History, row: Row) -> bool:
    """Return whether a slot that the clock skipped or repeated also ran while it was wrong.

    A slot may have run before the clock was set back, and long before it by the clock from then on.
    """
    received = [delivery.at for delivery in history.deliveries if delivery.execution == row.id]
    for fault in _shifts(history):
        back = min(0.0, offset_in(history, fault))
        since, until = fault.began_at + back - SLACK, fault.ended_at + IN_FLIGHT
        if _skipped_or_repeated(history, fault, row.scheduled_for, SLACK) and (
            not received or since <= min(received) <= until
        ):
            return True
    return False


def was_set_back_before_start(history: History, row: Row, bounds: Bounds) -> bool:
    """Return whether the clock went back between the claim of a row, when its slot was due, and its start."""
    before = 0.0
    for at, offset in history.shifts:
        started_at = (row.first_started_at or 0.0) - offset
        is_claimed = row.scheduled_for <= at + before + CLOCK_READ
        if offset < before and is_claimed and at - CLOCK_READ <= started_at <= at + IN_FLIGHT * bounds.pace:
            return True
        before = offset
    return False


def _shifts(history: History) -> list[Fault]:
    return [fault for fault in history.faults if fault.kind.startswith("clock")]


def _skipped_or_repeated(history: History, fault: Fault, moment: float, margin: float) -> bool:
    ahead = offset_in(history, fault)
    began_at, ended_at = fault.began_at + min(0.0, ahead), fault.ended_at + max(0.0, ahead)
    return began_at - margin <= moment <= ended_at + margin


def name_of(row: Row) -> str:
    return f"{row.job_id} at {moment_of(row.scheduled_for)} (row {row.id}, {row.task})"


def moment_of(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S.%f")[:-3]
