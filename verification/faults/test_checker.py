"""The checker reports every kind of defect, and reports nothing for histories without one."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pytest

from verification.faults import report
from verification.faults.checker import RULES, check
from verification.faults.excuses import Bounds
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
from verification.faults.repeats import repeats_have_a_reason

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
    ("wings", "a false alarm", lambda: quiet().with_(wings=["a false alarm"])),
]


@pytest.mark.parametrize(
    ("rule", "make"), [(rule, make) for rule, _, make in DEFECTS], ids=[words for _, words, _ in DEFECTS]
)
def test_seeded_defect_is_reported(rule: str, make: Callable[[], History]):
    assert rule in {violation.rule for violation in check(make())}


def test_every_rule_has_a_seeded_defect():
    assert {rule for rule, _, _ in DEFECTS} == set(RULES)


def test_job_in_an_unknown_state_may_run_after_it_is_restored():
    history = quiet().with_(
        operations=[
            *quiet().operations,
            operation("pause", 12, outcome="unknown"),
            operation("delete", 21),
            operation("restore", 23),
        ]
    )

    assert check(history) == []


def test_edit_after_the_clock_was_set_back_withdraws_later_missed_slots():
    """At 62 the clock says 32: the slots of 40 and 50 are in the future, and the new schedule does not include them."""
    rows = [row(at, at) for at in (10, 20, 30)] + [row(at, at) for at in (85, 92, 99)]
    history = quiet().with_(
        operations=[
            *quiet().operations,
            operation("pause", 54),
            operation("resume", 56, grid=T0 + 60),
            operation("edit", 62, when=When("interval", 7), grid=T0 + 85),
        ],
        rows=rows,
        deliveries=[delivery(item.id, item.id) for item in rows],
        shifts=[(T0 + 61.0, -30.0), (T0 + 66.0, 0.0)],
        faults=[fault(61, "clock-back", 5, 1)],
    )

    assert check(history) == []


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


def test_job_created_while_the_clock_was_ahead_runs_when_its_answers_say():
    """At 95 the clock says 130; at 105 it says 95, and the slot of 120 is in the future again."""
    assert check(edited_after([(T0 + 90.0, 35.0), (T0 + 100.0, -10.0), (T0 + 110.0, 0.0)])) == []


def test_answer_excuses_no_lost_slot_while_the_clock_is_right():
    assert [found.rule for found in check(edited_after([]))] == ["lost"]


@pytest.mark.parametrize(("job_id", "is_reported"), [(JOB, False), ("job_2", True)])
def test_job_whose_row_is_held_may_be_stopped_after_its_last_run(job_id, is_reported):
    held = replace(fault(41, "held-row", seconds=60), job_id=job_id)
    history = limited().with_(operations=[asked(max_runs=3), operation("pause", 90)], faults=[held])

    assert ("limits" in {violation.rule for violation in check(history)}) == is_reported


def test_run_limit_with_an_unknown_answer_is_neither_required_nor_violated():
    raised = operation("edit", 38, outcome="unknown", policy=Policy(max_runs=6))

    assert check(add(limited(), operations=[raised])) == []


def test_run_claimed_before_a_clock_jump_is_not_a_catch_up_run():
    """It was claimed on time and started when the clock was two minutes ahead; later runs use the correct time."""
    leapt = quiet().with_(
        operations=[asked(catch_up="none")],
        rows=[
            replace(one, first_started_at=T0 + 141, finished_at=T0 + 141.1) if one.id == 20 else one
            for one in quiet().rows
        ],
        faults=[fault(20.5, "clock-forward", 4, 1)],
        shifts=[(T0 + 20.5, 120.0), (T0 + 24.5, 0.0)],
    )

    assert check(leapt) == []


def queue_at_a_clock_jump(*, others: Sequence[Delivery]) -> History:
    """A long run delays two more, and the clock jumps ahead by two minutes while they are queued."""
    waited = {"first_started_at": T0 + 172, "finished_at": T0 + 173}
    return quiet().with_(
        operations=[asked(overlap="queue")],
        rows=[
            row(10, 10, finished_at=T0 + 171),
            *(row(at, at, **waited) for at in (20, 30)),
            *(row(at, at) for at in range(40, 101, STEP)),
        ],
        deliveries=[delivery(10, 10, held=41.0), *others, *(delivery(at, at) for at in range(60, 101, STEP))]
        + [delivery(at, 51 + at / 20) for at in (20, 30, 40, 50)],
        faults=[fault(45, "clock-forward", 8, 1)],
        shifts=[(T0 + 45, 120.0), (T0 + 53, 0.0)],
    )


def test_runs_queued_before_a_clock_jump_are_not_catch_up_runs():
    """A later row of another job was delivered before the jump, so these rows existed by then."""
    arrived = [delivery(31, 31, key="other@31")]

    assert not [found for found in check(queue_at_a_clock_jump(others=arrived)) if found.rule == "catch-up"]


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


def test_slots_due_in_a_fault_may_be_skipped_by_a_deletion_before_their_claim():
    assert check(stopped_after_an_outage(deleted_at=62)) == []


def test_slots_skipped_without_a_fault_are_reported():
    without_faults = stopped_after_an_outage(deleted_at=62).with_(faults=[])

    assert "skipped" in {found.rule for found in check(without_faults)}


def poisoned(*, last_attempt: float) -> History:
    """A poisoned job kills its worker in each attempt; the last one also interrupts a normal run."""
    poison = Row(
        15,
        "poison",
        T0 + 40,
        "lost",
        attempt=3,
        started_at=T0 + last_attempt,
        task="faults.poison",
        cause="manual",
    )
    return quiet().with_(
        rows=[replace(one, attempt=2, finished_at=T0 + 56) if one.id == 50 else one for one in quiet().rows]
        + [replace(poison, first_started_at=T0 + 40, finished_at=T0 + 56)],
        deliveries=[*quiet().deliveries, delivery(50, 54, "repeated", attempt=2)],
        faults=[fault(40, "poisoned-job", 0, 4)],
    )


@pytest.mark.parametrize(
    ("kind", "ahead", "held", "is_reported"),
    [
        ("clock-forward", 100, 4.0, False),
        ("clock-forward", 100, 3.0, True),
        ("clock-back", -100, 4.0, False),
        ("clock-back", -100, 0.0, True),
    ],
)
def test_late_answer_explains_a_repeat_by_the_clock_of_the_sink(kind, ahead, held, is_reported):
    """The start is stamped by the product's clock, which the fault has shifted."""
    history = swap(rescued(kind, 50, held=held), 50, first_started_at=T0 + 50.01 + ahead)
    shifted = history.with_(shifts=[(T0 + 45, ahead), (T0 + 55, 0.0)])

    assert bool(list(repeats_have_a_reason(shifted, Bounds()))) == is_reported


