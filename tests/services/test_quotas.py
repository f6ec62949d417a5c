"""Quotas per owner: active jobs, creations and runs by hand per minute, and tokens."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from schedules import services
from schedules.mcp.answers.refusals import message_of
from schedules.models import Execution, Job, Token
from schedules.result import Err, Kind, Ok
from schedules.services import Actor, issue_token, profile_of
from schedules.services.quotas import active_jobs, creation_problem
from tests.factories import ExecutionFactory, JobFactory
from tests.services.conftest import NOW
from tests.services.made_jobs import CRON, NO_TRIGGER, PLAIN, create_job, cron, value_of


@pytest.fixture(autouse=True)
def small_quotas(settings):
    settings.CRONTY_MAX_ACTIVE_JOBS = 3
    settings.CRONTY_MAX_CREATES_PER_MINUTE = 2
    settings.CRONTY_MAX_RUNS_BY_HAND_PER_MINUTE = 2
    settings.CRONTY_MAX_TOKENS = 2


def test_active_jobs_count_against_the_quota(owner):
    JobFactory(owner=owner)
    JobFactory(owner=owner, paused=True)
    JobFactory(owner=owner, status="running", next_run_at=None)

    refusal = creation_problem(profile_of(owner), 0.0, NOW)

    assert isinstance(refusal, Err)
    assert refusal.kind == Kind.QUOTA
    assert "at most 3 active jobs" in message_of(refusal)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"ended": True}, id="ended"),
        pytest.param({"deleted_at": NOW}, id="in the trash"),
        pytest.param({"owner": None}, id="somebody else's"),
    ],
)
def test_other_jobs_do_not_count(owner, stranger, settings, fields):
    settings.CRONTY_MAX_CREATES_PER_MINUTE = 100
    JobFactory.create_batch(2, owner=owner)
    JobFactory(**({"owner": owner} | fields | ({"owner": stranger} if "owner" in fields else {})))

    assert creation_problem(profile_of(owner), 0.0, NOW) is None


def test_refused_create_says_when_to_try_again(owner):
    JobFactory(owner=owner, created_at=NOW - timedelta(seconds=50))
    JobFactory(owner=owner, created_at=NOW - timedelta(seconds=5), ended=True, deleted_at=NOW)

    refusal = creation_problem(profile_of(owner), 0.0, NOW)

    assert isinstance(refusal, Err)
    assert (refusal.kind, refusal.retry_after) == (Kind.TOO_FAST, 10)
    assert "in 10 seconds" in message_of(refusal)


def test_jobs_created_at_once_count_one_by_one(actor, settings):
    settings.CRONTY_MAX_CREATES_PER_MINUTE = 100
    value_of(services.schedule_many(actor, [PLAIN | CRON] * 2))

    refusal = services.schedule_many(actor, [PLAIN | CRON] * 2)

    assert isinstance(refusal, Err)
    assert "at most 3 active jobs" in message_of(refusal)
    value_of(services.schedule_many(actor, [PLAIN | CRON]))


def test_jobs_created_at_once_wait_until_there_is_room_for_all(actor, owner):
    JobFactory(owner=owner, created_at=NOW - timedelta(seconds=50))

    refusal = services.schedule_many(actor, [PLAIN | CRON] * 2)

    assert isinstance(refusal, Err)
    assert (refusal.kind, refusal.retry_after) == (Kind.TOO_FAST, 10)
    value_of(services.schedule_many(actor, [PLAIN | CRON]))


def test_more_jobs_at_once_than_a_minute_allows_are_refused_for_good(actor):
    refusal = services.schedule_many(actor, [PLAIN | CRON] * 3)

    assert isinstance(refusal, Err)
    assert (refusal.kind, refusal.retry_after) == (Kind.QUOTA, None)
    assert "at most 2 new jobs a minute; create fewer at once" in message_of(refusal)


def test_stated_wait_is_rounded_up(owner):
    JobFactory.create_batch(2, owner=owner, created_at=NOW - timedelta(seconds=49.6))

    refusal = creation_problem(profile_of(owner), 0.0, NOW)

    assert isinstance(refusal, Err)
    assert refusal.retry_after == pytest.approx(10.4)
    assert "in 11 seconds" in message_of(refusal)


def test_creates_older_than_a_minute_do_not_count(owner, stranger):
    JobFactory(owner=owner, created_at=NOW - timedelta(minutes=1))
    JobFactory(owner=owner, created_at=NOW)
    JobFactory(owner=stranger, created_at=NOW)

    assert creation_problem(profile_of(owner), 0.0, NOW) is None


@pytest.fixture
def small_budget(settings):
    settings.CRONTY_MAX_ACTIVE_JOBS, settings.CRONTY_MAX_CREATES_PER_MINUTE = 100, 100
    settings.CRONTY_MAX_RUNS_PER_MINUTE = 70


def every(seconds: int) -> dict:
    return NO_TRIGGER | {"trigger_type": "interval", "every": timedelta(seconds=seconds)}


def refusal_of(result) -> str:
    assert isinstance(result, Err), result
    assert result.kind == Kind.QUOTA
    return message_of(result)


@pytest.mark.usefixtures("small_budget")
def test_schedule_over_the_budget_of_runs_is_refused_with_numbers(actor):
    create_job(actor, **every(1))
    create_job(actor, **cron("*/6 * * * *"))
    paused = create_job(actor, **every(7), paused=True)

    message = refusal_of(services.schedule(actor, **PLAIN, **every(30)))

    assert "at most 70 planned runs a minute" in message
    assert "would add 2 to the 68.74 of your active jobs" in message
    services.delete(actor, paused.public_id)
    assert isinstance(services.schedule(actor, **PLAIN, **every(30)), Ok)
    assert "add 8.571 to the 62.17" in refusal_of(services.restore(actor, paused.public_id))


@pytest.mark.usefixtures("small_budget")
def test_changed_schedule_over_the_budget_of_runs_is_refused(actor):
    create_job(actor, **every(1))
    job = create_job(actor, **cron("* 9 * * *"))

    assert "would add 19.96 to the 60.04" in refusal_of(services.edit(actor, job.public_id, **every(3)))
    job.refresh_from_db()
    assert (job.cron, job.runs_per_minute) == ("* 9 * * *", pytest.approx(60 / 1440))

    value_of(services.edit(actor, job.public_id, **every(6)))
    job.refresh_from_db()
    assert job.runs_per_minute == 10
    # Less is always allowed.
    value_of(services.edit(actor, job.public_id, **every(60)))


@pytest.mark.usefixtures("small_budget")
def test_budget_of_runs_can_be_turned_off(actor, settings):
    settings.CRONTY_MAX_RUNS_PER_MINUTE = 0
    for _ in range(3):
        create_job(actor, **every(1))
    job = create_job(actor, **every(60))

    value_of(services.edit(actor, job.public_id, **every(1)))

    assert active_jobs(actor.user.pk)[1] == 240


@pytest.mark.usefixtures("small_budget")
def test_jobs_of_others_and_ended_jobs_do_not_use_the_budget_of_runs(actor, owner, stranger):
    JobFactory(owner=stranger, runs_per_minute=60)
    JobFactory(owner=owner, ended=True, runs_per_minute=60)

    assert isinstance(services.schedule(actor, **PLAIN, **every(1)), Ok)
    assert active_jobs(owner.pk)[1] == 60


def test_creates_of_the_minute_before_count_in_the_next_one(actor, settings, time_machine):
    settings.CRONTY_MAX_ACTIVE_JOBS = 100
    create_job(actor)
    time_machine.shift(timedelta(seconds=50))
    create_job(actor)
    time_machine.shift(timedelta(seconds=15))
    create_job(actor)

    refusal = services.schedule(actor, **PLAIN, **CRON)

    assert isinstance(refusal, Err)
    assert (refusal.kind, refusal.retry_after) == (Kind.TOO_FAST, 45)


def test_restored_job_counts_at_once(actor, settings):
    settings.CRONTY_MAX_ACTIVE_JOBS, settings.CRONTY_MAX_CREATES_PER_MINUTE = 3, 100
    jobs = [create_job(actor) for _ in range(2)]
    services.delete(actor, jobs[0].public_id)
    create_job(actor)
    value_of(services.restore(actor, jobs[0].public_id))

    assert "active jobs" in refusal_of(services.schedule(actor, **PLAIN, **CRON))


@pytest.mark.usefixtures("small_budget")
def test_changed_schedule_counts_at_once(actor):
    job = create_job(actor, **every(60))
    value_of(services.edit(actor, job.public_id, **every(1)))

    assert "would add 20 to the 60 " in refusal_of(services.schedule(actor, **PLAIN, **every(3)))
    assert isinstance(services.schedule(actor, **PLAIN, **every(6)), Ok)
    refusal_of(services.schedule(actor, **PLAIN, **every(60)))


def test_quota_is_read_from_an_index_alone(actor, owner):
    # So many that no other index of the owner's jobs comes near.
    Job.objects.bulk_create(JobFactory.build_batch(2000, owner=owner, ended=True))
    JobFactory.create_batch(3, owner=owner)
    with CaptureQueriesContext(connection) as queries:
        creation_problem(profile_of(owner), 1.0, NOW)
    statement = next(query["sql"] for query in queries if "runs_per_minute" in query["sql"])

    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # It chooses among indexes by what it knows of the rows, and may read a small table as a whole.
            cursor.execute("ANALYZE schedules_job")
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute("SET LOCAL enable_bitmapscan = off")
        cursor.execute(f"EXPLAIN {'QUERY PLAN ' * (connection.vendor == 'sqlite')}{statement}")
        plan = "\n".join(str(row[-1]) for row in cursor.fetchall())

    assert "COVERING INDEX job_owner_status" in plan or "Index Only Scan using job_owner_status" in plan


def test_runs_by_hand_are_limited_over_all_jobs_of_an_owner(actor, owner, stranger):
    jobs = JobFactory.create_batch(3, owner=owner)
    ExecutionFactory(job=jobs[0], cause="manual", scheduled_for=NOW - timedelta(minutes=1))
    ExecutionFactory(job=jobs[0], cause="schedule", scheduled_for=NOW - timedelta(seconds=5))
    ExecutionFactory(job__owner=stranger, cause="manual", scheduled_for=NOW)

    first, second, third = (services.run_now(actor, job.public_id) for job in jobs)

    assert isinstance(first, Ok)
    assert isinstance(second, Ok)
    assert (third.kind, third.retry_after) == (Kind.TOO_FAST, 60)
    assert "at most 2 runs by hand a minute; try again in 60 seconds" in message_of(third)
    assert Execution.objects.filter(owner=owner, scheduled_for=NOW).count() == 2
    assert isinstance(services.run_now(Actor(stranger), JobFactory(owner=stranger).public_id), Ok)


def test_tokens_that_are_not_revoked_are_limited(owner, stranger):
    first, second, third = (issue_token(owner, name=name) for name in ("a", "b", "c"))

    assert isinstance(second, Ok)
    assert (third.kind, message_of(third)) == (Kind.QUOTA, "at most 2 tokens; revoke one first")
    assert Token.objects.filter(owner=owner).count() == 2
    assert isinstance(issue_token(stranger, name="a"), Ok)
    services.revoke_token(owner, first.value.token.pk)
    assert isinstance(issue_token(owner, name="c"), Ok)
