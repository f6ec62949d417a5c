"""The judge is judged: every kind of defect is caught, and histories without one raise no alarm."""

from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from tests.faults import report
from tests.faults.checker import RULES, Bounds, check
from tests.faults.records import Aftermath, Delivery, Fault, History, Operation, Row, When

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
    return Delivery(T0 + at + 0.02, number, values.pop("key", f"key {number}"), attempt, verdict)


def fault(at: float, kind: str = "kill-pusher", seconds: float = 0.0, healing: float | None = 2.0) -> Fault:
    began_at = T0 + at
    ended_at = began_at + seconds
    return Fault(kind, began_at, ended_at, None if healing is None else ended_at + healing)


def quiet() -> History:
    """A job every ten seconds, created in the beginning, and nothing goes wrong."""
    slots = range(STEP, 101, STEP)
    return History(
        operations=[operation("create", 0, when=When("interval", STEP), grid=T0 + STEP)],
        rows=[row(at, at) for at in slots],
        deliveries=[delivery(at, at) for at in slots],
        ended_at=ENDED_AT,
    )


def eventful() -> History:
    """The same job, paused, resumed, edited, run by hand and cancelled, among faults of several kinds."""
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
            # Killed after it was accepted, and taken up again.
            row(20, 20, attempt=2, finished_at=T0 + 29),
            row(30, 30, "skipped", reason="The run before it was still going.", finished_at=T0 + 30),
            row(900, 40.1, cause="manual"),
            row(901, 41.1, cause="manual"),
            row(40, 40, "skipped", last_slot=T0 + 50, slots=2, reason="Paused: no reason given"),
            row(60, 60, "missed", reason="No worker was running."),
            row(70, 70, first_started_at=T0 + 78.0, finished_at=T0 + 78.1),
            row(80, 80, "failed", error="127.0.0.1 did not answer", finished_at=T0 + 81),
            row(92, 92),
            row(99, 99),
            row(106, 106, "cancelled", reason="The job was cancelled before it could run."),
        ],
        deliveries=[
            delivery(10, 10),
            delivery(20, 20),
            delivery(20, 29, "repeated", attempt=2),
            delivery(900, 40.1, key="key 900-manual"),
            delivery(901, 41.1, key="key 901-manual"),
            delivery(70, 78),
            delivery(80, 80, "refused"),
            delivery(92, 92),
            delivery(99, 99),
        ],
        faults=[fault(20.5), fault(60, "database-restart", 12, 3), fault(79, "target-500", 3, 1)],
        ended_at=ENDED_AT + 20,
    )


def shifted() -> History:
    """The clock goes forward by half a minute and back: nothing is early, and nothing is repeated."""
    early = [row(at, at, first_started_at=T0 + at + 0.5) for at in (50,)]
    return quiet().with_(
        rows=[row(10, 10), row(20, 20), row(30, 30, "missed", last_slot=T0 + 40, slots=2), *early]
        + [row(at, at) for at in range(60, 101, STEP)],
        deliveries=[delivery(10, 10), delivery(20, 20), delivery(50, 22)]
        + [delivery(at, at) for at in range(60, 101, STEP)],
        faults=[fault(22, "clock-forward", 5, 1)],
        shifts=[(T0 + 22, 30.0), (T0 + 27, 0.0)],
    )


