"""The checker reports every kind of defect, and reports nothing for histories without one."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from verification.faults.checker import RULES, check
from verification.faults.disturbances import UNREADABLE
from verification.faults.records import (
    Aftermath,
    Delivery,
    Fault,
    History,
    JobSummary,
    Operation,
    Policy,
    Row,
    When,
)

T0 = 1_800_000_000
STEP = 10
ENDED_AT = T0 + 100.5
JOB = "job_1"


def operation(verb, at, **values) -> Operation:
    return Operation(
        verb, "tag", T0 + at, T0 + at + 0.1, values.pop("outcome", "acknowledged"), job_id=JOB, **values
    )


def row(number: int, at: float, status: str = "succeeded", **values) -> Row:
    ran = status in ("succeeded", "failed", "lost")
    known = {
        "attempt": int(ran),
        "first_started_at": T0 + at + 0.01 if ran else None,
        "finished_at": T0 + at + 0.1,
    }
    return Row(number, JOB, T0 + at, status, **(known | values))


def delivery(number: int, at: float, verdict: str = "accepted", attempt: int = 1, **values) -> Delivery:
    key = values.pop("key", f"{JOB}@{number}")
    return Delivery(T0 + at + 0.02, number, key, attempt, verdict, **values)


def fault(at: float, kind: str = "kill-pusher", seconds: float = 0.0, healing: float | None = 2.0) -> Fault:
    began_at = T0 + at
    ended_at = began_at + seconds
    return Fault(kind, began_at, ended_at, None if healing is None else ended_at + healing)


def quiet() -> History:
    """A job every ten seconds, created at the beginning, without any fault."""
    slots = range(STEP, 101, STEP)
    return History(
        operations=[operation("create", 0, when=When("interval", STEP), grid=T0 + STEP)],
        rows=[row(at, at) for at in slots],
        deliveries=[delivery(at, at) for at in slots],
        ended_at=ENDED_AT,
    )


def eventful() -> History:
    """The same job, paused, resumed, edited, run manually and cancelled, during faults of several kinds."""
    return History(
        operations=[
            operation("create", 0, outcome="unknown", when=When("interval", STEP)),
            operation("create", 1, when=When("interval", STEP), grid=T0 + STEP),
            operation("pause", 35),
            operation("run", 40, execution=900),
            operation("run", 41, outcome="unknown"),
            operation("run", 42, outcome="refused"),
            operation("resume", 55, grid=T0 + 60),
            operation("edit", 85, when=When("interval", 7), grid=T0 + 92),
            operation("edit", 100, outcome="refused", when=When("interval", 5)),
            operation("cancel", 108),
        ],
        rows=[
            row(10, 10),
            # Killed after it was accepted, and rescued.
            row(20, 20, attempt=2, finished_at=T0 + 29),
            row(30, 30, "skipped", reason="The previous run was still running.", finished_at=T0 + 30),
            row(900, 40.1, cause="manual"),
            row(901, 41.1, cause="manual"),
            row(40, 40, "skipped", last_slot=T0 + 50, slots=2, reason="Paused: no reason given"),
            row(60, 60, "missed", reason="No worker was running."),
            row(70, 70, first_started_at=T0 + 78.0, finished_at=T0 + 78.1),
            row(80, 80, "failed", error="127.0.0.1 did not answer", finished_at=T0 + 81),
            row(92, 92),
            row(99, 99),
            row(106, 106, "cancelled", reason="The job was stopped before this run."),
        ],
        deliveries=[
            delivery(10, 10),
            delivery(20, 20),
            delivery(20, 29, "repeated", attempt=2),
            delivery(900, 40.1, key=f"{JOB}@900-manual"),
            delivery(901, 41.1, key=f"{JOB}@901-manual"),
            delivery(70, 78),
            delivery(80, 80, "refused"),
            delivery(92, 92),
            delivery(99, 99),
        ],
        faults=[fault(20.5), fault(60, "database-restart", 12, 3), fault(79, "target-500", 3, 1)],
        ended_at=ENDED_AT + 20,
    )


def shifted() -> History:
    """The clock goes forward by half a minute and back: no run is early, and none is repeated."""
    early = [row(at, at, first_started_at=T0 + at + 0.5) for at in (50,)]
    return quiet().with_(
        rows=[row(10, 10), row(20, 20), row(30, 30, "missed", last_slot=T0 + 40, slots=2), *early]
        + [row(at, at) for at in range(60, 101, STEP)],
        deliveries=[delivery(10, 10), delivery(20, 20), delivery(50, 22)]
        + [delivery(at, at) for at in range(60, 101, STEP)],
        faults=[fault(22, "clock-forward", 5, 1)],
        shifts=[(T0 + 22, 30.0), (T0 + 27, 0.0)],
    )


def asked(**policy: object) -> Operation:
    return operation("create", 0, when=When("interval", STEP), grid=T0 + STEP, policy=Policy(**policy))


def limited() -> History:
    """The same job, limited to three runs; then it ends and reports that."""
    return History(
        operations=[
            asked(max_runs=3),
            operation("pause", 60, outcome="refused", words="Job already completed: job_1"),
        ],
        rows=[
            row(10, 10),
            row(20, 20, "skipped", reason="The previous run was still running."),
            *(row(at, at) for at in (30, 40)),
        ],
        deliveries=[delivery(10, 10, held=9.5), delivery(30, 30), delivery(40, 40)],
        ended_at=ENDED_AT,
    )


def ending() -> History:
    """The same job, with an end after the third run."""
    return History(
        operations=[
            asked(ends_at=T0 + 35),
            operation("edit", 50, outcome="refused", words="already completed"),
        ],
        rows=[row(at, at) for at in (10, 20, 30)],
        deliveries=[delivery(at, at) for at in (10, 20, 30)],
        ended_at=ENDED_AT,
    )


def holding(overlap: str) -> History:
    """A target that answers too slowly once: the next run is skipped, waits, or overlaps."""
    following = {
        "skip": [row(30, 30, "skipped", reason="The previous run was still running.")],
        "queue": [row(30, 30, first_started_at=T0 + 34.2, finished_at=T0 + 35)],
        "allow": [row(30, 30, finished_at=T0 + 35)],
    }[overlap]
    second = {"skip": [], "queue": [delivery(30, 34.2, held=1.0)], "allow": [delivery(30, 30, held=4.0)]}
    slots = (10, *range(40, 101, STEP))
    return History(
        operations=[asked(overlap=overlap)],
        rows=[row(20, 20, finished_at=T0 + 34), *following, *(row(at, at) for at in slots)],
        deliveries=[delivery(20, 20, held=14.0), *second[overlap], *(delivery(at, at) for at in slots)],
        ended_at=ENDED_AT,
    )


def outage(catch_up: str) -> History:
    """No cluster runs from the second slot until after the ninth: most slots are missed, or all run late."""
    late = {"first_started_at": T0 + 95, "finished_at": T0 + 95.1}
    first = {"once": 90, "all": 20, "none": 40}[catch_up]
    made_up = (
        [row(at, at, **late) for at in range(first, 91, STEP)]
        if catch_up != "none"
        else [row(90, 90, **late)]
    )
    missed = [] if catch_up == "all" else [row(20, 20, "missed", last_slot=T0 + 80, slots=7)]
    return History(
        operations=[asked(catch_up=catch_up, overlap="allow")],
        rows=[row(10, 10), *missed, *made_up, row(100, 100)],
        deliveries=[delivery(10, 10), *(delivery(one.id, 95) for one in made_up), delivery(100, 100)],
        faults=[fault(15, "database-restart", 75, 5)],
        ended_at=ENDED_AT,
    )


def retried() -> History:
    """Two attempts were requested; a run whose worker was killed in the second has a third."""
    return quiet().with_(
        operations=[asked(attempts=2)],
        rows=[row(at, at) for at in range(10, 91, STEP)] + [row(100, 100, attempt=3, finished_at=T0 + 110)],
        deliveries=[delivery(at, at) for at in range(10, 91, STEP)]
        + [delivery(100, 100, "refused"), delivery(100, 102, attempt=2), delivery(100, 109, "repeated", 3)],
        faults=[fault(100, "target-500", 1, 1), fault(103, "kill-busy-worker", 0, 3)],
    )


def rescued(kind: str, *slots: int, struck: float = 50.2, held: float = 0.0, **values: object) -> History:
    """These slots were accepted, and delivered again after a fault."""
    hit = replace(fault(50.1, kind, 5), struck_at=T0 + struck)
    return quiet().with_(
        operations=[asked(**values)],
        rows=[replace(one, attempt=2) if one.id in slots else one for one in quiet().rows],
        deliveries=[replace(one, held=held) if one.execution in slots else one for one in quiet().deliveries]
        + [delivery(slot, 58, "repeated", attempt=2) for slot in slots],
        faults=[hit],
    )


def two_in_hand(seconds_apart: float, kind: str = "kill-leader") -> History:
    """A fault repeats two runs that were accepted at different moments."""
    one, other = delivery(50, 50), delivery(51, 50 + seconds_apart, key="other@51")
    return rescued(kind, 50).with_(
        rows=[*rescued(kind, 50).rows, replace(row(51, 50), job_id="other")],
        deliveries=[
            *(found for found in quiet().deliveries if found.execution != 50),
            one,
            other,
            delivery(50, 58, "repeated", attempt=2),
            replace(delivery(51, 58, "repeated", attempt=1, key="other@51"), attempt=0),
        ],
    )


def side_by_side(kind: str, *, at: float, struck: float | None = None) -> History:
    """Two runs of a job are held at the same moment, from 30 to 31 s; a fault of this kind began at `at`."""
    hit = replace(fault(at, kind, 1), struck_at=None if struck is None else T0 + struck)
    return add(holding("skip"), deliveries=[delivery(30, 30, held=1.0)], faults=[hit]).with_(
        rows=[
            replace(one, status="succeeded", attempt=1) if one.id == 30 else one
            for one in holding("skip").rows
        ]
    )


def set_back(*, slot: float, started: float) -> History:
    """The clock is half a minute ahead for five seconds; one run starts by the clock that was set back."""
    early = row(77, slot, first_started_at=T0 + started)
    return add(shifted(), rows=[early], deliveries=[delivery(77, 27.2, key=f"{JOB}@77")])


def ran_in_a_pause(*, slot: float, at: float) -> History:
    """A job was stopped after the clock had been half a minute ahead, and a slot of the time skipped ran at this moment."""
    return shifted().with_(
        operations=[*shifted().operations, operation("pause", 35)],
        rows=[one for one in shifted().rows if one.slot <= T0 + 30] + [row(50, slot)],
        deliveries=[delivery(10, 10), delivery(20, 20), delivery(50, at)],
    )


def twice_killed(*moments: float) -> History:
    """Two kills right after each other, and runs that were accepted at these moments and repeated later."""
    kills = [replace(fault(at, "kill-leader", 1), struck_at=T0 + at) for at in (50.1, 51.0)]
    runs = [(200 + number, moment) for number, moment in enumerate(moments)]
    return quiet().with_(
        rows=[*quiet().rows, *(replace(row(pk, at), job_id=f"other{pk}", attempt=2) for pk, at in runs)],
        deliveries=[
            *quiet().deliveries,
            *(delivery(pk, at, key=f"other{pk}@{pk}") for pk, at in runs),
            *(delivery(pk, 60, "repeated", 2, key=f"other{pk}@{pk}") for pk, at in runs),
        ],
        faults=kills,
    )


def failed_once(error: str = "odd") -> History:
    return swap(quiet(), 50, status="failed", error=error)


def late_by(seconds: float, kind: str) -> History:
    """One run starts late, while a fault of this kind is going on."""
    late = {"first_started_at": T0 + 50 + seconds, "finished_at": T0 + 51 + seconds}
    return swap(quiet(), 50, **late).with_(faults=[fault(48, kind, 25)])


def skewed(*, ahead: float) -> History:
    """A host whose clock is ahead delivers a little early by the clock of the target."""
    return quiet().with_(
        deliveries=[
            replace(one, at=T0 + 50 - ahead) if one.execution == 50 else one for one in quiet().deliveries
        ],
        faults=[fault(45, "skew-90", 12)],
    )


def edited_after(shifts: list[tuple[float, float]]) -> History:
    """A job at every full minute, told that it runs at T0 + 180; its edit before T0 + 120 is told the same."""
    return History(
        operations=[
            operation("create", 95, when=When("cron", 1), grid=T0 + 180),
            operation("edit", 105, grid=T0 + 180),
        ],
        rows=[row(180, 180)],
        deliveries=[delivery(180, 180)],
        shifts=shifts,
        ended_at=T0 + 200,
    )


def stopped_after_an_outage(*, deleted_at: float) -> History:
    """Two slots fall due during a database outage; the job is deleted as soon as it is over."""
    taken_away = "The job was deleted before this run."
    return quiet().with_(
        operations=[asked(overlap="allow"), operation("delete", deleted_at)],
        rows=[row(at, at) for at in range(10, 41, STEP)]
        + [row(50, 50, "skipped", last_slot=T0 + 60, slots=2, reason=taken_away, finished_at=T0 + 62)],
        deliveries=[delivery(at, at) for at in range(10, 41, STEP)],
        faults=[fault(48, "database-cut", 13, 3)],
    )


HIT, SPARED = "second", "up"


def on(history: History, host: str) -> History:
    """Let everything happen on one host, and the faults on the host that is hit."""
    return history.with_(
        rows=[replace(one, host=host) for one in history.rows],
        deliveries=[replace(one, host=host) for one in history.deliveries],
        faults=[replace(one, host=HIT) for one in history.faults],
    )


def late(host: str, kind: str, *, seconds: float = 8.0, struck: float) -> History:
    """A run that was due at 50 s started late on this host; a fault of this kind struck at a moment."""
    history = on(late_by(seconds, kind), host)
    return history.with_(faults=[replace(history.faults[0], struck_at=T0 + struck)])


def refused(error: str = "odd") -> History:
    """A leader is killed while the target refuses the only attempt of a run."""
    others = [one for one in quiet().deliveries if one.execution != 50]
    return failed_once(error).with_(
        faults=[fault(49, "kill-leader", 2)], deliveries=[*others, delivery(50, 50, "refused")]
    )


def held_for(job_id: str) -> History:
    """A job that is paused after its last run, while somebody holds the row of a job."""
    held = replace(fault(41, "held-row", seconds=60), job_id=job_id)
    return limited().with_(operations=[asked(max_runs=3), operation("pause", 90)], faults=[held])


def answered_late(kind: str, ahead: float, held: float) -> History:
    """An answer comes after `held` seconds, and a fault has shifted the clock that stamps the start."""
    history = swap(rescued(kind, 50, held=held), 50, first_started_at=T0 + 50.01 + ahead)
    return history.with_(shifts=[(T0 + 45, ahead), (T0 + 55, 0.0)])


CLEAN: dict[str, Callable[[], History]] = {
    "quiet": quiet,
    "eventful": eventful,
    "shifted": shifted,
    "limited": limited,
    "ending": ending,
    "retried": retried,
    "late in a rolling restart": lambda: late_by(1.5, "rolling-restart"),
    "taken over from a partitioned host": lambda: late_by(14, "partition"),
    "stuck pusher killed in time": lambda: quiet().with_(
        faults=[replace(fault(20, "stuck-pusher", 16), struck_at=T0 + 22)]
    ),
    "a clock that is wrong by less than can be measured": lambda: skewed(ahead=0.05),
    "counted": lambda: quiet().with_(jobs=[JobSummary(JOB, 10, "S" * 10), JobSummary("another", 3)]),
    "in hand at a kill": lambda: two_in_hand(0.2),
    "in hand at a crash of the database": lambda: two_in_hand(0.7, "database-crash"),
    "an answer after the caller gave up": lambda: rescued("migration", 50, held=4.0),
    "started before a freeze": lambda: rescued("freeze-cluster", 50),
    "side by side because a kill ended the caller of the first": lambda: side_by_side(
        "kill-busy-worker", at=29, struck=29.2
    ),
    "side by side because the answer was lost": lambda: side_by_side("target-cut", at=25),
    "claimed by a clock that was set back before the start": lambda: set_back(slot=55, started=27.2),
    "run by a wrong clock before its job was stopped": lambda: ran_in_a_pause(slot=50, at=22),
    "as much as two kills explain": lambda: twice_killed(50.0, 50.05, 50.9, 50.95),
    "lost at most once": lambda: swap(rescued("kill-leader", at_most_once=True), 50, status="lost"),
    "told by the answers while the clock was ahead": lambda: edited_after(
        [(T0 + 90.0, 35.0), (T0 + 100.0, -10.0), (T0 + 110.0, 0.0)]
    ),
    "deleted before the claim of slots that fell due in a fault": lambda: stopped_after_an_outage(
        deleted_at=62
    ),
    "not over because its row was held": lambda: held_for(JOB),
    "repeated on the host that was hit": lambda: on(rescued("kill-leader", 50), HIT),
    "late on the host that was hit": lambda: late(HIT, "freeze-worker", seconds=18, struck=45),
    "taken over from a host that died after the claim": lambda: late(SPARED, "kill-leader", struck=50.1),
    "failed on the host that was hit": lambda: on(refused(), HIT),
    **{f"overlap {name}": partial(holding, name) for name in ("skip", "queue", "allow")},
    **{f"catch-up {name}": partial(outage, name) for name in ("once", "all", "none")},
}


@pytest.mark.parametrize("make", CLEAN.values(), ids=CLEAN.keys())
def test_clean_history_has_no_violations(make: Callable[[], History]):
    assert check(make()) == []


def swap(history: History, number: int, **changes: object) -> History:
    return history.with_(rows=[replace(row, **changes) if row.id == number else row for row in history.rows])


def add(history: History, **more: list[object]) -> History:
    return history.with_(**{name: [*getattr(history, name), *values] for name, values in more.items()})


def without_row(history: History, number: int) -> History:
    return history.with_(
        rows=[row for row in history.rows if row.id != number],
        deliveries=[one for one in history.deliveries if one.execution != number],
    )


def after(**values: object) -> Callable[[], History]:
    return lambda: quiet().with_(aftermath=Aftermath(**values))


DEFECTS: list[tuple[str, str, Callable[[], History]]] = [
    ("lost", "a slot without a row", lambda: without_row(quiet(), 50)),
    ("lost", "a slot of the new schedule", lambda: without_row(eventful(), 99)),
    ("doubled", "two rows for a slot", lambda: add(quiet(), rows=[row(51, 50, "skipped")])),
    ("doubled", "a gap over a row", lambda: swap(eventful(), 40, last_slot=T0 + 60, slots=3)),
    ("unfinished", "a row still running", lambda: swap(quiet(), 50, status="running", finished_at=None)),
    (
        "undelivered",
        "a success that nobody received",
        lambda: quiet().with_(deliveries=[one for one in quiet().deliveries if one.execution != 50]),
    ),
    ("accepted twice", "the same key, twice", lambda: add(quiet(), deliveries=[delivery(50, 51)])),
    ("repeated", "a repeat without a fault", lambda: add(quiet(), deliveries=[delivery(50, 51, "repeated")])),
    (
        "repeated",
        "two repeats in one fault",
        lambda: add(eventful(), deliveries=[delivery(20, 28, "repeated", attempt=2)]),
    ),
    (
        "not run, yet delivered",
        "a skipped row that was delivered",
        lambda: add(eventful(), deliveries=[delivery(30, 30)]),
    ),
    ("unknown delivery", "a delivery of no row", lambda: add(quiet(), deliveries=[delivery(77, 77)])),
    (
        "missed",
        "missed on a quiet day",
        lambda: swap(without_row(quiet(), 0), 50, status="missed", attempt=0, first_started_at=None),
    ),
    ("failed", "a failure on a quiet day", lambda: swap(quiet(), 50, status="failed", error="odd")),
    ("failed", "lost on a quiet day", lambda: swap(quiet(), 50, status="lost")),
    (
        "skipped",
        "skipped while nothing was going on",
        lambda: swap(quiet(), 50, status="skipped", attempt=0, first_started_at=None),
    ),
    ("late", "late on a quiet day", lambda: swap(quiet(), 50, first_started_at=T0 + 52.0)),
    (
        "late",
        "later than a fault explains",
        lambda: swap(add(quiet(), faults=[fault(49)]), 50, first_started_at=T0 + 70.0),
    ),
    ("early", "started before its moment", lambda: swap(quiet(), 50, first_started_at=T0 + 49.5)),
    (
        "early",
        "delivered before its moment",
        lambda: quiet().with_(
            deliveries=[
                replace(one, at=T0 + 49.0) if one.execution == 50 else one for one in quiet().deliveries
            ]
        ),
    ),
    (
        "unasked",
        "run in a pause",
        lambda: add(swap(eventful(), 40, last_slot=T0 + 40.5, slots=1), rows=[row(50, 50)]),
    ),
    (
        "unasked",
        "run after a cancel",
        lambda: add(eventful(), rows=[row(113, 113)], deliveries=[delivery(113, 113)]),
    ),
    ("by hand", "an acknowledged run that left no row", lambda: without_row(eventful(), 900)),
    (
        "by hand",
        "a run by hand that nobody asked for",
        lambda: add(
            quiet(),
            rows=[row(900, 40, cause="manual")],
            deliveries=[delivery(900, 40, key=f"{JOB}@900-manual")],
        ),
    ),
    (
        "repeated",
        "a repeat after a fault that repeats nothing",
        lambda: eventful().with_(faults=[fault(20.5, "rolling-restart", 9), *eventful().faults[1:]]),
    ),
    ("repeated too much", "more than was in hand at a kill", lambda: two_in_hand(0.6)),
    ("repeated too much", "more than a crash loses", lambda: two_in_hand(1.2, "database-crash")),
    ("repeated", "a repeat after an answer in time", lambda: rescued("migration", 50, held=3.0)),
    ("at most once", "delivered twice", lambda: rescued("kill-leader", 50, at_most_once=True)),
    ("unending", "a run that nobody took over", lambda: swap(quiet(), 50, finished_at=T0 + 70)),
    ("counters", "a slot counted twice", lambda: quiet().with_(jobs=[JobSummary(JOB, 11, "S" * 10)])),
    ("counters", "a success counted twice", lambda: quiet().with_(jobs=[JobSummary(JOB, 10, "S" * 11)])),
    (
        "healing",
        "what the injector saw go wrong",
        lambda: quiet().with_(faults=[replace(fault(20), problem="2 runs were left")]),
    ),
    ("aftermath", "runs held after a clean stop", after(held_after_stop=1)),
    (
        "missed",
        "missed because of a lock on another job",
        lambda: add(
            swap(quiet(), 50, status="missed", attempt=0, first_started_at=None),
            faults=[replace(fault(45, "held-row", 8), job_id="other")],
        ),
    ),
    ("late", "taken over too late from a partitioned host", lambda: late_by(16, "partition")),
    ("attempts", "one attempt too many on a quiet day", lambda: retried().with_(faults=[])),
    ("attempts", "more attempts than any rescue gives", lambda: swap(retried(), 100, attempt=5)),
    (
        "overlap",
        "two at once where the second is to be skipped",
        lambda: add(holding("skip"), deliveries=[delivery(30, 30, held=1.0)]),
    ),
    (
        "overlap",
        "two at once where the second is to wait",
        lambda: add(holding("queue"), deliveries=[delivery(31, 31, held=1.0)]),
    ),
    ("overlap", "two at once before a fault", lambda: side_by_side("kill-busy-worker", at=36, struck=36)),
    ("early", "early near a shift, without a claim before it", lambda: set_back(slot=59, started=27.2)),
    ("unasked", "run by the right clock after the stop", lambda: ran_in_a_pause(slot=50, at=50)),
    ("repeated too much", "more than two kills explain", lambda: twice_killed(50.0, 50.75, 51.4)),
    (
        "missed",
        "missed while the web was down",
        lambda: add(
            swap(quiet(), 50, status="missed", attempt=0, first_started_at=None),
            faults=[fault(49, "kill-web")],
        ),
    ),
    ("skipped", "skipped where runs wait", lambda: swap(holding("queue"), 30, status="skipped", attempt=0)),
    (
        "catch-up",
        "the newest slot of a gap missed, too",
        lambda: swap(outage("once"), 90, status="missed", attempt=0, first_started_at=None),
    ),
    (
        "catch-up",
        "two slots of a gap made up for",
        lambda: add(
            outage("once").with_(rows=[one for one in outage("once").rows if one.status != "missed"]),
            rows=[row(20, 20, first_started_at=T0 + 95), row(30, 30, first_started_at=T0 + 95)],
        ),
    ),
    (
        "catch-up",
        "a gap where every slot should run",
        lambda: outage("all").with_(
            rows=[
                replace(one, status="missed", attempt=0, first_started_at=None) if one.id in (70, 80) else one
                for one in outage("all").rows
            ]
        ),
    ),
    (
        "catch-up",
        "an old slot run where none should be made up for",
        lambda: swap(outage("none"), 10, first_started_at=T0 + 105),
    ),
    (
        "limits",
        "accepted once more than the limit",
        lambda: add(limited(), deliveries=[delivery(50, 50)]),
    ),
    (
        "limits",
        "not over after the last run",
        lambda: limited().with_(operations=[asked(max_runs=3), operation("pause", 90)]),
    ),
    ("limits", "a run after the end", lambda: add(ending(), rows=[row(40, 40)])),
    ("lost", "the last slot before the end", lambda: without_row(ending(), 30)),
    ("healing", "a fault that healed too late", lambda: quiet().with_(faults=[fault(20, healing=30.0)])),
    ("aftermath", "a queue that is not empty", after(live_runs=1)),
    ("lost", "a slot that its job was not told of, by the right clock", lambda: edited_after([])),
    (
        "skipped",
        "skipped by a deletion without a fault",
        lambda: stopped_after_an_outage(deleted_at=62).with_(faults=[]),
    ),
    ("limits", "not over although the row of another job was held", lambda: held_for("job_2")),
    (
        "late",
        "late because of a lock on another job",
        lambda: late_by(5, "held-row").with_(faults=[replace(fault(45, "held-row", 8), job_id="other")]),
    ),
    ("repeated", "answered in time by a clock ahead", lambda: answered_late("clock-forward", 100, 3.0)),
    ("repeated", "answered in time by a clock behind", lambda: answered_late("clock-back", -100, 0.0)),
    ("repeated", "repeated on a host that was spared", lambda: on(rescued("kill-leader", 50), SPARED)),
    (
        "overlap",
        "two at once on a host that was spared",
        lambda: on(side_by_side("kill-busy-worker", at=29, struck=29.2), SPARED),
    ),
    *(
        ("late", f"late on another host than that of {kind}", partial(late, SPARED, kind, struck=40))
        for kind in ("kill-pusher", "freeze-cluster", "partition")
    ),
    ("late", "due after another host died", lambda: late(SPARED, "kill-leader", struck=45)),
    ("late", "taken over too late", lambda: late(SPARED, "freeze-worker", seconds=18, struck=45)),
    ("failed", "failed on a host that was spared", lambda: on(refused(), SPARED)),
    (
        "failed",
        "failed in a change of the secret key",
        lambda: failed_once().with_(faults=[fault(30, "key-rotation", 40)]),
    ),
    (
        "failed",
        "a secret that no key can read",
        lambda: refused(f"The secret CAMPAIGN {UNREADABLE}: write it again."),
    ),
    ("early", "early on a host whose clock is right", lambda: on(skewed(ahead=0.05), SPARED)),
    ("wings", "a false alarm", lambda: quiet().with_(wings=["a false alarm"])),
]


@pytest.mark.parametrize(
    ("rule", "make"), [(rule, make) for rule, _, make in DEFECTS], ids=[words for _, words, _ in DEFECTS]
)
def test_seeded_defect_is_reported(rule: str, make: Callable[[], History]):
    assert rule in {violation.rule for violation in check(make())}


def test_every_rule_has_a_seeded_defect():
    assert {rule for rule, _, _ in DEFECTS} == set(RULES)
