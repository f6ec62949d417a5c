"""A job that begins to fail is told of; one that only ever fails is paused."""

from datetime import timedelta

import pytest

from schedules import engine, services
from schedules.models import Event, Execution, Job
from schedules.result import Code, Err, Ok
from tests.engine.conftest import NOW, begin, ledger, outcome_of
from tests.factories import ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def failing(**fields):
    defaults = {
        "cron": "0 * * * *",
        "next_run_at": NOW + HOUR,
        "pause_after_failures": 3,
        "failure_streak": 2,
    }
    return JobFactory(**defaults | fields)


def fail(cluster, job, **fields):
    engine.settle_runs(cluster.pk, [outcome_of(begin(cluster, job), "failed", error="no route", **fields)])
    job.refresh_from_db()


def test_job_is_paused_by_its_last_allowed_failure(cluster):
    job = failing()

    fail(cluster, job)

    assert (job.status, job.next_run_at, job.paused_at) == ("paused", None, NOW)
    assert job.pause_reason == "Paused after 3 failures in a row."
    assert job.revision == 2
    event = Event.objects.get()
    assert (event.verb, event.door, event.job) == ("pause", "engine", job)
    assert event.after == {"reason": job.pause_reason, "error": "no route"}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"failure_streak": 1}, id="not yet"),
        pytest.param({"pause_after_failures": 0, "failure_streak": 99}, id="never"),
        pytest.param({"deleted_at": NOW}, id="in the trash"),
        pytest.param({"status": "cancelled", "next_run_at": None}, id="cancelled"),
    ],
)
def test_other_jobs_are_not_paused(cluster, fields):
    job = failing(**fields)

    fail(cluster, job)

    assert job.status == fields.get("status", "pending")
    assert not Event.objects.exists()


def test_success_resets_the_streak(cluster):
    job = failing()

    engine.settle_runs(cluster.pk, [outcome_of(begin(cluster, job))])

    job.refresh_from_db()
    assert (job.status, job.failure_streak) == ("pending", 0)


def test_slots_due_at_that_moment_are_accounted_for(cluster):
    job = failing(next_run_at=NOW - HOUR)

    fail(cluster, job)

    skipped = Execution.objects.get(status="skipped")
    assert (skipped.scheduled_for, skipped.reason) == (NOW - HOUR, "The job was paused before it could run.")


def test_waiting_runs_are_withdrawn(cluster):
    job = failing(overlap="queue")
    held = ExecutionFactory(job=job, status="queued", scheduled_for=NOW - HOUR)
    retry = ExecutionFactory(
        job=job, status="queued", scheduled_for=NOW - 2 * HOUR, attempt=1, available_at=NOW + HOUR
    )
    by_hand = ExecutionFactory(job=job, status="queued", cause="manual", available_at=NOW)

    fail(cluster, job)

    for row, status in ((held, "cancelled"), (retry, "failed"), (by_hand, "queued")):
        row.refresh_from_db()
        assert row.status == status


def test_slots_of_such_a_pause_are_accounted_for_when_it_ends(cluster):
    job = failing()
    fail(cluster, job, at=NOW)

    assert engine.rearm(job, NOW + 3 * HOUR)

    assert ledger(job) == [("failed", NOW), ("skipped", NOW + HOUR)]
    assert Execution.objects.get(status="skipped").slots == 3
    job.refresh_from_db()
    assert (job.status, job.next_run_at, job.failure_streak) == ("pending", NOW + 4 * HOUR, 0)


@pytest.mark.parametrize("topic", ["", "alarm"])
def test_owner_with_a_topic_is_notified(cluster, topic):
    job = failing(name="Backup")
    job.owner.cronty_profile.failure_topic = topic
    job.owner.cronty_profile.save()

    fail(cluster, job)

    notice = Job.objects.filter(task="notify").first()
    assert bool(notice) == bool(topic)
    if notice:
        notice.full_clean()
        assert (notice.owner, notice.trigger_type, notice.next_run_at) == (job.owner, "once", NOW)
        assert notice.kwargs["topic"] == "alarm"
        assert notice.kwargs["message"] == "Backup: Paused after 3 failures in a row.\nno route"
        (claim,) = engine.claim_runs(cluster.pk, NOW, 10)
        assert claim.task == "notify"


