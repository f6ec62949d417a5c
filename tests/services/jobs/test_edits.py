"""Editing jobs: conflicts, triggers and recorded events."""

import itertools
from datetime import timedelta

import pytest
from django.db import connection

from schedules import clock, engine, services
from schedules.mcp.answers.refusals import message_of
from schedules.models import Event, Job
from schedules.result import Err, Kind
from tests.factories import ClusterFactory, JobFactory
from tests.services.conftest import NOW
from tests.services.made_jobs import (
    CRON,
    INTERVAL,
    ONCE,
    PLAIN,
    Status,
    create_job,
    cron,
    interval,
    meanwhile,
    once,
    value_of,
    verbs_on,
)


def test_edit_changes_only_the_given_fields_and_records_before_and_after(actor):
    job = create_job(actor)

    edited = value_of(services.edit(actor, job.public_id, revision=1, name="Nightly", attempts=3))

    assert (edited.name, edited.attempts, edited.revision) == ("Nightly", 3, 2)
    assert edited.next_run_at == job.next_run_at
    event = Event.objects.get(job=job, verb="edit")
    assert event.before == {"name": "Backup", "attempts": 1}
    assert event.after == {"name": "Nightly", "attempts": 3}


def test_edit_that_changes_nothing_records_no_event(actor):
    job = create_job(actor)

    same = value_of(services.edit(actor, job.public_id, revision=1, name=job.name))

    assert same.revision == 1
    assert verbs_on(job) == ["create"]


def test_edit_of_an_old_revision_is_refused_as_a_conflict(actor):
    job = create_job(actor)
    services.edit(actor, job.public_id, name="First")

    refusal = services.edit(actor, job.public_id, revision=1, name="Second")

    assert isinstance(refusal, Err)
    assert refusal.kind == Kind.CONFLICT
    assert "Somebody else changed this job" in message_of(refusal)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param({"revision": 9}, Kind.CONFLICT, id="edited"),
        pytest.param({"status": Status.CANCELLED, "next_run_at": None}, Kind.WRONG_STATE, id="cancelled"),
        pytest.param({"deleted_at": NOW}, Kind.NOT_FOUND, id="deleted"),
    ],
)
def test_edit_is_refused_if_the_job_changes_after_it_was_read(actor, change, code):
    job = create_job(actor)

    with meanwhile('UPDATE "schedules_job"', lambda: Job.objects.filter(pk=job.pk).update(**change)):
        refusal = services.edit(actor, job.public_id, name="Too late")

    assert isinstance(refusal, Err)
    assert refusal.kind == code
    assert verbs_on(job) == ["create"]


def test_edit_succeeds_if_the_job_fires_during_it(actor, time_machine):
    job = create_job(actor)
    time_machine.move_to(job.next_run_at, tick=False)
    cluster = ClusterFactory()

    with meanwhile('UPDATE "schedules_job"', lambda: engine.claim_runs(cluster.pk, clock.now(), 10)):
        edited = value_of(services.edit(actor, job.public_id, revision=1, cron="*/10 * * * *"))

    assert (edited.revision, edited.next_run_at) == (2, NOW + timedelta(minutes=10))
    assert list(job.executions.values_list("status", "scheduled_for")) == [
        ("claimed", NOW + timedelta(minutes=5))
    ]
    assert verbs_on(job) == ["create", "edit"]


def test_edit_gives_up_if_the_job_fires_at_every_attempt(actor):
    job = create_job(actor)
    moments = itertools.count(10)

    def fire(execute, sql, *arguments):
        if sql.startswith('UPDATE "schedules_job"') and "revision" in sql:
            Job.objects.filter(pk=job.pk).update(next_run_at=NOW + timedelta(minutes=next(moments)))
        return execute(sql, *arguments)

    with connection.execute_wrapper(fire):
        refusal = services.edit(actor, job.public_id, name="Never")

    assert isinstance(refusal, Err)
    assert refusal.kind == Kind.CONFLICT
    assert verbs_on(job) == ["create"]


@pytest.mark.parametrize(
    ("trigger", "next_run_at"),
    [
        pytest.param(cron("0 12 * * *"), NOW + timedelta(hours=3), id="to cron"),
        pytest.param(once(NOW + timedelta(days=1)), NOW + timedelta(days=1), id="to once"),
        pytest.param(interval(timedelta(minutes=7)), NOW + timedelta(minutes=7), id="to interval"),
    ],
)
@pytest.mark.parametrize("start", [CRON, ONCE, INTERVAL], ids=["from cron", "from once", "from interval"])
def test_edit_can_change_any_trigger_type_to_any_other(actor, start, trigger, next_run_at):
    job = value_of(services.schedule(actor, **PLAIN, **(start | {"timezone": "UTC"}))).job

    edited = value_of(services.edit(actor, job.public_id, **trigger))

    edited.full_clean()
    assert edited.next_run_at == next_run_at


def test_new_interval_length_starts_a_new_grid(actor, time_machine):
    job = create_job(actor, **interval(timedelta(minutes=5)))
    time_machine.shift(timedelta(minutes=2))

    edited = value_of(services.edit(actor, job.public_id, every=timedelta(minutes=10)))

    assert edited.next_run_at == edited.anchor_at == NOW + timedelta(minutes=12)


def test_edited_paused_job_stays_paused(actor):
    job = create_job(actor, paused=True)

    edited = value_of(services.edit(actor, job.public_id, cron="0 12 * * *"))

    assert (edited.status, edited.next_run_at) == (Status.PAUSED, None)


def test_max_runs_below_the_runs_so_far_is_refused(actor):
    job = JobFactory(owner=actor.user, slot_count=5, next_run_at=NOW + timedelta(minutes=5))

    refusal = services.edit(actor, job.public_id, max_runs=5)

    assert isinstance(refusal, Err)
    assert "run 5 times" in refusal.errors["max_runs"][0]
