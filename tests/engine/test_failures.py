"""Notices about failing jobs, and automatic pauses after repeated failures."""

from datetime import timedelta

import pytest

from schedules import engine, services
from schedules.engine import alerts
from schedules.models import Event, Execution, Job, Profile
from schedules.result import Err, Kind, Ok
from schedules.services.jobs.references import public_id_of
from tests.engine.conftest import NOW, begin, ledger, outcome_of
from tests.factories import ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
SOON = NOW + alerts.GATHERING


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
    engine.send_alerts(SOON)
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
        pytest.param({"failure_streak": 1}, id="below the limit"),
        pytest.param({"pause_after_failures": 0, "failure_streak": 99}, id="no limit"),
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


def test_slots_due_at_an_automatic_pause_are_skipped(cluster):
    job = failing(next_run_at=NOW - HOUR)

    fail(cluster, job)

    skipped = Execution.objects.get(status="skipped")
    assert (skipped.scheduled_for, skipped.reason) == (NOW - HOUR, "The job was paused before this run.")


def test_automatic_pause_withdraws_waiting_runs(cluster):
    job = failing(overlap="queue")
    held = ExecutionFactory(job=job, status="queued", scheduled_for=NOW - HOUR)
    retry = ExecutionFactory(
        job=job, status="queued", scheduled_for=NOW - 2 * HOUR, attempt=1, available_at=NOW + HOUR
    )
    manual = ExecutionFactory(job=job, status="queued", cause="manual", available_at=NOW)

    fail(cluster, job)

    for row, status in ((held, "cancelled"), (retry, "failed"), (manual, "queued")):
        row.refresh_from_db()
        assert row.status == status


def test_slots_during_an_automatic_pause_are_skipped_when_it_ends(cluster):
    job = failing()
    fail(cluster, job, at=NOW)

    assert engine.rearm(job, NOW + 3 * HOUR)

    assert ledger(job) == [("failed", NOW), ("skipped", NOW + HOUR)]
    assert Execution.objects.get(status="skipped").slots == 3
    job.refresh_from_db()
    assert (job.status, job.next_run_at, job.failure_streak) == ("pending", NOW + 4 * HOUR, 3)


def test_job_resumed_after_an_automatic_pause_may_fail_as_often_again(cluster):
    job = failing(failure_streak=3)

    states = []
    for minutes in range(3):
        at = NOW + timedelta(minutes=minutes)
        row = begin(cluster, job, now=at)
        engine.settle_runs(cluster.pk, [outcome_of(row, "failed", at=at, error="no route")])
        job.refresh_from_db()
        states.append((job.status, job.failure_streak))

    assert states == [("pending", 4), ("pending", 5), ("paused", 6)]


def test_notice_of_a_pause_is_a_job_that_is_claimed(cluster):
    job = failing(name="Backup")
    Profile.objects.filter(user=job.owner).update(failure_topic="alarm")

    fail(cluster, job)

    notice = Job.objects.get(task="notify")
    notice.full_clean()
    assert (notice.owner, notice.trigger_type, notice.next_run_at) == (job.owner, "once", SOON)
    assert notice.kwargs["message"] == "Backup: Paused after 3 failures in a row.\nno route"
    (claim,) = engine.claim_runs(cluster.pk, SOON, 10)
    assert claim.task == "notify"


@pytest.mark.parametrize(
    ("profile", "alerts", "place"),
    [
        ({}, "", None),
        ({"failure_topic": "ops"}, "", {"topic": "ops"}),
        ({"alert_channel": "phone", "failure_topic": "ops"}, "", {"channel": "phone"}),
        ({}, "channel:phone", {"channel": "phone"}),
        ({"alert_channel": "phone"}, "alarm", {"topic": "alarm"}),
        ({"failure_topic": "ops"}, "never", None),
        (None, "backups", {"topic": "backups"}),
    ],
)
def test_alert_goes_where_its_job_or_else_its_owner_says(cluster, profile, alerts, place):
    job = failing(failure_streak=0, alerts=alerts)
    if profile is None:
        Profile.objects.filter(user=job.owner).delete()
    else:
        Profile.objects.filter(user=job.owner).update(**profile)

    fail(cluster, job)

    notice = Job.objects.filter(task="notify").first()
    sent = notice and {name: notice.kwargs[name] for name in ("topic", "channel") if name in notice.kwargs}
    assert sent == place


