"""Creating, pausing, cancelling, deleting, restoring and running jobs."""

import secrets
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from schedules import engine, services
from schedules.models import Event, Execution, Incident, Job
from schedules.models.standings import standings_of
from schedules.result import Code, Err, Kind, Ok
from schedules.services import Actor
from schedules.services.jobs import bulk
from tests.factories import ExecutionFactory, JobFactory
from tests.services.conftest import NOW
from tests.services.made_jobs import (
    CRON,
    INTERVAL,
    ONCE,
    PLAIN,
    Status,
    create_job,
    value_of,
    verbs_on,
)


@pytest.mark.parametrize(
    ("trigger", "next_run_at"),
    [
        pytest.param(CRON, NOW + timedelta(minutes=5), id="cron"),
        pytest.param(ONCE, NOW + timedelta(hours=1), id="once"),
        pytest.param(INTERVAL, NOW + timedelta(minutes=5), id="interval"),
        pytest.param(
            INTERVAL | {"anchor_at": NOW - timedelta(minutes=3)}, NOW + timedelta(minutes=2), id="own grid"
        ),
    ],
)
def test_new_job_is_armed_for_its_first_slot(actor, trigger, next_run_at):
    job = value_of(services.schedule(actor, **PLAIN, **trigger)).job

    job.refresh_from_db()
    job.full_clean()
    assert (job.status, job.next_run_at) == (Status.PENDING, next_run_at)
    assert (job.owner, job.made_by, job.revision) == (actor.user, "olga", 1)
    assert job.public_id.startswith("job_")
    assert verbs_on(job) == ["create"]


def test_many_jobs_are_created_with_as_few_statements_as_two(actor):
    no_zone = PLAIN | {"trigger_type": "cron", "cron": "0 9 * * *"}
    value_of(services.schedule_many(actor, [PLAIN | CRON]))
    statements = []
    for count in (2, 15):
        with CaptureQueriesContext(connection) as captured:
            jobs = value_of(services.schedule_many(actor, [PLAIN | ONCE, *[no_zone] * (count - 1)]))
        statements.append(len(captured))

    assert statements[0] == statements[1]
    assert [job.next_run_at for job in jobs[:2]] == [
        NOW + timedelta(hours=1),
        datetime(2026, 2, 5, 8, tzinfo=UTC),
    ]
    assert (jobs[1].timezone, jobs[1].made_by) == ("Europe/Berlin", "olga")
    for job in jobs:
        job.refresh_from_db()
        assert verbs_on(job) == ["create"]
    assert Event.objects.get(job=jobs[1]).after == no_zone


def test_many_jobs_are_created_all_or_none(actor):
    refusal = services.schedule_many(actor, [PLAIN | CRON, PLAIN | CRON | {"cron": "often"}])

    assert isinstance(refusal, Err)
    assert refusal.subject == 2
    assert refusal.errors.keys() == {"cron"}
    assert not Job.objects.exists()


def test_colliding_ids_of_jobs_created_at_once_are_replaced(actor, monkeypatch):
    numbers = iter([7, 7, 8])
    monkeypatch.setattr(secrets, "randbelow", lambda limit: next(numbers))

    jobs = value_of(services.schedule_many(actor, [PLAIN | CRON] * 2))

    assert [job.public_id.split("_")[1] for job in jobs] == ["7", "8"]


def act(verb: str, actor: Actor, job_id: str):
    changes = {"edit": {"name": "Renamed"}, "pause": {"reason": "Holiday"}}.get(verb, {})
    return getattr(services, verb)(actor, job_id, **changes)


def job_in(state: str, **fields) -> Job:
    if state == "trashed":
        return JobFactory(deleted_at=NOW - timedelta(minutes=1), **fields)
    armed = {"next_run_at": NOW + timedelta(minutes=5)} if state == "pending" else {"next_run_at": None}
    return JobFactory(status=state, paused_at=NOW if state == "paused" else None, **(armed | fields))


STATES = [*Status.values, "trashed"]