def test_poisoned_job_explains_repeats_until_its_last_attempt():
    assert check(poisoned(last_attempt=51)) == []


def test_clock_jump_forward_right_after_a_jump_back_explains_early_runs():
    """The runs of the minute that the clock showed are expected, although the job is cancelled before that minute."""
    slots = range(STEP, 41, STEP)
    jumped = History(
        operations=[
            operation("create", 0, when=When("interval", STEP), grid=T0 + STEP),
            operation("cancel", 25),
        ],
        rows=[row(at, at, first_started_at=T0 + max(at, 47), finished_at=T0 + 48) for at in slots],
        deliveries=[delivery(at, 17) for at in slots],
        faults=[fault(9, "clock-back", 5, 1), fault(15.5, "clock-forward", 5, 1)],
        shifts=[(T0 + 9, -31.0), (T0 + 14, 0.0), (T0 + 15.5, 30.0), (T0 + 20.5, 0.0)],
        ended_at=ENDED_AT,
    )

    assert "unasked" not in {found.rule for found in check(jumped)}


def test_rescue_is_recognised_even_if_it_ended_after_the_clock_was_set_back():
    rescued = quiet().with_(
        operations=[asked(attempts=1)],
        rows=[
            replace(one, attempt=2, started_at=T0 + 58, finished_at=T0 + 30) if one.id == 50 else one
            for one in quiet().rows
        ],
        faults=[fault(51, "kill-leader", 0, 5), fault(58.5, "clock-back", 5, 1)],
        shifts=[(T0 + 58.5, -30.0), (T0 + 63.5, 0.0)],
    )

    assert check(rescued) == []


