"""Notifications that are sent at once, in the ledger."""

from datetime import timedelta

from schedules import clock, engine, services
from schedules.mcp.answers.refusals import message_of
from schedules.models import Execution
from schedules.result import Err
from tests.factories import ClusterFactory, JobFactory
from tests.services.made_jobs import value_of


def test_push_is_a_run_of_its_owner_from_the_start(actor):
    push = value_of(services.begin_push(actor, {"message": "Water\u200b the\nplants", "topic": "home"}))

    push.refresh_from_db()
    assert (push.owner, push.job, push.task, push.cause) == (actor.user, None, "notify", "manual")
    assert (push.status, push.job_name) == ("running", "Water the plants")
    assert push in actor.executions()


def test_outcome_of_a_push_is_written_once(actor):
    push = value_of(services.begin_push(actor, {"message": "m", "title": "Plants", "topic": "home"}))

    services.end_push(push, result={"id": "abc"})
    services.end_push(push, error="too late")

    push.refresh_from_db()
    assert (push.status, push.result, push.error, push.lease_until) == ("succeeded", {"id": "abc"}, "", None)
    assert push.finished_at is not None
    assert push.job_name == "Plants"


def test_push_of_a_process_that_died_ends_as_lost_and_is_not_sent_again(actor, time_machine):
    push = value_of(services.begin_push(actor, {"message": "m", "topic": "home"}))
    time_machine.move_to(clock.now() + timedelta(minutes=3))
    ClusterFactory()

    engine.sweep(clock.now())

    assert Execution.objects.get(pk=push.pk).status == "lost"


def test_pushes_and_runs_by_hand_have_quotas_of_their_own(actor, settings, time_machine):
    settings.CRONTY_MAX_RUNS_BY_HAND_PER_MINUTE = 2
    content, job = {"message": "m", "topic": "home"}, JobFactory(owner=actor.user)
    for _ in range(2):
        value_of(services.begin_push(actor, content))

    refusal = services.begin_push(actor, content)

    assert isinstance(refusal, Err)
    assert "at most 2 notifications sent at once a minute" in message_of(refusal)
    assert Execution.objects.count() == 2
    value_of(services.run_now(actor, job.public_id))
    time_machine.shift(timedelta(seconds=61))
    value_of(services.begin_push(actor, content))
