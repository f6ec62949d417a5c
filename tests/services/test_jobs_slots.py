"""Slots of jobs that are edited, paused, deleted or restored: each gets exactly one row."""

from collections import Counter
from datetime import datetime, timedelta

import pytest

from schedules import clock, engine, services
from schedules.models import Execution
from tests.factories import ClusterFactory
from tests.services.conftest import NOW
from tests.services.made_jobs import CRON, INTERVAL, PLAIN, create_job, value_of

SCRIPTS = {
    "cancelled on time": [],
    "paused": [(7, "pause"), (22, "resume")],
    "paused and resumed on the slot": [(10, "pause"), (20, "resume")],
    "paused twice in a moment": [(10, "pause"), (10, "resume"), (10, "pause")],
    "paused long after nobody fired it": [(33, "pause"), (34, "resume")],
    "cancelled in the pause": [(7, "pause")],
    "deleted and restored": [(12, "delete"), (27, "restore")],
    "deleted and restored on the slot": [(15, "delete"), (25, "restore")],
    "deleted in the pause": [(5, "pause"), (15, "delete"), (25, "restore"), (30, "resume")],
    "deleted in the pause and cancelled": [(7, "pause"), (13, "delete"), (27, "restore")],
    "edited": [(12, "edit")],
    "edited on the slot": [(10, "edit")],
    "edited in the pause": [(7, "pause"), (15, "edit"), (26, "resume")],
    "all of it": [(5, "pause"), (10, "edit"), (20, "resume"), (25, "delete"), (35, "restore"), (36, "edit")],
}


@pytest.mark.parametrize(
    ("trigger", "script"),
    [*((CRON, script) for script in SCRIPTS.values()), (INTERVAL, SCRIPTS["all of it"])],
    ids=[*SCRIPTS, "interval"],
)
def test_every_slot_is_accounted_for_exactly_once(actor, time_machine, trigger, script):
    job = value_of(services.schedule(actor, **PLAIN, **trigger)).job
    for count, (minute, verb) in enumerate(script):
        time_machine.move_to(NOW + timedelta(minutes=minute), tick=False)
        changes = {"max_runs": 100 + count} if verb == "edit" else {}
        value_of(getattr(services, verb)(actor, job.public_id, **changes))

    time_machine.move_to(NOW + timedelta(minutes=40), tick=False)
    value_of(services.cancel(actor, job.public_id))

    slots = Counter(slot for row in job.executions.all() for slot in slots_of(row))
    assert slots == Counter(NOW + timedelta(minutes=minute) for minute in range(5, 41, 5))
    assert set(job.executions.values_list("status", flat=True)) == {"skipped"}


AFTER_A_CLOCK_ROLLBACK = {
    "edited": ["edit"],
    "deleted and restored": ["delete", "restore"],
    "paused and resumed": ["pause", "resume"],
    "edited in a pause": ["pause", "edit", "resume"],
    "deleted in a pause": ["pause", "delete", "restore", "resume"],
}


@pytest.mark.parametrize(
    ("trigger", "catch_up", "verbs"),
    [
        *((CRON, "once", verbs) for verbs in AFTER_A_CLOCK_ROLLBACK.values()),
        (INTERVAL, "all", AFTER_A_CLOCK_ROLLBACK["deleted in a pause"]),
        (CRON, "none", AFTER_A_CLOCK_ROLLBACK["edited in a pause"]),
    ],
    ids=[*AFTER_A_CLOCK_ROLLBACK, "all", "none"],
)
def test_every_slot_has_one_row_after_the_clock_was_ahead(actor, time_machine, trigger, catch_up, verbs):
    """The clock is an hour ahead while the job is claimed; then it is corrected."""
    job = value_of(services.schedule(actor, **PLAIN, **trigger, catch_up=catch_up, overlap="allow")).job
    cluster = ClusterFactory()
    time_machine.move_to(NOW + timedelta(minutes=63), tick=False)
    ran_ahead = len(engine.claim_runs(cluster.pk, clock.now(), 100))
    for minute, verb in enumerate(verbs, 11):
        time_machine.move_to(NOW + timedelta(minutes=minute), tick=False)
        changes = {"max_runs": 1000} if verb == "edit" else {}
        value_of(getattr(services, verb)(actor, job.public_id, **changes))

    ran = 0
    # Slots fall every five minutes; a wrong one in between would show up at the next claim.
    for minute in (16, *range(20, 91, 5)):
        time_machine.move_to(NOW + timedelta(minutes=minute), tick=False)
        ran += len(engine.claim_runs(cluster.pk, clock.now(), 100))

    slots = Counter(slot for row in job.executions.all() for slot in slots_of(row))
    assert slots == Counter(NOW + timedelta(minutes=minute) for minute in range(5, 91, 5))
    # From minute 15 to minute 90 each slot runs, except those that ran while the clock was ahead.
    assert ran == 16 - {"once": 1, "all": 10, "none": 0}[catch_up]
    assert ran_ahead == {"once": 1, "all": 12, "none": 0}[catch_up]


def slots_of(row: Execution) -> list[datetime]:
    """Return the slots of a row: its own, or every five minutes from the first to the last of a gap."""
    slots = [row.scheduled_for + timedelta(minutes=5) * number for number in range(row.slots)]
    assert slots[-1] == (row.last_slot or row.scheduled_for)
    return slots


def test_slots_skipped_by_a_pause_have_its_reason(actor, time_machine):
    job = create_job(actor)
    services.pause(actor, job.public_id, reason="holidays")
    time_machine.shift(timedelta(hours=1))

    services.cancel(actor, job.public_id)

    gap = job.executions.get()
    assert (gap.slots, gap.reason) == (12, "Paused: holidays")


def test_slots_after_the_end_of_a_job_are_not_recorded(actor, time_machine):
    job = create_job(actor, ends_at=NOW + timedelta(minutes=11))
    time_machine.shift(timedelta(hours=1))

    services.cancel(actor, job.public_id)

    assert job.executions.get().slots == 2
