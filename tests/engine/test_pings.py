"""Pings end the slots that wait for them; a slot without a ping fails when its grace time is over."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from schedules import engine
from schedules.models import Cluster, Execution, Heartbeat, Job, Ping, RunOutput
from tests.engine.conftest import NOW, new_cluster
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
RID, OTHER = UUID(int=1), UUID(int=2)


def heartbeat_job(grace="15m", **fields):
    kind = {} if {"once", "interval"} & fields.keys() else {"cron": "0 * * * *"}
    defaults = {"task": "heartbeat", "kwargs": {"grace": grace}, "next_run_at": NOW, "created_at": NOW - DAY}
    if fields.get("paused"):
        del defaults["next_run_at"]
    job = JobFactory(**kind | defaults | fields)
    Heartbeat.objects.create(job=job, owner=job.owner, slug="backup")
    return job


def claim(cluster, now):
    claims = engine.claim_runs(cluster.pk, now, 100)
    engine.sweep(now)
    return claims


def ping(job, now, kind="success", **fields):
    return engine.receive([engine.Signal(job.pk, Ping.Kind(kind), **fields)], now)


def slots(job):
    rows = Execution.objects.filter(job=job).order_by("scheduled_for", "pk")
    return [(row.scheduled_for, row.status) for row in rows]


def test_due_slot_waits_for_its_ping_and_keeps_no_worker_busy(cluster):
    job = heartbeat_job()

    claims = claim(cluster, NOW)

    row = Execution.objects.get()
    assert claims == []
    assert (row.status, row.scheduled_for, row.available_at) == ("queued", NOW, NOW + 15 * MINUTE)
    job.refresh_from_db()
    assert job.next_run_at == NOW + HOUR
    assert engine.wake_up_at(NOW) == NOW + 15 * MINUTE


def test_ping_in_time_ends_the_slot_as_succeeded(cluster):
    job = heartbeat_job()
    claim(cluster, NOW)

    assert ping(job, NOW + 2 * MINUTE) == [True]

    row = Execution.objects.get()
    assert (row.status, row.finished_at, row.attempt) == ("succeeded", NOW + 2 * MINUTE, 1)
    job.refresh_from_db()
    assert (job.recent, job.failure_streak, job.last_success_at) == ("S", 0, NOW + 2 * MINUTE)
    claim(cluster, NOW + 16 * MINUTE)
    assert slots(job) == [(NOW, "succeeded")]


def test_slot_without_a_ping_fails_when_its_grace_time_is_over(cluster):
    job = heartbeat_job(timezone="Europe/Berlin")
    claim(cluster, NOW)
    claim(cluster, NOW + 15 * MINUTE - timedelta(seconds=1))
    assert slots(job) == [(NOW, "queued")]

    claim(cluster, NOW + 15 * MINUTE)

    row = Execution.objects.get()
    assert (row.status, row.error) == ("failed", "No ping came until 10:15. None has come before.")
    job.refresh_from_db()
    assert (job.recent, job.failure_streak, job.last_error) == ("F", 1, row.error)


def test_failure_says_when_the_ping_of_the_day_before_came(cluster):
    job = heartbeat_job(cron="0 9 * * *")
    claim(cluster, NOW)
    ping(job, NOW + 2 * MINUTE - timedelta(seconds=41), "start", rid=RID)
    ping(job, NOW + 2 * MINUTE, rid=RID)

    claim(cluster, NOW + DAY)
    claim(cluster, NOW + DAY + 15 * MINUTE)

    row = Execution.objects.get(status="failed")
    assert row.error == "No ping came until 09:15. The one of the day before came at 09:02 after 41 s."


def test_start_runs_and_success_of_the_same_run_is_timed(cluster):
    job = heartbeat_job()
    claim(cluster, NOW)

    ping(job, NOW + MINUTE, "start", rid=RID)
    row = Execution.objects.get()
    assert (row.status, row.started_at, row.lateness) == ("running", NOW + MINUTE, MINUTE)
    ping(job, NOW + 3 * MINUTE, rid=RID)

    row.refresh_from_db()
    assert (row.status, row.took) == ("succeeded", 2 * MINUTE)
    job.refresh_from_db()
    assert job.last_duration == 2 * MINUTE


def test_start_without_an_end_within_the_grace_time_is_a_failure(cluster):
    job = heartbeat_job()
    claim(cluster, NOW)
    ping(job, NOW + 10 * MINUTE, "start")
    claim(cluster, NOW + 20 * MINUTE)
    assert slots(job) == [(NOW, "running")]

    claim(cluster, NOW + 25 * MINUTE + timedelta(seconds=1))

    row = Execution.objects.get()
    assert (row.status, row.error) == ("failed", "It started at 09:10, but no end was reported until 09:25.")


def test_only_the_newest_of_two_starts_is_timed(cluster):
    job = heartbeat_job()
    claim(cluster, NOW)
    ping(job, NOW + MINUTE, "start", rid=RID)
    ping(job, NOW + 4 * MINUTE, "start", rid=OTHER)

    ping(job, NOW + 5 * MINUTE, rid=OTHER)

    assert Execution.objects.get().took == MINUTE


def test_success_of_another_run_does_not_end_the_one_that_runs(cluster):
    job = heartbeat_job()
    claim(cluster, NOW)
    ping(job, NOW + MINUTE, "start", rid=RID)

    ping(job, NOW + 2 * MINUTE, rid=OTHER)

    assert slots(job) == [(NOW, "running"), (NOW + 2 * MINUTE, "succeeded")]


@pytest.mark.parametrize("rid", [None, OTHER], ids=["without", "other"])
def test_any_failure_ends_what_runs_without_a_duration(cluster, rid):
    job = heartbeat_job()
    claim(cluster, NOW)
    ping(job, NOW + MINUTE, "start", rid=RID)

    ping(job, NOW + 2 * MINUTE, "fail", rid=rid, exit_status=3, body="disk full\n")

    row = Execution.objects.get()
    assert (row.status, row.took, row.result) == ("failed", None, {"exit_code": 3})
    assert row.error == "The job ended with exit code 3.\ndisk full"
    assert RunOutput.objects.get().tail == "disk full\n"


def test_start_and_end_more_than_three_days_apart_are_unrelated(cluster):
    job = heartbeat_job(grace="100h", cron="0 9 1 * *")
    claim(cluster, NOW)
    ping(job, NOW, "start", rid=RID)

    ping(job, NOW + 73 * HOUR, rid=RID)

    row = Execution.objects.get()
    assert (row.status, row.took) == ("succeeded", None)


def test_log_changes_no_state(cluster):
    job = heartbeat_job()
    claim(cluster, NOW)

    ping(job, NOW + MINUTE, "log", body="half way")

    assert slots(job) == [(NOW, "queued")]
    assert RunOutput.objects.get().tail == "half way"
    ping(job, NOW + 2 * MINUTE, body="done")
    assert RunOutput.objects.get().tail == "half way\ndone"
    ping(job, NOW + 3 * MINUTE, "log", body="later")
    assert Ping.objects.get(number=3).body == "later"
    assert Heartbeat.objects.get().pings == 3


def test_ping_just_before_its_slot_counts_for_it(cluster):
    job = heartbeat_job()

    ping(job, NOW - timedelta(seconds=20))

    assert slots(job) == [(NOW, "succeeded")]
    job.refresh_from_db()
    assert (job.next_run_at, job.slot_count) == (NOW + HOUR, 1)
    claim(cluster, NOW + 30 * MINUTE)
    assert slots(job) == [(NOW, "succeeded")]


def test_ping_outside_the_schedule_has_a_row_of_its_own(cluster):
    job = heartbeat_job()

    ping(job, NOW - 20 * MINUTE)

    row = Execution.objects.get()
    assert (row.status, row.cause, row.reason) == (
        "succeeded",
        "manual",
        "This ping came outside the schedule.",
    )
    job.refresh_from_db()
    assert job.next_run_at == NOW


def test_ping_finds_a_slot_that_no_cluster_has_claimed():
    job = heartbeat_job()

    ping(job, NOW + 2 * MINUTE)

    assert slots(job) == [(NOW, "succeeded")]
    job.refresh_from_db()
    assert (job.next_run_at, job.slot_count) == (NOW + HOUR, 1)


def test_interval_begins_with_each_ping(cluster):
    job = heartbeat_job(interval=True, every=HOUR, next_run_at=NOW)

    ping(job, NOW - 10 * MINUTE)

    job.refresh_from_db()
    assert job.next_run_at == NOW + 50 * MINUTE
    assert slots(job) == [(NOW - 10 * MINUTE, "succeeded")]
    claim(cluster, NOW + 50 * MINUTE)
    claim(cluster, NOW + 65 * MINUTE)
    assert slots(job)[-1] == (NOW + 50 * MINUTE, "failed")
    job.refresh_from_db()
    assert job.next_run_at == NOW + 110 * MINUTE


def test_slots_within_a_long_grace_time_end_with_the_next_ping(cluster):
    job = heartbeat_job(grace="3h")
    for hours in range(3):
        claim(cluster, NOW + hours * HOUR)
    assert [status for _, status in slots(job)] == ["queued"] * 3

    ping(job, NOW + 2 * HOUR + MINUTE)

    assert [status for _, status in slots(job)] == ["missed", "missed", "succeeded"]
    reasons = set(Execution.objects.filter(status="missed").values_list("reason", flat=True))
    assert reasons == {"No ping of its own came; the next one came at 11:01, within the grace time."}
    job.refresh_from_db()
    assert job.failure_streak == 0


def test_slot_that_begins_and_ends_while_no_cluster_runs_is_missed(cluster):
    job = heartbeat_job()

    claim(cluster, NOW + 30 * MINUTE)

    assert slots(job) == [(NOW, "missed")]


def test_slot_is_still_awaited_after_a_short_outage(cluster):
    job = heartbeat_job()

    claim(cluster, NOW + 5 * MINUTE)

    row = Execution.objects.get()
    assert (row.status, row.available_at) == ("queued", NOW + 15 * MINUTE)
    assert slots(job) == [(NOW, "queued")]


def come_back(away, back):
    """Start a cluster after a time without any."""
    Cluster.objects.update(last_seen_at=NOW + away, stopped_at=None)
    return new_cluster(started_at=NOW + back, last_seen_at=NOW + back)


@pytest.mark.parametrize("is_started", [False, True], ids=["waiting", "started"])
@pytest.mark.parametrize(
    ("away", "back", "until"), [(5, 16, 26), (5, 12, 22), (14, 14.5, 15.5)], ids=["over", "long", "restart"]
)
def test_grace_time_does_not_run_while_cronty_is_away(cluster, away, back, until, is_started):
    job = heartbeat_job(cron="0 9 * * *")
    Heartbeat.objects.update(last_success_at=NOW - DAY)
    claim(cluster, NOW)
    if is_started:
        ping(job, NOW, "start", rid=RID)
    fresh = come_back(away * MINUTE, back * MINUTE)

    claim(fresh, NOW + back * MINUTE)
    claim(fresh, NOW + until * MINUTE - SECOND)
    assert Execution.objects.get().status == ("running" if is_started else "queued")

    claim(fresh, NOW + until * MINUTE + SECOND)
    row = Execution.objects.get()
    assert (row.status, row.error) == ("missed", "")
    assert row.reason.startswith("Nobody knows whether ")
    job.refresh_from_db()
    assert (job.failure_streak, job.recent) == (0, "")


def test_slot_that_began_while_cronty_was_away_gets_its_whole_grace_time(cluster):
    job = heartbeat_job(cron="0 9 * * *", grace="1m")
    Heartbeat.objects.update(last_success_at=NOW - DAY)
    fresh = come_back(-5 * MINUTE, 50 * SECOND)

    claim(fresh, NOW + 50 * SECOND)
    claim(fresh, NOW + 109 * SECOND)

    assert slots(job) == [(NOW, "queued")]


@pytest.mark.parametrize(
    "before",
    [{"last_success_at": None}, {"last_success_at": NOW - DAY, "streak": 1}],
    ids=["never pinged", "was failing"],
)
def test_silent_job_fails_also_after_an_absence(cluster, before):
    job = heartbeat_job(failure_streak=before.pop("streak", 0))
    Heartbeat.objects.update(**before)
    claim(cluster, NOW)
    fresh = come_back(MINUTE, 2 * MINUTE)

    claim(fresh, NOW + 16 * MINUTE)

    assert slots(job) == [(NOW, "failed")]


def test_ping_after_an_absence_ends_what_waited(cluster):
    job = heartbeat_job(cron="*/5 * * * *", grace="4m")
    Heartbeat.objects.update(last_success_at=NOW - 5 * MINUTE)
    claim(cluster, NOW)
    fresh = come_back(MINUTE, 11 * MINUTE)
    claim(fresh, NOW + 11 * MINUTE)

    ping(job, NOW + 12 * MINUTE)

    claim(fresh, NOW + 14 * MINUTE)
    assert [status for _, status in slots(job)] == ["missed", "missed", "succeeded"]


def test_other_cluster_that_went_on_watches_for_both(cluster):
    job = heartbeat_job()
    Heartbeat.objects.update(last_success_at=NOW - HOUR)
    claim(cluster, NOW)
    fresh = come_back(20 * MINUTE, 10 * MINUTE)

    claim(fresh, NOW + 15 * MINUTE)

    assert slots(job) == [(NOW, "failed")]


def test_ping_of_a_paused_job_is_kept_and_changes_nothing():
    job = heartbeat_job(paused=True)

    assert ping(job, NOW) == [True]

    assert slots(job) == []
    assert Ping.objects.get().kind == "success"
    job.refresh_from_db()
    assert job.status == "paused"


@pytest.mark.parametrize(
    ("fields", "kind", "status"),
    [
        ({}, "success", "pending"),
        ({}, "fail", "pending"),
        ({}, "log", "paused"),
        ({"source": ""}, "success", "paused"),
        ({"paused_until": NOW + DAY}, "success", "paused"),
    ],
)
def test_ping_resumes_a_check_that_came_paused_from_healthchecks(fields, kind, status):
    job = heartbeat_job(paused=True, **{"source": "healthchecks"} | fields)

    assert ping(job, NOW + MINUTE, kind) == [True]

    job.refresh_from_db()
    assert job.status == status
    assert [row.status for row in Execution.objects.filter(cause="manual")] == (
        [{"success": "succeeded", "fail": "failed"}[kind]] if status == "pending" else []
    )


def test_ping_of_a_deleted_job_is_refused():
    job = heartbeat_job(deleted_at=NOW)

    assert ping(job, NOW) == [False]
    assert not Ping.objects.exists()


def test_repeated_ping_of_a_client_without_an_answer_is_no_second_run(cluster):
    job = heartbeat_job()
    claim(cluster, NOW)

    ping(job, NOW + MINUTE, rid=RID)
    ping(job, NOW + MINUTE + timedelta(seconds=5), rid=RID)

    assert slots(job) == [(NOW, "succeeded")]
    assert Ping.objects.count() == 2


def test_pings_of_one_batch_are_applied_in_order(cluster):
    jobs = [heartbeat_job() for _ in range(3)]
    claim(cluster, NOW)
    signals = [engine.Signal(job.pk, Ping.Kind(kind)) for kind in ("start", "success") for job in jobs]

    engine.receive(signals, NOW + MINUTE)

    assert {tuple(slots(job)) for job in jobs} == {((NOW, "succeeded"),)}
    assert set(Heartbeat.objects.values_list("pings", flat=True)) == {2}


def test_batch_costs_as_many_queries_as_one_ping(cluster, django_assert_max_num_queries):
    jobs = [heartbeat_job() for _ in range(20)]
    claim(cluster, NOW)

    with django_assert_max_num_queries(14):
        engine.receive([engine.Signal(job.pk, Ping.Kind.SUCCESS) for job in jobs], NOW + MINUTE)


def test_only_the_newest_pings_are_kept(cluster):
    job = heartbeat_job()
    for number in range(30):
        engine.receive([engine.Signal(job.pk, Ping.Kind.LOG)] * 10, NOW + number * MINUTE)

    assert Heartbeat.objects.get().pings == 300
    assert 100 <= Ping.objects.count() < 150
    assert Ping.objects.latest("number").number == 300


def test_last_slot_ends_the_job(cluster):
    job = heartbeat_job(max_runs=1)
    claim(cluster, NOW)

    ping(job, NOW + MINUTE)

    job.refresh_from_db()
    assert (job.status, job.next_run_at) == ("completed", None)


def test_slots_follow_the_wall_clock_when_clocks_change(cluster):
    first = datetime(2026, 3, 28, 2, 0, tzinfo=UTC)
    job = heartbeat_job(cron="0 3 * * *", timezone="Europe/Berlin", next_run_at=first, created_at=first - DAY)
    for now in (first, first + 23 * HOUR):
        claim(cluster, now)
        ping(job, now + MINUTE)

    assert slots(job) == [(first, "succeeded"), (first + 23 * HOUR, "succeeded")]


def test_left_out_slot_waits_for_no_ping(cluster):
    job = heartbeat_job(skips="2026-02-04")

    claim(cluster, NOW)

    assert slots(job) == [(NOW, "skipped")]


def test_late_ping_says_so(cluster):
    job = heartbeat_job()
    claim(cluster, NOW)
    claim(cluster, NOW + 15 * MINUTE)

    ping(job, NOW + 2 * HOUR, late_by=7140.0)

    row = Execution.objects.latest("pk")
    assert row.status == "succeeded"
    assert row.reason.endswith("It was sent at 09:01, and arrived 1 h 59 min late.")
    assert Job.objects.get().failure_streak == 0


LATE = 7140.0


def test_late_ping_of_the_day_before_does_not_answer_for_the_slot_of_today(cluster):
    job = heartbeat_job(cron="0 9 * * *")
    claim(cluster, NOW)
    claim(cluster, NOW + 15 * MINUTE)
    claim(cluster, NOW + DAY)

    ping(job, NOW + DAY + MINUTE, late_by=DAY.total_seconds(), rid=RID)

    assert slots(job) == [(NOW, "failed"), (NOW + MINUTE, "succeeded"), (NOW + DAY, "queued")]
    ping(job, NOW + DAY + 2 * MINUTE, "start", rid=OTHER)
    ping(job, NOW + DAY + 3 * MINUTE, rid=OTHER)
    assert slots(job)[-1] == (NOW + DAY, "succeeded")


def test_late_start_and_end_are_timed_by_when_they_were_sent(cluster):
    job = heartbeat_job()
    claim(cluster, NOW)
    claim(cluster, NOW + 15 * MINUTE)

    ping(job, NOW + 2 * HOUR, "start", late_by=LATE, rid=RID)
    ping(job, NOW + 2 * HOUR + timedelta(seconds=1), late_by=LATE - 120 + 1, rid=RID)

    row = Execution.objects.get(cause="manual")
    assert (row.status, row.started_at, row.took) == ("succeeded", NOW + MINUTE, 2 * MINUTE)
    job.refresh_from_db()
    assert (job.last_duration, job.last_run_at) == (2 * MINUTE, NOW + 2 * HOUR + timedelta(seconds=1))
    assert job.heartbeat.last_success_at == NOW + 3 * MINUTE


def test_late_ping_within_the_grace_time_ends_its_slot(cluster):
    job = heartbeat_job()
    claim(cluster, NOW)

    ping(job, NOW + 10 * MINUTE, late_by=300.0)

    row = Execution.objects.get()
    assert (row.scheduled_for, row.status) == (NOW, "succeeded")
    assert row.reason == "It was sent at 09:05, and arrived 5 min late."


def test_late_pings_leave_alone_what_has_started_since(cluster):
    job = heartbeat_job()
    claim(cluster, NOW)
    ping(job, NOW + 5 * MINUTE, "start", rid=RID)

    ping(job, NOW + 6 * MINUTE, "start", late_by=180.0, rid=OTHER)
    ping(job, NOW + 6 * MINUTE, "fail", late_by=120.0, rid=OTHER)
    ping(job, NOW + 7 * MINUTE, rid=RID)

    row = Execution.objects.get(scheduled_for=NOW)
    assert (row.status, row.took) == ("succeeded", 2 * MINUTE)


def test_late_start_whose_end_has_come_already_starts_nothing(cluster):
    job = heartbeat_job()
    claim(cluster, NOW)
    ping(job, NOW + 3 * MINUTE, "fail", rid=RID)

    ping(job, NOW + 4 * MINUTE, "start", late_by=180.0, rid=RID)

    assert slots(job) == [(NOW, "failed")]


@pytest.mark.parametrize("kept_for", [LATE, 1e7])
def test_ping_whose_answer_was_lost_is_not_counted_again_when_it_arrives_late(cluster, kept_for):
    job = heartbeat_job()
    claim(cluster, NOW)
    ping(job, NOW + MINUTE, rid=RID)
    ping(job, NOW + HOUR, "log")

    ping(job, NOW + MINUTE + timedelta(seconds=kept_for), late_by=kept_for, rid=RID)

    assert slots(job)[:1] == [(NOW, "succeeded")]
    assert not Execution.objects.filter(cause="manual").exists()


def test_late_ping_does_not_move_an_interval_that_has_begun_anew(cluster):
    job = heartbeat_job(interval=True, every=HOUR, next_run_at=NOW)
    ping(job, NOW - 10 * MINUTE)

    ping(job, NOW, late_by=1200.0)
    job.refresh_from_db()
    assert job.next_run_at == NOW + 50 * MINUTE

    ping(job, NOW + MINUTE, late_by=360.0)
    job.refresh_from_db()
    assert job.next_run_at == NOW + 55 * MINUTE