# For each verb, the states that allow it; a job in the trash is not found.
WORKS_IN = {
    "edit": ["pending", "paused"],
    "pause": ["pending", "paused"],
    "resume": ["paused"],
    "cancel": ["pending", "running", "paused"],
    "delete": Status.values,
    "restore": ["cancelled", "trashed"],
    "run_now": [status for status in Status.values if status != Status.CANCELLED],
}


TRANSITIONS = [(verb, state, state in works_in) for verb, works_in in WORKS_IN.items() for state in STATES]


def test_action_is_allowed_only_in_its_states(actor):
    for verb, state, works in TRANSITIONS:
        job = job_in(state, owner=actor.user)
        before = Job.objects.values().get(pk=job.pk)

        result = act(verb, actor, job.public_id)

        if works:
            assert isinstance(result, Ok), (verb, state)
            assert len(verbs_on(job)) == 1
        else:
            out_of_sight = state == "trashed"
            assert isinstance(result, Err), (verb, state)
            assert result.kind == (Kind.NOT_FOUND if out_of_sight else Kind.WRONG_STATE)
            assert Job.objects.values().get(pk=job.pk) == before
            assert verbs_on(job) == []


@pytest.mark.parametrize("stop", [services.cancel, services.delete])
@pytest.mark.parametrize("is_watched", [False, True])
def test_restored_job_keeps_failing_until_a_run_succeeds(actor, stop, is_watched):
    job = JobFactory(owner=actor.user, failure_streak=3, last_error="Disk full", next_run_at=NOW)
    engine.raise_incident(
        "failing", actor.user.pk, f"job {job.pk}", job.name, "Disk full", NOW, job_id=job.pk
    )
    Incident.objects.update(told=1, due_at=None)
    stop(actor, job.public_id)
    if is_watched:
        engine.watch_incidents(NOW)

    restored = value_of(services.restore(actor, job.public_id))
    engine.watch_incidents(NOW)

    assert (restored.failure_streak, standings_of([restored], NOW)[job.pk].name) == (3, "failing")
    assert (Incident.objects.get().is_open, Incident.objects.get().kind) == (True, "failing")


def test_pause_records_its_reason_and_end(actor):
    job = create_job(actor)
    until = NOW + timedelta(hours=2)

    paused = value_of(services.pause(actor, job.public_id, reason="holidays", until=until))

    assert (paused.pause_reason, paused.paused_until, paused.paused_at) == ("holidays", until, NOW)
    assert Event.objects.get(job=job, verb="pause").after == {
        "reason": "holidays",
        "until": until.isoformat(),
    }


def test_invalid_pause_is_refused(actor):
    job = create_job(actor)
    for arguments, field in [
        ({"until": NOW}, "until"),
        ({"until": datetime(2027, 1, 1)}, "until"),  # noqa: DTZ001
        ({"reason": "r" * 201}, "reason"),
        ({"reason": "\x00"}, "reason"),
    ]:
        refusal = services.pause(actor, job.public_id, **arguments)

        assert isinstance(refusal, Err)
        assert list(refusal.errors) == [field]
        assert verbs_on(job) == ["create"]


def test_resumed_job_has_no_pause_and_keeps_its_failure_streak(actor, time_machine):
    job = create_job(actor)
    services.pause(actor, job.public_id, reason="holidays", until=NOW + timedelta(days=1))
    Job.objects.filter(pk=job.pk).update(failure_streak=9)
    time_machine.shift(timedelta(hours=1))

    resumed = value_of(services.resume(actor, job.public_id))

    assert (resumed.status, resumed.next_run_at) == (Status.PENDING, NOW + timedelta(minutes=65))
    assert (resumed.pause_reason, resumed.paused_until, resumed.failure_streak) == ("", None, 9)


def test_deleted_job_disappears_but_its_history_is_kept(actor, agent):
    job = create_job(actor)
    run = ExecutionFactory(job=job)

    services.delete(actor, job.public_id)

    assert not actor.jobs().exists()
    assert not agent.jobs().exists()
    assert list(actor.trash()) == [job]
    run.refresh_from_db()
    assert run.job == job