@pytest.fixture
def told(owner):
    """Give the owner a topic, and return what was said there."""
    owner.cronty_profile.failure_topic = "alarm"
    owner.cronty_profile.save()
    return lambda: [
        (notice.kwargs["title"], notice.kwargs["message"])
        for notice in Job.objects.filter(name__startswith="Failure notice").order_by("pk")
    ]


def test_first_failure_since_a_success_is_notified_once(cluster, owner, told):
    job = failing(owner=owner, name="Backup", failure_streak=0, pause_after_failures=10)

    counts = []
    for status in ("failed", "failed", "succeeded", "failed"):
        run = begin(cluster, job, cause="manual")
        engine.settle_runs(
            cluster.pk, [outcome_of(run, status, error="no route" if status == "failed" else "")]
        )
        counts.append(len(told()))

    assert counts == [1, 1, 1, 2]
    assert told()[0] == ("A job failed", "Backup: no route")


def test_failed_one_time_job_is_notified(cluster, owner, told):
    job = failing(
        owner=owner, name="Call", once=True, cron="", run_at=NOW, status="running", next_run_at=None,
        failure_streak=0,
    )  # fmt: skip

    fail(cluster, job)

    assert job.status == "failed"
    assert told() == [("A job failed", "Call: no route")]


def test_failures_of_one_moment_make_one_notice(cluster, owner, stranger, told):
    jobs = [failing(owner=owner, name=f"Job {number}", failure_streak=0) for number in range(3)]
    foreign = failing(owner=stranger, failure_streak=0)

    engine.settle_runs(
        cluster.pk,
        [outcome_of(begin(cluster, job), "failed", error="no route") for job in (*jobs, foreign)],
    )

    assert told() == [("3 jobs failed", "Job 0: no route\nJob 1: no route\nJob 2: no route")]


def test_paused_job_is_notified_as_paused_only(cluster, owner, told):
    job = failing(owner=owner, name="Backup", failure_streak=0, pause_after_failures=1)

    fail(cluster, job)

    assert told() == [("A job was paused", "Backup: Paused after its first failure.\nno route")]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"deleted_at": NOW}, id="deleted"),
        pytest.param({"status": "cancelled", "next_run_at": None}, id="cancelled"),
        pytest.param({"status": "paused", "next_run_at": None}, id="paused"),
    ],
)
def test_failure_of_a_stopped_job_is_not_notified(cluster, owner, told, fields):
    fail(cluster, failing(owner=owner, failure_streak=0, **fields))

    assert told() == []


def test_cancelled_run_is_no_failure(cluster, owner, told):
    job = failing(owner=owner, failure_streak=0)

    engine.settle_runs(cluster.pk, [outcome_of(begin(cluster, job), "cancelled")])

    assert told() == []


@pytest.mark.parametrize(("topic", "count"), [("alarm", 0), ("other", 1)])
def test_failed_notification_is_not_notified_at_the_same_topic(cluster, owner, told, topic, count):
    job = failing(owner=owner, task="notify", kwargs={"message": "Tea", "topic": topic}, failure_streak=0)

    fail(cluster, job)

    assert len(told()) == count


def test_topic_given_by_position_is_the_same_topic(cluster, owner, told):
    job = failing(owner=owner, task="notify", args=["Tea", "alarm"], failure_streak=0)

    fail(cluster, job)

    assert told() == []


def test_notices_do_not_count_towards_the_owner_s_rate_limit(cluster, actor, told, settings, time_machine):
    time_machine.move_to(NOW, tick=False)
    settings.CRONTY_MAX_CREATES_PER_MINUTE = 1
    fail(cluster, failing(owner=actor.user, failure_streak=0, created_at=NOW - HOUR))
    request = {"name": "Backup", "task": "tests.ping", "trigger_type": "cron", "cron": "0 9 * * *"}

    made, refused = (services.schedule(actor, **request) for _ in range(2))

    assert len(told()) == 1
    assert isinstance(made, Ok)
    assert isinstance(refused, Err)
    assert refused.code == Code.TOO_FAST
