"""Notifications that are sent at once, in the ledger."""

from datetime import timedelta

from schedules import clock, engine, services
from schedules.models import Execution
from tests.factories import ClusterFactory


def test_push_is_a_run_of_its_owner_from_the_start(actor):
    push = services.begin_push(actor, {"message": "Water\u200b the\nplants", "topic": "home"})

    push.refresh_from_db()
    assert (push.owner, push.job, push.task, push.cause) == (actor.user, None, "notify", "manual")
    assert (push.status, push.job_name) == ("running", "Water the plants")
    assert push in actor.executions()


def test_outcome_of_a_push_is_written_once(actor):
    push = services.begin_push(actor, {"message": "m", "title": "Plants", "topic": "home"})

    services.end_push(push, result={"id": "abc"})
    services.end_push(push, error="too late")

    push.refresh_from_db()
    assert (push.status, push.result, push.error, push.lease_until) == ("succeeded", {"id": "abc"}, "", None)
    assert push.finished_at is not None
    assert push.job_name == "Plants"


def test_push_of_a_process_that_died_ends_as_lost_and_is_not_sent_again(actor, time_machine):
    push = services.begin_push(actor, {"message": "m", "topic": "home"})
    time_machine.move_to(clock.now() + timedelta(minutes=3))
    ClusterFactory()

    engine.sweep(clock.now())

    assert Execution.objects.get(pk=push.pk).status == "lost"