def test_restored_job_is_rearmed(actor, time_machine):
    job = create_job(actor)
    services.delete(actor, job.public_id)
    time_machine.shift(timedelta(minutes=12))

    restored = value_of(services.restore(actor, job.public_id))

    assert (restored.status, restored.next_run_at) == (Status.PENDING, NOW + timedelta(minutes=15))
    assert verbs_on(job) == ["create", "delete", "restore"]


def test_job_whose_pause_ended_while_it_was_stopped_is_restored_as_pending(actor, time_machine):
    job = create_job(actor)
    services.pause(actor, job.public_id, until=NOW + timedelta(hours=1))
    services.cancel(actor, job.public_id)
    time_machine.shift(timedelta(hours=2))

    assert value_of(services.restore(actor, job.public_id)).status == Status.PENDING


def test_run_whose_time_has_come_is_not_skipped(actor):
    job = create_job(actor)
    began = job.next_run_at
    Job.objects.update(next_run_at=F("next_run_at") + timedelta(minutes=5))

    refusal = services.skip(actor, job.public_id, slots=[began])

    assert isinstance(refusal, Err)
    assert refusal == Err(Code.SLOT_PASSED)
    assert Job.objects.get().skips == ""


def test_past_day_is_not_skipped(actor):
    job = create_job(actor)
    today = NOW.astimezone(ZoneInfo(job.timezone)).date()

    refusal = services.skip(actor, job.public_id, days=[today - timedelta(days=1)])

    assert isinstance(refusal, Err)
    assert refusal.errors == {"dates": ["Choose today or a later day."]}
    assert value_of(services.skip(actor, job.public_id, days=[today])).skips == today.isoformat()


@pytest.mark.parametrize("stop", [services.delete, services.cancel])
def test_job_that_was_stopped_again_is_not_restored_to_before_the_first_time(actor, time_machine, stop):
    job = JobFactory(owner=actor.user)
    first = NOW
    for change in (stop, services.restore, stop):
        assert isinstance(change(actor, job.public_id), Ok)
        time_machine.shift(1)

    refused = services.restore(actor, job.public_id, stopped_at=first)

    assert isinstance(refused, Err)
    assert refused.kind == Kind.WRONG_STATE
    assert isinstance(services.restore(actor, job.public_id, stopped_at=first + timedelta(seconds=2)), Ok)


def test_job_with_an_invalid_schedule_is_restored_as_paused(actor):
    job = JobFactory(owner=actor.user, cron="nonsense", deleted_at=NOW)

    restored = value_of(services.restore(actor, job.public_id))

    assert (restored.status, restored.has_unreadable_schedule) == (Status.PAUSED, True)
    assert "cannot be read" in restored.pause_reason


def test_new_schedule_ends_the_alarm_about_one_that_cannot_be_read(actor):
    job = JobFactory(
        owner=actor.user, paused=True, cron="no", has_unreadable_schedule=True, pause_reason="Cannot be read."
    )

    edited = value_of(services.edit(actor, job.public_id, cron="0 9 * * *"))
    assert (edited.status, edited.has_unreadable_schedule, edited.pause_reason) == (Status.PAUSED, False, "")
    resumed = value_of(services.resume(actor, job.public_id))

    assert (resumed.status, resumed.has_unreadable_schedule) == (Status.PENDING, False)


@pytest.mark.parametrize(("run", "status"), [("running", "running"), ("cancelled", "completed")])
def test_job_deleted_during_its_last_run_is_restored_in_the_state_of_that_run(actor, run, status):
    job = job_in("running", owner=actor.user)
    ExecutionFactory(job=job, status=run)
    services.delete(actor, job.public_id)

    assert value_of(services.restore(actor, job.public_id)).status == status


def test_restored_job_counts_against_the_quota(actor, settings):
    settings.CRONTY_MAX_ACTIVE_JOBS = 1
    first = create_job(actor)
    services.delete(actor, first.public_id)
    second = create_job(actor)

    refusal = services.restore(actor, first.public_id)

    assert isinstance(refusal, Err)
    assert refusal.kind == Kind.QUOTA
    services.cancel(actor, second.public_id)
    assert isinstance(services.restore(actor, first.public_id), Ok)


