"""Changes that meet on PostgreSQL's row locks: each waits for its turn, and then looks again at what it decides on."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from schedules import clock, engine, services
from schedules.models import Event, Job, Secret, Token
from schedules.result import Err, Kind, Ok
from schedules.services.files import applying as files
from schedules.services.jobs import bulk
from schedules.services.jobs.undo import events_of_call, undo
from schedules.services.people.profiles import profile_of
from schedules.services.people.stored_secrets import set_secret
from tests.factories import JobFactory
from tests.services.files.test_applying import planned
from tests.waiting import PATIENCE, wait_for

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite locks no rows"),
]

TWO = """
jobs:
  B: {task: tests.ping, schedule: every day at 9:00}
  A: {task: tests.ping, schedule: every day at 8:00}
"""


class Begun(threading.Thread):
    """A call in a thread with a connection of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self._result: Any = None
        self._error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self._result = self._call()
        except Exception as error:
            self._error = error
        finally:
            connection.close()

    def result(self) -> Any:
        self.join(PATIENCE)
        assert not self.is_alive()
        if self._error:
            raise self._error
        return self._result


@contextmanager
def held(change: Callable[[], Any]) -> Iterator[None]:
    """Make a change in an open transaction of another connection, and commit it at the end."""
    is_made, may_commit = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            change()
            is_made.set()
            may_commit.wait(PATIENCE)

    holder = Begun(hold)
    wait_for(lambda: is_made.is_set() or not holder.is_alive())
    try:
        yield
    finally:
        may_commit.set()
        holder.result()


def row_of(job: Job) -> Callable[[], Job]:
    return lambda: Job.objects.select_for_update().get(pk=job.pk)


def waits(call: Callable[[], Any]) -> Begun:
    """Begin a call, and return when it waits for a lock."""
    before = _waiting()
    begun = Begun(call)
    wait_for(lambda: _waiting() > before or not begun.is_alive())
    assert begun.is_alive(), begun.result()
    return begun


def _waiting() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        count: int = cursor.fetchone()[0]
        return count


def test_job_that_is_being_restored_is_not_pruned(actor):
    old = clock.now() - timedelta(days=31)
    restored, forgotten = JobFactory.create_batch(2, owner=actor.user, deleted_at=old)

    with held(lambda: services.restore(actor, restored.public_id)):
        assert engine.prune_history()["jobs"] == 1

    assert Job.objects.kept().get() == restored
    assert not Job.objects.filter(pk=forgotten.pk).exists()


def test_file_and_restoration_of_its_job_do_not_wait_for_each_other(actor):
    plan = planned(actor, TWO)
    assert files.apply_plan(actor, plan) == Ok(plan)
    job = Job.objects.get(name="A")
    services.delete(actor, job.public_id)
    again = planned(actor, TWO)

    with held(row_of(job)):
        restoring = waits(lambda: services.restore(actor, job.public_id))
        applying = waits(lambda: files.apply_plan(actor, again))

    assert isinstance(restoring.result(), Ok)
    assert applying.result().kind == Kind.CONFLICT


def test_file_locks_jobs_in_the_order_of_others(actor, monkeypatch):
    first, last = (JobFactory(owner=actor.user, name=name, task="tests.ping") for name in "AB")
    plan = planned(actor, TWO)
    monkeypatch.setattr(files, "CHUNK", 1)

    with held(row_of(first)):
        applying = waits(lambda: files.apply_plan(actor, plan))
        with transaction.atomic():
            assert Job.objects.select_for_update(nowait=True).get(pk=last.pk) == last

    assert applying.result() == Ok(plan)


def test_end_of_a_pause_survives_a_page_that_shows_the_job_as_active(actor):
    job = JobFactory(owner=actor.user)
    until = clock.now() + timedelta(days=1)

    with held(lambda: services.pause(actor, job.public_id, until=until)):
        single = waits(lambda: services.pause_active(actor, job.public_id))
        many = waits(lambda: bulk.change_each(actor, "pause", [job.public_id]))

    for refused in (single.result(), many.result()[job.public_id]):
        assert isinstance(refused, Err)
    job.refresh_from_db()
    assert job.paused_until == until


def test_secret_that_two_requests_set_is_stored_once(actor):
    def store(value: str) -> Any:
        return set_secret(actor, "KEY", value, hosts=["api.example.com"])

    with held(lambda: store("first value")):
        second = waits(lambda: store("second value"))

    assert isinstance(second.result(), Ok)
    assert Secret.objects.count() == 1
    assert Event.objects.filter(verb="set secret").count() == 2


def test_undo_leaves_alone_a_pause_that_began_while_it_waited(actor, time_machine):
    first, second = JobFactory.create_batch(2, owner=actor.user)
    done = bulk.change_jobs(actor, "pause", [first.pk, second.pk]).value

    # The newest change is undone first, so the other job changes while that waits.
    with held(row_of(second)):
        undoing = waits(lambda: undo(actor, events_of_call(actor, done.undo)))
        services.resume(actor, first.public_id)
        time_machine.shift(1)
        services.pause(actor, first.public_id, reason="Migration")

    undone = undoing.result().value
    assert [job.pk for job in undone.jobs] == [second.pk]
    assert [error.kind for _, error in undone.refused] == [Kind.CONFLICT]
    first.refresh_from_db()
    assert (first.status, first.pause_reason) == ("paused", "Migration")


def test_token_is_rotated_while_another_of_its_name_is_created(actor):
    token = services.issue_token(actor.user, name="laptop").value.token

    with held(lambda: profile_of(actor.user).__class__.objects.select_for_update().get(user=actor.user)):
        rotating = waits(lambda: services.rotate_token(actor.user, token.pk))
        creating = waits(lambda: services.issue_token(actor.user, name="laptop"))

    assert isinstance(rotating.result(), Ok)
    assert isinstance(creating.result(), Err)
    assert Token.objects.filter(revoked_at=None).count() == 1


def test_end_of_all_access_includes_a_token_that_is_being_created(actor):
    with held(lambda: services.issue_token(actor.user, name="laptop")):
        ending = waits(lambda: services.end_access(actor.user, by=actor.user))

    assert ending.result() == Ok(1)
    assert not Token.objects.filter(revoked_at=None).exists()


def test_limit_of_runs_and_notifications_holds_for_simultaneous_calls(actor, settings):
    settings.CRONTY_MAX_RUNS_BY_HAND_PER_MINUTE = 1
    first, second = JobFactory.create_batch(2, owner=actor.user)

    with held(lambda: services.run_now(actor, first.public_id)):
        running = waits(lambda: services.run_now(actor, second.public_id))
    with held(lambda: services.begin_push(actor, {"message": "One"})):
        sending = waits(lambda: services.begin_push(actor, {"message": "Two"}))

    assert [begun.result().kind for begun in (running, sending)] == [Kind.TOO_FAST] * 2


def test_event_names_the_preference_that_was_replaced(actor):
    services.set_preferences(actor, timezone="Europe/Berlin")

    with held(lambda: services.set_preferences(actor, timezone="Asia/Tokyo")):
        second = waits(lambda: services.set_preferences(actor, timezone="Europe/Paris"))

    assert isinstance(second.result(), Ok)
    assert Event.objects.order_by("-pk")[0].before == {"timezone": "Asia/Tokyo"}
