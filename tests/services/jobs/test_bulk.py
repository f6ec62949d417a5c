"""Changes of many jobs: the same rows as one by one, in one transaction, with few statements."""

from datetime import timedelta

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from schedules import clock, services
from schedules.models import Event, Execution, Job
from schedules.result import Err, Ok
from schedules.services.jobs import bulk
from tests.factories import ExecutionFactory, JobFactory, UserFactory, staff_with
from tests.services.conftest import NOW
from tests.services.made_jobs import value_of

LATER = NOW + timedelta(days=3)
HOUR = timedelta(hours=1)


def sample(owner) -> list[Job]:
    """Jobs in every state that a change meets, some with slots or runs to account for."""
    pending = {"owner": owner, "created_at": NOW - 2 * HOUR}
    due = JobFactory(**pending, name="Due", next_run_at=NOW - timedelta(minutes=20))
    ExecutionFactory(job=due, scheduled_for=NOW - timedelta(minutes=10), status="skipped")
    waiting = JobFactory(**pending, name="Queued")
    ExecutionFactory(job=waiting, status="queued", scheduled_for=NOW - HOUR, available_at=NOW)
    retried = JobFactory(**pending, name="Retried")
    ExecutionFactory(job=retried, status="queued", attempt=1, error="boom", scheduled_for=NOW - HOUR)
    manual = JobFactory(**pending, name="Manual")
    ExecutionFactory(job=manual, status="queued", cause="manual", scheduled_for=NOW, available_at=NOW)
    paused = JobFactory(
        **pending,
        name="Paused",
        paused=True,
        paused_at=NOW - HOUR,
        pause_reason="Holiday",
        paused_until=LATER,
    )
    ahead = JobFactory(**pending, name="Ahead", paused=True, paused_at=NOW - HOUR)
    ExecutionFactory(job=ahead, status="skipped", scheduled_for=NOW + 2 * HOUR)
    once = JobFactory(**pending, name="Once", once=True)
    return [due, waiting, retried, manual, paused, ahead, once, JobFactory(**pending, name="Future")]


def state_of(owner):
    """Return everything about the jobs of an owner that does not differ between two owners."""
    jobs = Job.objects.filter(owner=owner).order_by("name")
    columns = [f.name for f in Job._meta.fields if f.name not in {"id", "public_id", "owner"}]
    runs = Execution.objects.filter(owner=owner).order_by("job_name", "scheduled_for", "cause")
    run_columns = [f.name for f in Execution._meta.fields if f.name not in {"id", "job", "owner"}]
    events = Event.objects.filter(owner=owner).order_by("subject")
    return (
        list(jobs.values(*columns)),
        list(runs.values(*run_columns)),
        list(events.values("at", "actor", "door", "verb", "subject", "before", "after")),
    )


def actor_of(user):
    return services.Actor(user, Event.Door.MCP, name="laptop")


@pytest.fixture
def people(db):
    """Two people with the same jobs."""
    with time_machine.travel(NOW, tick=False):
        yield [UserFactory(username="olga"), UserFactory(username="sam")]


@pytest.mark.parametrize("action", ["pause", "resume", "cancel", "delete"])
def test_changing_many_writes_the_same_as_changing_each(people, action):
    one_by_one, at_once = people
    options = {"reason": "Trip", "until": LATER} if action == "pause" else {}
    for user in people:
        sample(user)
    chosen = {user: list(bulk.changeable(actor_of(user), action)) for user in people}

    for job in chosen[one_by_one]:
        value_of(getattr(services, action)(actor_of(one_by_one), job.public_id, **options))
    keys = [job.pk for job in chosen[at_once]]
    done = value_of(bulk.change_jobs(actor_of(at_once), action, keys, **options))

    assert len(done.jobs) == len(keys) > 1
    assert state_of(at_once) == state_of(one_by_one)