def test_run_of_an_inactive_owner_is_refused(actor, operator):
    job = create_job(actor)
    type(operator).objects.filter(pk=actor.user.pk).update(is_active=False)

    refusal = services.run_now(Actor(operator, Event.Door.ADMIN), job.public_id)

    assert isinstance(refusal, Err)
    assert refusal.kind == Kind.WRONG_STATE
    assert not Execution.objects.exists()


def test_run_now_queues_one_run_and_keeps_the_schedule(actor):
    job = create_job(actor)

    execution = value_of(services.run_now(actor, job.public_id))

    assert (execution.status, execution.cause, execution.available_at) == ("queued", "manual", NOW)
    assert (execution.job_name, execution.task, execution.owner) == (job.name, job.task, actor.user)
    assert Job.objects.get(pk=job.pk).next_run_at == job.next_run_at


def test_number_of_waiting_manual_runs_is_limited(actor):
    job = create_job(actor)
    for _ in range(10):
        value_of(services.run_now(actor, job.public_id))

    refusal = services.run_now(actor, job.public_id)

    assert isinstance(refusal, Err)
    assert refusal.kind == Kind.QUOTA


CHANGES = {
    "edit": lambda actor, job: services.edit(actor, job.public_id, name="Other", cron="0 9 * * *"),
    "pause": lambda actor, job: services.pause(actor, job.public_id, until=NOW + timedelta(hours=1)),
    "resume": lambda actor, job: services.resume(actor, job.public_id),
    "cancel": lambda actor, job: services.cancel(actor, job.public_id),
    "delete": lambda actor, job: services.delete(actor, job.public_id),
    "restore": lambda actor, job: services.restore(actor, job.public_id),
    "restore a cancelled one": lambda actor, job: services.restore(actor, job.public_id),
}


def test_changed_job_is_returned_as_it_is_stored(actor):
    for change in CHANGES:
        for runs in ["no runs", "a retry", "a run from the future"]:
            job = create_job(actor)
            if change == "resume":
                value_of(services.pause(actor, job.public_id))
            if change == "restore":
                value_of(services.delete(actor, job.public_id))
            if change == "restore a cancelled one":
                value_of(services.cancel(actor, job.public_id))
            if runs == "a retry":
                ExecutionFactory(job=job, status="queued", attempt=1, error="It broke", available_at=NOW)
            if runs == "a run from the future":
                ExecutionFactory(job=job, status="queued", scheduled_for=NOW + timedelta(days=1))

            changed = value_of(CHANGES[change](actor, job))

            stored = Job.objects.get(pk=job.pk)
            columns = [field.attname for field in Job._meta.concrete_fields]
            assert {name: getattr(changed, name) for name in columns} == {
                name: getattr(stored, name) for name in columns
            }


@pytest.mark.parametrize("stop", [services.pause, services.cancel])
def test_agent_cannot_start_a_command_again_that_is_not_for_agents(actor, agent, use_commands, stop):
    use_commands('[backup]\ndescription = "Back up."\nprogram = "/bin/true"\nallow = ["everyone"]\n')
    job = JobFactory(owner=actor.user, task="backup")
    stop(actor, job.public_id)
    start = services.resume if stop is services.pause else services.restore

    refusal = start(agent, job.public_id)

    assert isinstance(refusal, Err)
    assert "Agents may not use the command backup." in str(refusal.errors)
    assert isinstance(start(actor, job.public_id), Ok)


def test_new_job_gets_the_time_zone_of_its_owner_and_the_policies_of_its_task(actor):
    notify = {"task": "notify", "kwargs": {"message": "hello", "topic": "home"}}

    job = value_of(
        services.schedule(actor, name="Tell me", trigger_type="cron", cron="0 9 * * *", **notify)
    ).job
    paused = create_job(actor, paused=True)

    assert (job.timezone, job.next_run_at) == ("Europe/Berlin", datetime(2026, 2, 5, 8, tzinfo=UTC))
    assert job.attempts > 1
    assert (paused.status, paused.next_run_at, paused.paused_at) == (Status.PAUSED, None, NOW)