@pytest.mark.parametrize(
    ("place", "count"),
    [
        ({"kwargs": {"message": "Tea", "topic": "alarm"}}, 0),
        ({"args": ["Tea", "alarm"]}, 0),
        ({"kwargs": {"message": "Tea", "topic": "other"}}, 1),
        ({"kwargs": {"message": "Tea", "channel": "phone"}}, 0),
    ],
)
def test_failed_notification_is_not_reported_to_the_same_place(cluster, place, count):
    job = failing(task="notify", failure_streak=0, **place)
    by_channel = "channel" in place.get("kwargs", {})
    Profile.objects.filter(user=job.owner).update(
        **({"alert_channel": "phone"} if by_channel else {"failure_topic": "alarm"})
    )

    fail(cluster, job)

    assert Job.objects.notices().count() == count


@pytest.fixture
def sent_notices(owner):
    """Give the owner a failure topic; return a function that lists the notices sent to it."""
    owner.cronty_profile.failure_topic = "alarm"
    owner.cronty_profile.save()
    return lambda: [
        (notice.kwargs["title"], notice.kwargs["message"])
        for notice in Job.objects.filter(name__startswith="Alert: ").order_by("pk")
    ]


def test_owner_is_notified_of_a_schedule_that_cannot_be_read_by_the_claim_and_after_a_pause(
    cluster, owner, sent_notices
):
    JobFactory(owner=owner, name="Due", cron="no", next_run_at=NOW)
    JobFactory(owner=owner, name="Paused", cron="no", paused=True, paused_at=NOW - HOUR, paused_until=NOW)

    engine.claim_runs(cluster.pk, NOW, 10)
    engine.sweep(NOW)
    engine.send_alerts(SOON)

    ((title, message),) = sent_notices()
    assert title == "2 jobs were paused"
    due, paused = message.splitlines()
    assert due.startswith("Due: Its schedule cannot be read: ")
    assert due.endswith(". Edit its schedule, then resume it.")
    assert paused == due.replace("Due", "Paused")


def test_notice_is_found_by_its_name_and_has_the_zone_of_its_owner(cluster, owner, sent_notices):
    owner.cronty_profile.timezone = "Asia/Tokyo"
    owner.cronty_profile.save()

    fail(cluster, failing(owner=owner, name="Backup"))

    notice = Job.objects.get(task="notify")
    assert public_id_of(Job.objects.all(), "Alert: Backup") == Ok(notice.public_id)
    assert notice.timezone == "Asia/Tokyo"


@pytest.mark.parametrize("count", [1, 2])
def test_notice_leads_to_its_job_or_to_the_list_of_jobs(settings, cluster, owner, sent_notices, count):
    settings.CRONTY_URL = "https://cronty.example/"
    jobs = [failing(owner=owner) for _ in range(count)]

    engine.settle_runs(cluster.pk, [outcome_of(begin(cluster, job), "failed") for job in jobs])
    engine.send_alerts(SOON)

    notice = Job.objects.get(task="notify")
    notice.full_clean()
    path = f"/jobs/{jobs[0].public_id}/" if count == 1 else "/notifications/"
    assert notice.kwargs["click"] == f"https://cronty.example{path}"


@pytest.mark.parametrize(
    ("url", "urlconf"),
    [
        pytest.param("http://127.0.0.1:8000", None, id="loopback"),
        pytest.param("http://[::1]:8000", None, id="loopback of version 6"),
        pytest.param("https://cronty.example", (), id="without the pages"),
        pytest.param("https://cronty.example", "no.such.module", id="broken"),
        pytest.param("https://[cronty", "tests", id="broken address"),
    ],
)
def test_address_without_pages_costs_the_link_and_not_the_outcome(
    settings, cluster, owner, sent_notices, url, urlconf
):
    settings.CRONTY_URL = url
    if urlconf is not None:
        settings.ROOT_URLCONF = urlconf
    job = failing(owner=owner)

    fail(cluster, job)

    assert job.executions.get().status == "failed"
    assert "click" not in Job.objects.get(task="notify").kwargs


def test_owner_is_notified_of_the_first_failure_after_a_success_only(cluster, owner, sent_notices):
    job = failing(owner=owner, name="Backup", failure_streak=0, pause_after_failures=10)

    counts = []
    for status in ("failed", "failed", "succeeded", "failed"):
        run = begin(cluster, job, cause="manual")
        engine.settle_runs(
            cluster.pk, [outcome_of(run, status, error="no route" if status == "failed" else "")]
        )
        engine.watch_incidents(NOW)
        engine.send_alerts(SOON)
        counts.append(len(sent_notices()))

    assert counts == [1, 1, 2, 3]
    assert sent_notices()[::2] == [("A job failed", "Backup: no route")] * 2
    assert sent_notices()[1][0] == "A job works again"