@pytest.mark.parametrize("action", ["pause", "resume", "cancel", "delete"])
def test_number_of_statements_does_not_grow_with_the_jobs(people, action):
    counted = []
    for user, times in zip(people, (1, 4), strict=True):
        for _ in range(times):
            sample(user)
        keys = list(bulk.changeable(actor_of(user), action).values_list("pk", flat=True))
        # Rows ahead of the clock are rare, and deleted job by job.
        Execution.objects.filter(scheduled_for__gt=NOW).delete()
        with CaptureQueriesContext(connection) as queries:
            assert isinstance(bulk.change_jobs(actor_of(user), action, keys), Ok)
        counted.append(len(queries))

    assert counted[1] == counted[0]


def test_nothing_happens_if_one_of_the_jobs_has_changed(people):
    actor, jobs = actor_of(people[0]), JobFactory.create_batch(3, owner=people[0])
    services.cancel(actor, jobs[1].public_id)
    before = state_of(people[0])

    refused = bulk.change_jobs(actor, "pause", [job.pk for job in jobs])

    assert isinstance(refused, Err)
    assert state_of(people[0]) == before


def staff_of(user):
    """Return staff who may change everybody's jobs, but delete none."""
    return services.Actor(staff_with("view_job", "change_job"), Event.Door.ADMIN)


@pytest.mark.parametrize("actor_for", [actor_of, staff_of])
@pytest.mark.parametrize("action", ["pause", "resume", "cancel", "delete"])
def test_each_job_that_can_be_changed_is_and_the_others_say_why(people, monkeypatch, action, actor_for):
    monkeypatch.setattr(bulk, "BATCH", 3)
    one_by_one, at_once = people
    one = services.pause_active if action == "pause" else getattr(services, action)
    boss = UserFactory(username="boss", is_superuser=True)
    results = []
    for user in people:
        ids = [job.public_id for job in sample(user)]
        ids.insert(1, JobFactory(owner=boss).public_id)
        ended = JobFactory(owner=user, name="Ended", ended=True)
        needed = JobFactory(owner=user, name="Needed", task="prune_history")
        ids += [ended.public_id, needed.public_id, "no\0job", "gone"]
        actor = actor_for(user)
        if user is one_by_one:
            answers = {job_id: one(actor, job_id) for job_id in ids}
        else:
            answers = bulk.change_each(actor, action, ids)
        assert list(answers) == ids
        results.append([answer.kind if isinstance(answer, Err) else "" for answer in answers.values()])
        # The same name in the events of both.
        Event.objects.filter(owner=user).update(actor="")

    assert results[1] == results[0]
    assert results[0].count("") < len(results[0])
    assert ("" in results[0]) == (action != "delete" or actor_for is actor_of)
    assert state_of(at_once) == state_of(one_by_one)


@pytest.mark.parametrize("actor_for", [actor_of, staff_of])
@pytest.mark.parametrize("action", ["pause", "cancel"])
def test_statements_for_each_of_many_jobs_do_not_grow_with_their_number(people, action, actor_for):
    counted = []
    for user, jobs in zip(people, (2, 20), strict=True):
        ids = [job.public_id for job in JobFactory.create_batch(jobs, owner=user)]
        actor = actor_for(user)
        with CaptureQueriesContext(connection) as queries:
            assert all(isinstance(answer, Ok) for answer in bulk.change_each(actor, action, ids).values())
        counted.append(len(queries))

    assert counted[1] == counted[0]


def test_job_without_a_run_left_stays_paused(people):
    actor = actor_of(people[0])
    over = JobFactory(owner=people[0], paused=True, ends_at=clock.now() - HOUR, created_at=NOW - 2 * HOUR)
    other = JobFactory(owner=people[0], paused=True)

    done = value_of(bulk.change_jobs(actor, "resume", [over.pk, other.pk]))

    assert ([job.pk for job in done.jobs], [job.pk for job in done.unchanged]) == ([other.pk], [over.pk])


def test_jobs_of_cronty_itself_are_not_meant(people):
    JobFactory(owner=people[0], task="prune_history")

    assert not bulk.changeable(actor_of(people[0]), "delete")
