"""Undo: what an event recorded is reversed, unless something has changed since."""

from datetime import timedelta

import pytest

from schedules import services
from schedules.models import Event, Execution, Job
from schedules.result import Code, Err
from schedules.services import Actor
from schedules.services.jobs import bulk
from schedules.services.jobs.undo import events_of_call, events_since, last_call, plan_undo, undo
from tests.factories import UserFactory
from tests.services.conftest import NOW
from tests.services.made_jobs import create_job, value_of, verbs_on

HOUR = timedelta(hours=1)
# What an undo may change besides: when and how often the job was changed.
IGNORED = {"revision", "updated_at", "next_run_at"}


@pytest.fixture
def actor(db) -> Actor:
    return Actor(UserFactory(username="olga"), Event.Door.MCP, name="laptop")


def columns_of(job: Job) -> dict:
    return {
        field.name: getattr(job, field.name)
        for field in Job._meta.concrete_fields
        if field.name not in IGNORED
    }


def newest_event() -> Event:
    return Event.objects.latest("pk")


def undo_newest(actor: Actor):
    return undo(actor, events_of_call(actor, newest_event().pk))


CHANGES = {
    "edit of the schedule": {"cron": "0 7 * * *", "timezone": "Europe/Berlin"},
    "edit of the kind of schedule": {"trigger_type": "interval", "every": HOUR, "cron": ""},
    "edit of the arguments": {"kwargs": {"url": "https://example.com/other", "body": {"a": [1]}}},
    "edit of the policies": {"attempts": 4, "backoff": timedelta(minutes=7), "timeout": timedelta(minutes=3)},
    "edit of the end": {"ends_at": NOW + timedelta(days=9), "max_runs": 12},
    "edit of the tags": {"tags": ["home", "garden"], "name": "Other", "label": "x"},
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_edit_is_undone_to_the_last_column(actor, changes):
    webhook = {"task": "webhook", "kwargs": {"url": "https://example.com/"}}
    job = create_job(actor, **webhook)
    before = columns_of(job)
    value_of(services.edit(actor, job.public_id, **changes))

    undone = value_of(undo_newest(actor))

    assert [changed.pk for changed in undone.jobs] == [job.pk]
    assert columns_of(Job.objects.get(pk=job.pk)) == before
    assert newest_event().undoes is not None


TRIP = {"reason": "Trip", "until": NOW + HOUR}
# What was done to a job before the change that is undone, that change, and what the undo brings back.
REVERSALS = {
    "creation": ([], None, {"deleted_at": NOW}),
    "resumption": (
        [("pause", TRIP)],
        ("resume", {}),
        {"status": "paused", "pause_reason": "Trip", "paused_until": NOW + HOUR},
    ),
    "another end of a pause": (
        [("pause", TRIP)],
        ("pause", {"until": NOW + 5 * HOUR}),
        {"status": "paused", "paused_until": NOW + HOUR},
    ),
    "restoration": ([("cancel", {})], ("restore", {}), {"status": "cancelled", "deleted_at": None}),
    "skipped run": ([], ("skip", {}), {"skips": ""}),
}


@pytest.mark.parametrize("change", REVERSALS)
def test_change_is_undone_to_what_was_before(actor, time_machine, change):
    before, last, expected = REVERSALS[change]
    job = create_job(actor)
    for verb, values in [*before, *([last] if last else [])]:
        time_machine.move_to(NOW, tick=False)
        value_of(getattr(services, verb)(actor, job.public_id, **values))

    value_of(undo_newest(actor))

    job.refresh_from_db()
    assert {name: getattr(job, name) for name in expected} == expected
    if job.deleted_at:
        assert value_of(services.restore(actor, job.public_id)).deleted_at is None


def test_interval_keeps_its_grid_after_an_undone_edit(actor):
    job = create_job(actor, trigger_type="interval", every=HOUR, cron="")
    value_of(services.edit(actor, job.public_id, trigger_type="cron", cron="0 7 * * *", every=None))

    value_of(undo_newest(actor))

    assert Job.objects.get(pk=job.pk).anchor_at == job.anchor_at


@pytest.mark.parametrize("action", ["pause", "cancel", "delete"])
@pytest.mark.parametrize("is_changed_again", [False, True])
def test_one_call_about_many_jobs_is_undone_as_one(actor, action, is_changed_again):
    first, *others = [create_job(actor, name=f"Job {number}") for number in range(3)]
    done = value_of(bulk.change_jobs(actor, action, [first.pk, *(job.pk for job in others)]))
    if is_changed_again:
        again = services.resume if action == "pause" else services.restore
        value_of(again(actor, first.public_id))

    undone = value_of(undo(actor, events_of_call(actor, done.undo)))

    left = [first.pk] if is_changed_again else []
    assert [event.job_id for event, _ in undone.refused] == left
    assert {job.pk for job in undone.jobs} == {job.pk for job in (first, *others)} - set(left)
    assert set(Job.objects.values_list("status", "deleted_at")) == {("pending", None)}


@pytest.mark.parametrize(
    ("later", "columns"),
    [({"attempts": 5}, {"attempts": 5}), ({"name": "Other"}, {"attempts": 1, "name": "Other"})],
)
def test_edit_is_undone_unless_the_same_field_was_edited_since(actor, time_machine, later, columns):
    job = create_job(actor)
    value_of(services.edit(actor, job.public_id, attempts=2))
    first = newest_event()
    time_machine.shift(1)
    value_of(services.edit(actor, job.public_id, **later))

    result = undo(actor, events_of_call(actor, first.pk))

    assert isinstance(result, Err) is ("attempts" in later)
    assert Job.objects.filter(**columns).exists()


def test_all_changes_since_a_moment_are_undone_newest_first(actor, time_machine):
    job = create_job(actor)
    time_machine.move_to(NOW + HOUR, tick=False)
    value_of(services.edit(actor, job.public_id, attempts=2))
    value_of(services.edit(actor, job.public_id, attempts=3))
    value_of(services.pause(actor, job.public_id))

    undone = value_of(undo(actor, events_since(actor, "laptop", NOW + HOUR)))

    assert (len(undone.jobs), undone.refused) == (3, [])
    job.refresh_from_db()
    assert (job.attempts, job.status) == (1, "pending")


def test_change_is_undone_once_and_an_undo_does_not_undo_itself(actor):
    job = create_job(actor)
    value_of(services.edit(actor, job.public_id, attempts=2))
    edited = newest_event()
    events = events_of_call(actor, edited.pk)
    value_of(undo(actor, events))

    assert isinstance(undo(actor, events), Err)
    assert events_of_call(actor, edited.pk) == []
    assert [event.verb for event in last_call(actor)] == ["create"]
    assert verbs_on(job) == ["create", "edit", "edit"]


def test_last_call_is_that_of_the_same_agent(actor):
    job = create_job(actor)
    web = Actor(actor.user, Event.Door.WEB)
    value_of(services.pause(web, job.public_id))

    assert [event.verb for event in last_call(actor)] == ["create"]
    assert [event.verb for event in last_call(web)] == ["pause"]


def test_last_call_is_no_older_one_if_it_cannot_be_undone(actor):
    job = create_job(actor)
    value_of(services.run_now(actor, job.public_id))

    refusal = last_call(actor)

    assert (refusal.code, refusal.subject) == (Code.STARTED_RUN_NOT_UNDOABLE, job.name)


def test_changed_secret_is_refused_because_its_old_value_is_not_kept(actor):
    kwargs = {"url": "https://example.com/", "headers": {"Authorization": "one"}}
    job = create_job(actor, task="webhook", kwargs=kwargs)
    changed = {"url": "https://example.com/", "headers": {"Authorization": "two"}}
    value_of(services.edit(actor, job.public_id, kwargs=changed))

    assert isinstance(undo_newest(actor), Err)
    assert Job.objects.get().kwargs == changed


def test_stranger_undoes_nothing(actor):
    job = create_job(actor)
    value_of(services.delete(actor, job.public_id))
    stranger = Actor(UserFactory(), Event.Door.MCP, name="laptop")

    assert events_of_call(stranger, newest_event().pk) == []
    assert events_since(stranger, "laptop", NOW) == []
    assert Job.objects.get().deleted_at


def test_agent_of_one_family_undoes_nothing_of_another(actor):
    create_job(actor)
    limited = Actor(actor.user, Event.Door.MCP, name="laptop", tasks=frozenset(["notify"]))

    assert last_call(limited) == []


def test_plan_shows_the_values_that_come_back_and_changes_nothing(actor):
    job = create_job(actor)
    value_of(services.edit(actor, job.public_id, attempts=2))

    [reversal] = plan_undo(events_of_call(actor, newest_event().pk))

    assert (reversal.action, reversal.before, reversal.after) == ("edit", {"attempts": 2}, {"attempts": 1})
    assert Job.objects.get().attempts == 2


def test_time_that_has_passed_is_refused_with_its_field(actor, time_machine):
    job = create_job(actor, trigger_type="once", run_at=NOW + HOUR, cron="")
    value_of(services.edit(actor, job.public_id, run_at=NOW + 5 * HOUR))
    time_machine.move_to(NOW + 2 * HOUR, tick=False)

    refusal = undo_newest(actor)

    assert "run_at" in refusal.errors
    assert Job.objects.get().run_at == NOW + 5 * HOUR


def test_paused_slots_stay_accounted_for_after_an_undo(actor, time_machine):
    job = create_job(actor)
    value_of(services.pause(actor, job.public_id))
    time_machine.move_to(NOW + HOUR, tick=False)

    value_of(undo(actor, last_call(actor)))

    assert Execution.objects.get(job=job).status == "skipped"
    assert Job.objects.get().next_run_at > NOW + HOUR
