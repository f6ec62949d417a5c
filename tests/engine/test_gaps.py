"""Slots as rows of the ledger, and gap rows."""

from datetime import timedelta

import pytest

from schedules import engine
from schedules.engine.gaps import Slot, gap_between, unrecorded
from schedules.models import Execution, Job
from tests.engine.conftest import NOW, ledger
from tests.factories import ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)

Status = Execution.Status


def hourly(**fields):
    return JobFactory(**{"cron": "0 * * * *", "next_run_at": NOW, "created_at": NOW} | fields)


def unstored():
    return Job(trigger_type="cron", cron="0 * * * *", next_run_at=NOW, created_at=NOW)


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        pytest.param(None, NOW, None, id="no slots"),
        pytest.param(NOW + HOUR, NOW, None, id="not yet"),
        pytest.param(NOW, NOW, (NOW, 1, None), id="one"),
        pytest.param(NOW - HOUR, NOW + HOUR, (NOW - HOUR, 3, NOW + HOUR), id="three"),
        pytest.param(NOW + timedelta(seconds=1), NOW + timedelta(seconds=9), None, id="between slots"),
    ],
)
def test_gap_is_written_as_one_skipped_row(since, until, expected):
    job = hourly()

    engine.account_for(job, since, until, "why")

    row = Execution.objects.first()
    assert (row and (row.scheduled_for, row.slots, row.last_slot)) == expected
    if row:
        assert (row.status, row.reason, row.finished_at) == ("skipped", "why", until)
    assert Execution.objects.count() == bool(expected)


def test_gap_does_not_extend_beyond_the_end_of_the_job():
    engine.account_for(hourly(ends_at=NOW + HOUR), NOW, NOW + 9 * HOUR, "why")

    assert Execution.objects.get().slots == 2


def test_gap_leaves_out_slots_that_already_have_a_row():
    job = hourly()
    ExecutionFactory(job=job, scheduled_for=NOW)
    ExecutionFactory(job=job, scheduled_for=NOW + 3 * HOUR, cause="manual")

    engine.account_for(job, NOW, NOW + 4 * HOUR, "why")

    assert ledger(job)[:2] == [("succeeded", NOW), ("skipped", NOW + HOUR)]
    assert Execution.objects.get(status="skipped").slots == 4


def test_slots_inside_an_existing_gap_are_not_written_again():
    job = hourly()
    engine.account_for(job, NOW, NOW + 4 * HOUR, "why")

    engine.account_for(job, NOW + 2 * HOUR, NOW + 5 * HOUR, "again")

    assert ledger(job) == [("skipped", NOW), ("skipped", NOW + 5 * HOUR)]


@pytest.mark.parametrize("broken", [{"timezone": "Mars/Olympus"}, {"cron": "nonsense"}])
def test_invalid_schedule_writes_no_gap(broken):
    engine.account_for(hourly(**broken), NOW, NOW + HOUR, "why")

    assert not Execution.objects.exists()


@pytest.mark.parametrize(
    ("first", "until", "expected"),
    [
        (NOW, NOW, (NOW, None, 1)),
        (NOW, NOW + 59 * MINUTE, (NOW, None, 1)),
        (NOW + SECOND, NOW + 3 * HOUR, (NOW + HOUR, NOW + 3 * HOUR, 3)),
        (NOW + SECOND, NOW + MINUTE, None),
        (NOW + HOUR, NOW, None),
    ],
)
def test_gap_begins_and_ends_with_a_slot(first, until, expected):
    slot = gap_between(unstored(), first, until, Status.SKIPPED, "why")

    assert (slot and (slot.at, slot.last, slot.count)) == expected


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param([], [(0, 5)], id="none"),
        pytest.param([(0, 0)], [(1, 5)], id="the first"),
        pytest.param([(5, 5)], [(0, 4)], id="the last"),
        pytest.param([(2, 2)], [(0, 1), (3, 5)], id="one between"),
        pytest.param([(-3, 1), (4, 9)], [(2, 3)], id="gaps that extend beyond"),
        pytest.param([(1, 4), (2, 2)], [(0, 0), (5, 5)], id="one inside a gap"),
        pytest.param([(0, 5)], [], id="all"),
        pytest.param([(7, 9)], [(0, 5)], id="later ones"),
    ],
)
def test_remaining_slots_are_those_without_a_row(known, expected):
    gap = Slot(NOW, Status.MISSED, reason="why", last=NOW + 5 * HOUR, count=6)
    spans = [(NOW + first * HOUR, NOW + last * HOUR) for first, last in known]

    pieces = unrecorded(unstored(), gap, spans)

    assert [(piece.at, piece.last or piece.at) for piece in pieces] == [
        (NOW + first * HOUR, NOW + last * HOUR) for first, last in expected
    ]
    assert [piece.count for piece in pieces] == [last - first + 1 for first, last in expected]


@pytest.mark.parametrize(("known", "is_kept"), [((0, 0), False), ((-1, 1), False), ((1, 1), True)])
def test_single_slot_that_already_has_a_row_is_left_out(known, is_kept):
    slot = Slot(NOW, Status.CLAIMED)
    spans = [(NOW + known[0] * HOUR, NOW + known[1] * HOUR)]

    assert unrecorded(unstored(), slot, spans) == ([slot] if is_kept else [])