@pytest.mark.parametrize("make", [quiet, eventful, shifted])
def test_a_clean_history_raises_no_alarm(make: Callable[[], History]):
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
    ("lost", "a slot after a resume", lambda: without_row(eventful(), 70)),
    ("lost", "a slot of the new schedule", lambda: without_row(eventful(), 99)),
    ("doubled", "two rows for a slot", lambda: add(quiet(), rows=[row(51, 50, "skipped")])),
    ("doubled", "a gap over a row", lambda: swap(eventful(), 40, last_slot=T0 + 60, slots=3)),
    ("unfinished", "a row still running", lambda: swap(quiet(), 50, status="running", finished_at=None)),
    ("unfinished", "a row still queued", lambda: swap(quiet(), 50, status="queued", finished_at=None)),
    (
        "undelivered",
        "a success that nobody received",
        lambda: quiet().with_(deliveries=[one for one in quiet().deliveries if one.execution != 50]),
    ),
    ("accepted twice", "the same key, twice", lambda: add(quiet(), deliveries=[delivery(50, 51)])),
    (
        "accepted twice",
        "two keys for an execution",
        lambda: add(quiet(), deliveries=[delivery(50, 51, "refused", key="another")]),
    ),
    (
        "accepted twice",
        "one key for two executions",
        lambda: add(quiet(), deliveries=[delivery(60, 61, "refused", key="key 50")]),
    ),
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
    (
        "not run, yet delivered",
        "a missed row that was delivered",
        lambda: add(eventful(), deliveries=[delivery(60, 61)]),
    ),
    ("not run, yet delivered", "a cancelled row that was started", lambda: swap(eventful(), 106, attempt=1)),
    ("unknown delivery", "a delivery of no row", lambda: add(quiet(), deliveries=[delivery(77, 77)])),
    (
        "unknown delivery",
        "an attempt the row does not know",
        lambda: add(quiet(), deliveries=[delivery(50, 51, "refused", attempt=4)]),
    ),
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
        "run by the old schedule after an edit",
        lambda: add(eventful(), rows=[row(95, 95)], deliveries=[delivery(95, 95)]),
    ),
    (
        "unasked",
        "run after a cancel",
        lambda: add(eventful(), rows=[row(113, 113)], deliveries=[delivery(113, 113)]),
    ),
    (
        "unasked",
        "run after a delete",
        lambda: add(quiet(), operations=[operation("delete", 75)]),
    ),
    ("by hand", "an acknowledged run that left no row", lambda: without_row(eventful(), 900)),
    (
        "by hand",
        "a run by hand that nobody asked for",
        lambda: add(
            quiet(),
            rows=[row(900, 40, cause="manual")],
            deliveries=[delivery(900, 40, key="key 900-manual")],
        ),
    ),
    ("healing", "a fault that healed too late", lambda: quiet().with_(faults=[fault(20, healing=30.0)])),
    ("healing", "a fault that never healed", lambda: quiet().with_(faults=[fault(20, healing=None)])),
    ("aftermath", "a cluster that is not fresh", after(fresh_workers=1)),
    ("aftermath", "a queue that is not empty", after(live_runs=1)),
    ("aftermath", "jobs that are overdue", after(overdue_jobs=2)),
    ("aftermath", "a process left behind", after(orphans=["123 qcluster"])),
    ("aftermath", "leaked connections", after(connections=99)),
]


@pytest.mark.parametrize(
    ("rule", "make"), [(rule, make) for rule, _, make in DEFECTS], ids=[words for _, words, _ in DEFECTS]
)
def test_a_seeded_defect_is_caught(rule: str, make: Callable[[], History]):
    assert rule in {violation.rule for violation in check(make())}


def test_every_rule_has_a_seeded_defect():
    assert {rule for rule, _, _ in DEFECTS} == set(RULES)


def test_a_job_of_which_an_answer_is_unknown_is_owed_nothing():
    unsure = add(without_row(quiet(), 80), operations=[operation("pause", 75, outcome="unknown")])

    assert check(unsure) == []


def test_a_job_that_failed_too_often_pauses_itself():
    failing = quiet().with_(
        operations=[operation("create", 0, when=When("interval", 5), grid=T0 + 5)],
        rows=[row(at, at, "failed") for at in range(5, 51, 5)],
        deliveries=[],
        faults=[fault(0, "target-500", 60)],
    )

    assert check(failing) == []


def test_a_slow_machine_stretches_only_what_is_work():
    assert Bounds(pace=3).heals_within("kill-web") == 15 + 2 * Bounds().work
    assert Bounds().heals_within("database-restart") == 30


@pytest.mark.parametrize(
    ("when", "slots"),
    [
        (When("once", T0 + 5), [T0 + 5]),
        (When("once", T0 + 50), []),
        (When("interval", 7), [T0 + 3, T0 + 10, T0 + 17]),
        (When("cron", 1), [T0 + 0] if T0 % 60 == 0 else []),
    ],
)
def test_the_checker_counts_slots_by_itself(when: When, slots: list[int]):
    assert when.slots(T0 + 24, T0 - 1, T0 + 20) == slots


def test_the_report_names_what_happened_and_the_picture_is_one():
    history = eventful()

    text = report.table(history, Bounds(), check(history))
    picture = ElementTree.fromstring(report.picture(history))  # noqa: S314

    assert "violations 0" in text
    assert all(fault.kind in text for fault in history.faults)
    assert picture.tag.endswith("svg")


def test_records_are_read_back_as_they_were_kept(tmp_path):
    report.save(shifted(), tmp_path / "history.json")

    kept = report.load(tmp_path / "history.json")

    assert (kept.operations, kept.rows, kept.deliveries) == (
        shifted().operations,
        shifted().rows,
        shifted().deliveries,
    )
    assert (kept.faults, kept.shifts) == (shifted().faults, shifted().shifts)
    assert check(kept) == []


def test_a_short_campaign_is_no_proof():
    assert len(report.shortfalls(quiet(), kinds=15, faults=10, slots=10_000)) == 2
    assert not report.shortfalls(eventful(), kinds=3, faults=1, slots=10)