def test_automatic_pause_after_failures_is_expected():
    failing = quiet().with_(
        operations=[operation("create", 0, when=When("interval", 5), grid=T0 + 5)],
        rows=[row(at, at, "failed") for at in range(5, 51, 5)],
        deliveries=[],
        faults=[fault(0, "target-500", 60)],
    )

    assert check(failing) == []


@pytest.mark.parametrize(("paused_at", "is_expected"), [(50.02, True), (50.4, False)])
def test_slot_in_the_second_of_an_automatic_pause_is_skipped_after_it_only(
    paused_at: float, is_expected: bool
):
    failed = [row(at, at + 0.3, "failed", finished_at=T0 + min(at + 0.9, paused_at)) for at in range(41, 50)]
    last = row(1, 40.3, "failed", finished_at=T0 + paused_at)
    skipped = row(
        2, 50.3, "skipped", reason="Paused: Paused after 10 failures in a row.", finished_at=T0 + 60
    )
    paused = quiet().with_(
        operations=[
            operation("create", 39.5, when=When("interval", 1), grid=T0 + 40, policy=Policy(overlap="allow"))
        ],
        rows=[last, *failed, skipped],
        deliveries=[],
        faults=[fault(0, "target-500", 60)],
    )

    found = [violation for violation in check(paused) if violation.rule == "skipped"]

    assert (found == []) is is_expected


def test_checker_computes_slots_independently():
    for when, slots in [
        (When("once", T0 + 5), [T0 + 5]),
        (When("once", T0 + 50), []),
        (When("interval", 7), [T0 + 3, T0 + 10, T0 + 17]),
        (When("cron", 1), [T0 + 0] if T0 % 60 == 0 else []),
    ]:
        assert when.slots(T0 + 24, T0 - 1, T0 + 20) == slots


@pytest.mark.parametrize(("healing", "verdict"), [(14.9, "met"), (15.1, "not met"), (None, "not met")])
def test_report_compares_recovery_with_the_promised_limit(healing: float | None, verdict: str):
    """A slow machine widens the limit of the checker, but not the promised limit in the table."""
    history = quiet().with_(faults=[fault(20, healing=5.0), fault(40, healing=healing)])

    text = report.table(history, Bounds(pace=2.0), [])

    line = next(line for line in text.splitlines() if line.startswith("kill-pusher"))
    assert f"15 s  {verdict} " in line
    assert "   20 s " in line


def test_fault_that_concerns_another_job_excuses_the_job_that_it_concerns():
    late = swap(quiet(), 50, first_started_at=T0 + 55.0)
    held = replace(fault(45, "held-row", 8), job_id=JOB)

    assert check(late.with_(faults=[held])) == []
    assert {found.rule for found in check(late.with_(faults=[replace(held, job_id="other")]))} == {"late"}


def test_saved_records_are_loaded_unchanged(tmp_path):
    report.save(limited(), tmp_path / "limited.json")
    report.save(shifted(), tmp_path / "history.json")

    kept = report.load(tmp_path / "history.json")

    assert (kept.operations, kept.rows, kept.deliveries) == (
        shifted().operations,
        shifted().rows,
        shifted().deliveries,
    )
    assert report.load(tmp_path / "limited.json").operations == limited().operations
    assert (kept.faults, kept.shifts) == (shifted().faults, shifted().shifts)
    assert check(kept) == []


def test_short_campaign_is_reported_as_too_short():
    assert len(report.shortfalls(quiet(), kinds=15, faults=10, slots=10_000)) == 2
    assert not report.shortfalls(eventful(), kinds=3, faults=1, slots=10)
