"""Idempotency keys, and similar active jobs."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from schedules import services
from schedules.mcp.answers.refusals import message_of
from schedules.models import Event
from schedules.result import Err, Kind
from schedules.services import Actor
from tests.services.made_jobs import CRON, NO_TRIGGER, ONCE, PLAIN, create_job, value_of, verbs_on


@pytest.mark.parametrize(("seconds", "is_twin"), [(59, True), (61, False)])
def test_one_time_job_within_the_same_minute_is_similar(actor, seconds, is_twin):
    first = create_job(actor, **NO_TRIGGER | ONCE)
    later = ONCE | {"run_at": ONCE["run_at"] + timedelta(seconds=seconds)}

    second = value_of(services.schedule(actor, **PLAIN, **later))

    assert second.similar == ((first.public_id, first.name) if is_twin else None)


def test_one_time_jobs_in_both_passes_of_a_repeated_hour_are_not_similar(actor):
    first, second = (
        datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=fold) for fold in (0, 1)
    )
    create_job(actor, **NO_TRIGGER | ONCE | {"run_at": first})

    later = value_of(services.schedule(actor, **PLAIN, **ONCE | {"run_at": second}))

    assert later.similar is None


def test_similar_job_is_found_among_many_on_its_schedule(actor, settings):
    settings.CRONTY_MAX_CREATES_PER_MINUTE = 1000
    jobs = [create_job(actor, args=[number]) for number in range(60)]

    for job in (jobs[0], jobs[-1]):
        twin = value_of(services.schedule(actor, **PLAIN, **CRON, args=job.args))

        assert twin.similar == (job.public_id, job.name)


def test_active_similar_job_is_reported(actor):
    first = create_job(actor)
    other = create_job(actor, args=[1])

    twin = value_of(services.schedule(actor, **PLAIN, **CRON))

    assert twin.similar == (first.public_id, first.name)
    assert twin.job not in (first, other)


def test_same_request_with_the_same_key_returns_the_same_job(actor, time_machine):
    first = value_of(services.schedule(actor, idempotency_key="k", **PLAIN, **ONCE))
    time_machine.shift(timedelta(hours=2))

    again = value_of(services.schedule(actor, idempotency_key="k", **PLAIN, **ONCE))

    assert (again.job, again.existing) == (first.job, True)
    assert verbs_on(first.job) == ["create"]


def test_key_matches_the_request_text_and_not_the_resolved_time(actor, time_machine):
    first = value_of(services.schedule(actor, idempotency_key="k", request={"in": "1h"}, **PLAIN, **ONCE))
    time_machine.shift(timedelta(minutes=1))
    later = ONCE | {"run_at": ONCE["run_at"] + timedelta(minutes=1)}

    again = value_of(services.schedule(actor, idempotency_key="k", request={"in": "1h"}, **PLAIN, **later))

    assert (again.job, again.existing) == (first.job, True)


def test_same_key_for_another_request_is_refused(actor):
    create_job(actor, idempotency_key="k")

    refusal = services.schedule(actor, idempotency_key="k", **(PLAIN | CRON | {"name": "Other"}))

    assert isinstance(refusal, Err)
    assert refusal.kind == Kind.CONFLICT


def test_key_of_a_deleted_job_cannot_be_used_again(actor):
    job = create_job(actor, idempotency_key="k")
    services.delete(actor, job.public_id)

    refusal = services.schedule(actor, idempotency_key="k", **PLAIN, **CRON)

    assert isinstance(refusal, Err)
    assert refusal.kind == Kind.CONFLICT
    assert message_of(refusal) == "The job that the idempotency_key 'k' made was deleted: choose a new one."


def test_two_owners_can_use_the_same_key(actor, stranger):
    first = create_job(actor, idempotency_key="k")

    second = create_job(Actor(stranger, Event.Door.WEB), idempotency_key="k")

    assert first != second


def test_invalid_key_is_refused(actor):
    for key in ["", "k" * 201, "k\x00", "k\u202e"]:
        refusal = services.schedule(actor, idempotency_key=key, **PLAIN, **CRON)

        assert isinstance(refusal, Err)
        assert list(refusal.errors) == ["idempotency_key"]