def test_owner_is_notified_of_a_failed_one_time_job(cluster, owner, sent_notices):
    job = failing(
        owner=owner, name="Call", once=True, cron="", run_at=NOW, status="running", next_run_at=None,
        failure_streak=0,
    )  # fmt: skip

    fail(cluster, job)

    assert job.status == "failed"
    assert sent_notices() == [("A job failed", "Call: no route")]


def test_failures_settled_together_share_one_notice(cluster, owner, stranger, sent_notices):
    jobs = [failing(owner=owner, name=f"Job {number}", failure_streak=0) for number in range(3)]
    foreign = failing(owner=stranger, failure_streak=0)

    engine.settle_runs(
        cluster.pk,
        [outcome_of(begin(cluster, job), "failed", error="no route") for job in (*jobs, foreign)],
    )
    engine.send_alerts(SOON)

    assert sent_notices() == [("3 jobs failed", "Job 0: no route\nJob 1: no route\nJob 2: no route")]


def test_automatic_pause_sends_only_the_pause_notice(cluster, owner, sent_notices):
    job = failing(owner=owner, name="Backup", failure_streak=0, pause_after_failures=1)

    fail(cluster, job)

    assert sent_notices() == [("A job was paused", "Backup: Paused after its first failure.\nno route")]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"deleted_at": NOW}, id="deleted"),
        pytest.param({"status": "cancelled", "next_run_at": None}, id="cancelled"),
        pytest.param({"status": "paused", "next_run_at": None}, id="paused"),
    ],
)
def test_failure_of_a_stopped_job_sends_no_notice(cluster, owner, sent_notices, fields):
    fail(cluster, failing(owner=owner, failure_streak=0, **fields))

    assert sent_notices() == []


def test_cancelled_run_sends_no_notice(cluster, owner, sent_notices):
    job = failing(owner=owner, failure_streak=0)

    engine.settle_runs(cluster.pk, [outcome_of(begin(cluster, job), "cancelled")])

    assert sent_notices() == []


def test_notices_do_not_count_towards_the_rate_limit_of_the_owner(
    cluster, actor, sent_notices, settings, time_machine
):
    time_machine.move_to(NOW, tick=False)
    settings.CRONTY_MAX_CREATES_PER_MINUTE = 1
    fail(cluster, failing(owner=actor.user, failure_streak=0, created_at=NOW - HOUR))
    request = {"name": "Backup", "task": "tests.ping", "trigger_type": "cron", "cron": "0 9 * * *"}

    made, refused = (services.schedule(actor, **request) for _ in range(2))

    assert len(sent_notices()) == 1
    assert isinstance(made, Ok)
    assert isinstance(refused, Err)
    assert refused.kind == Kind.TOO_FAST


def test_notices_per_hour_are_limited_for_each_owner(
    cluster, owner, stranger, sent_notices, settings, caplog
):
    settings.CRONTY_MAX_FAILURE_NOTICES_PER_HOUR = 2
    for _ in range(4):
        fail(cluster, failing(owner=owner, failure_streak=0))

    assert len(sent_notices()) == 2
    assert "the next ones are sent later" in caplog.text
    Job.objects.notices().update(created_at=NOW - HOUR)
    engine.send_alerts(SOON + timedelta(minutes=6))
    assert [title for title, _ in sent_notices()] == ["A job failed", "A job failed", "2 jobs failed"]


def fail_together(cluster, owner, names, error):
    jobs = [failing(owner=owner, name=name, failure_streak=0) for name in names]
    engine.settle_runs(cluster.pk, [outcome_of(begin(cluster, job), "failed", error=error) for job in jobs])
    engine.send_alerts(SOON)


def test_long_error_does_not_hide_the_other_jobs(cluster, owner, sent_notices):
    fail_together(cluster, owner, ["Chatty", "Backup"], "x" * 3000)

    ((_, message),) = sent_notices()
    assert "Chatty: xxx" in message
    assert "Backup: xxx" in message
    assert len(message) <= alerts.LONGEST_NOTICE


def test_notice_counts_the_jobs_that_it_does_not_name(cluster, owner, sent_notices, monkeypatch):
    monkeypatch.setattr(alerts, "MAX_NAMED", 2)

    fail_together(cluster, owner, [f"Job {number}" for number in range(5)], "boom")

    ((title, message),) = sent_notices()
    assert title == "5 jobs failed"
    assert message.endswith("\n… and 3 more")