def test_jobs_of_others_are_not_found_and_changed_only_by_staff_on_the_pages(
    agent, actor, operator, stranger
):
    for verb in WORKS_IN:
        state = "trashed" if verb == "restore" else "paused" if verb == "resume" else "pending"
        job = job_in(state, owner=stranger)

        for somebody in (agent, actor):
            assert act(verb, somebody, job.public_id) == Err(Code.JOB_NOT_FOUND, job.public_id)
            assert act(verb, somebody, "job_1_1") == Err(Code.JOB_NOT_FOUND, "job_1_1")
        assert verbs_on(job) == []
        assert isinstance(act(verb, Actor(operator, Event.Door.ADMIN), job.public_id), Ok)
        event = Event.objects.get(job=job)
        assert (event.actor, event.door, event.owner) == ("otto", "admin", stranger)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"trigger_type": "once", "cron": "", "run_at": NOW + timedelta(hours=1)}, "run_at"),
        ({"ends_at": NOW + timedelta(hours=1)}, "ends_at"),
        ({"timezone": "Mars/Base"}, "timezone"),
    ],
)
def test_job_without_a_slot_after_its_pause_is_not_resumed(actor, time_machine, fields, field):
    job = create_job(actor, paused=True)
    Job.objects.filter(pk=job.pk).update(**fields)
    time_machine.shift(timedelta(hours=2))

    assert list(services.resume(actor, job.public_id).errors) == [field]


@pytest.mark.parametrize("verb", ["cancel", "delete", "pause"])
def test_queued_runs_are_cancelled_and_running_ones_finish(actor, verb):
    job = JobFactory(owner=actor.user)
    rows = {
        status: ExecutionFactory(job=job, status=status, cause="manual")
        for status in ("queued", "claimed", "running", "waiting", "succeeded")
    }
    scheduled = ExecutionFactory(job=job, status="queued", cause="schedule")

    act(verb, actor, job.public_id)

    ended = {status: Execution.objects.get(pk=row.pk).status for status, row in rows.items()}
    # A pause is about the schedule: what was started by hand goes on.
    withdrawn = {} if verb == "pause" else dict.fromkeys(("queued", "claimed", "waiting"), "cancelled")
    assert ended == {status: status for status in rows} | withdrawn
    assert Execution.objects.get(pk=scheduled.pk).status == "cancelled"


def test_restored_job_has_the_state_in_which_it_was_stopped(actor, time_machine):
    for state in ["paused", "completed", "failed", "cancelled"]:
        job = job_in(state, owner=actor.user)
        services.delete(actor, job.public_id)

        assert isinstance(services.restore(actor, job.public_id, is_deleted=False), Err)
        assert value_of(services.restore(actor, job.public_id)).status == state

    until = NOW + timedelta(days=2)
    for stop in (
        lambda job: services.cancel(actor, job.public_id),
        lambda job: bulk.change_jobs(actor, "cancel", [job.pk]),
    ):
        job = create_job(actor)
        services.pause(actor, job.public_id, reason="Maintenance", until=until)
        stop(job)
        assert isinstance(services.restore(actor, job.public_id, is_deleted=True), Err)
        restored = value_of(services.restore(actor, job.public_id))
        assert (restored.status, restored.next_run_at, restored.paused_at) == (Status.PAUSED, None, NOW)
        assert (restored.pause_reason, restored.paused_until) == ("Maintenance", until)

    once = value_of(services.schedule(actor, **PLAIN, **ONCE)).job
    services.delete(actor, once.public_id)
    time_machine.shift(timedelta(days=1))
    late = value_of(services.restore(actor, once.public_id))
    assert (late.status, late.next_run_at, "trash" in late.pause_reason) == (Status.PAUSED, None, True)
