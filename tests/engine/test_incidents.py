"""Incidents: raised once, told in messages that gather, ended, and quiet at night."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from schedules import engine
from schedules.engine import alerts, incident_watch
from schedules.engine.incidents import IncidentKind
from schedules.models import Cluster, Execution, Incident, Job, Profile, Secret
from schedules.models.standings import standings_of
from tests.engine.conftest import NOW, begin, new_cluster, outcome_of
from tests.factories import ExecutionFactory, JobFactory, TokenFactory

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
SOON = alerts.GATHERING


@pytest.fixture
def sent(owner):
    """Give the owner a place for alerts in UTC; return a function that lists titles and messages."""
    set_profile(owner, failure_topic="alarm", timezone="UTC")
    return lambda: [
        (job.kwargs["title"], job.kwargs["message"]) for job in Job.objects.notices().order_by("pk")
    ]


def set_profile(owner, **values):
    Profile.objects.filter(user=owner).update(**values)


def need(owner, subject="approval 1", at=NOW, **fields):
    engine.raise_incident(IncidentKind.NEEDS_YOU, owner.pk, subject, "Deploy", "May it deploy?", at, **fields)


def job_of(owner, **fields):
    return JobFactory(**{"owner": owner, "name": "Backup", "next_run_at": NOW + 3 * DAY} | fields)


def settle(cluster, job, status, at=NOW, error=""):
    row = begin(cluster, job, now=at, cause="manual")
    engine.settle_runs(cluster.pk, [outcome_of(row, status, at=at, error=error)])


def look(at):
    engine.watch_incidents(at)
    engine.send_alerts(at + SOON)


def test_incident_that_is_open_is_told_once_and_its_end_once(owner, sent):
    need(owner)
    need(owner, at=NOW + MINUTE)
    look(NOW)
    look(NOW + MINUTE)

    assert engine.end_incident(IncidentKind.NEEDS_YOU, owner.pk, "approval 1", NOW + HOUR, "Approved by Ann")
    assert not engine.end_incident(IncidentKind.NEEDS_YOU, owner.pk, "approval 1", NOW + HOUR, "Again")
    look(NOW + HOUR)
    look(NOW + 2 * DAY)

    assert sent() == [
        ("You are needed", "Deploy: May it deploy?"),
        ("Answered", "Deploy: Approved by Ann after 1 h."),
    ]


def test_incident_that_ends_before_it_was_told_is_one_message(owner, sent):
    need(owner)
    engine.end_incident(
        IncidentKind.NEEDS_YOU, owner.pk, "approval 1", NOW + timedelta(seconds=5), "Approved"
    )
    look(NOW + timedelta(seconds=5))

    assert sent() == [("You are needed", "Deploy: May it deploy?\nApproved after 5 s.")]


def test_end_without_words_sends_nothing_more(owner, sent):
    need(owner)
    look(NOW)
    engine.end_incident(IncidentKind.NEEDS_YOU, owner.pk, "approval 1", NOW + HOUR)
    look(NOW + HOUR)

    assert len(sent()) == 1
    assert not Incident.objects.filter(ended_at=None).exists()


def test_messages_wait_while_more_happens_but_not_for_ever(owner, sent):
    for second in range(0, 58, 5):
        need(owner, f"approval {second}", NOW + timedelta(seconds=second))
        engine.send_alerts(NOW + timedelta(seconds=second))
    assert sent() == []

    need(owner, "approval 60", NOW + timedelta(seconds=60))
    engine.send_alerts(NOW + timedelta(seconds=60))

    ((title, _),) = sent()
    assert title == "You are needed 13 times"


def test_many_jobs_that_fail_in_many_batches_are_one_message(owner, sent, cluster):
    jobs = [job_of(owner, name=f"Job {number}") for number in range(120)]
    for batch in range(10):
        at = NOW + timedelta(seconds=2 * batch)
        rows = [begin(cluster, job, now=at) for job in jobs[batch * 12 : batch * 12 + 12]]
        engine.settle_runs(cluster.pk, [outcome_of(row, "failed", at=at, error="no route") for row in rows])
        engine.send_alerts(at)
    for second in (20, 25, 30, 35):
        engine.send_alerts(NOW + timedelta(seconds=second))

    ((title, message),) = sent()
    assert title == "120 jobs failed"
    assert message.endswith("… and 100 more")


def test_what_lasts_is_reminded_of_each_day_and_not_for_ever(owner, sent):
    need(owner)
    for day in range(12):
        look(NOW + day * (DAY + MINUTE))

    titles = [title for title, _ in sent()]
    assert titles == ["You are needed", *["Reminder: you are needed"] * alerts.MAX_REMINDERS]
    assert sent()[1][1] == "Deploy: Since Wed 4 Feb 2026 09:00. May it deploy?"


def test_person_without_reminders_gets_none(owner, sent):
    set_profile(owner, alert_every=timedelta(0))
    need(owner)
    look(NOW)
    look(NOW + 2 * DAY)

    assert len(sent()) == 1


def test_quiet_hours_gather_everything_until_morning(owner, sent, cluster):
    set_profile(owner, quiet_hours="22:00-07:00", timezone="Europe/Berlin")
    evening = NOW.replace(hour=23)
    job = job_of(owner)
    settle(cluster, job, "failed", evening, "no route")
    look(evening)
    settle(cluster, job, "succeeded", evening + HOUR)
    look(evening + HOUR)
    need(owner, at=evening + 2 * HOUR)
    look(evening + 2 * HOUR)
    assert sent() == []

    # 06:00 UTC is 07:00 in Berlin.
    engine.send_alerts(NOW.replace(day=5, hour=6, second=11))

    ((title, message),) = sent()
    assert title == "A job failed, you are needed"
    assert message == "Backup: no route\nWorks again after 1 h.\nDeploy: May it deploy?"


def test_job_may_wake_its_owner(owner, sent, cluster):
    set_profile(owner, quiet_hours="22:00-07:00")
    settle(cluster, job_of(owner, alerts="at night"), "failed", NOW.replace(hour=23), "down")
    look(NOW.replace(hour=23))

    assert sent() == [("A job failed", "Backup: down")]


def test_recovered_job_is_told_after_its_failure_was(owner, sent, cluster):
    job = job_of(owner)
    settle(cluster, job, "failed", error="no route")
    look(NOW)
    settle(cluster, job, "succeeded", NOW + HOUR)
    look(NOW + HOUR)

    assert sent()[1] == ("A job works again", "Backup: Works again after 1 h.")


@pytest.mark.parametrize(
    ("person", "alerts_of_job", "count"),
    [
        ("", "", 2),
        ("not recovered", "", 1),
        ("not failing", "", 0),
        ("not failing", "also failing", 2),
        ("", "not failing", 0),
        ("not recovered", "phone, also recovered", 2),
        ("", "never", 0),
    ],
)
def test_rules_of_the_job_come_before_those_of_the_person(owner, sent, cluster, person, alerts_of_job, count):
    set_profile(owner, alert_rules=person)
    job = job_of(owner, alerts=alerts_of_job)
    settle(cluster, job, "failed", error="no route")
    look(NOW)
    settle(cluster, job, "succeeded", NOW + HOUR)
    look(NOW + HOUR)

    assert len(sent()) == count
    assert Incident.objects.filter(job=job).count() == 1


def test_pause_after_failures_replaces_the_failure_and_both_last_until_a_success(owner, sent, cluster):
    job = job_of(owner, pause_after_failures=2)
    settle(cluster, job, "failed", error="no route")
    settle(cluster, job, "failed", error="no route")
    look(NOW)
    assert [title for title, _ in sent()] == ["A job was paused"]

    job.refresh_from_db()
    engine.rearm(job, NOW + HOUR)
    look(NOW + HOUR)

    assert len(sent()) == 1
    incident = Incident.objects.get(ended_at=None)
    assert (incident.kind, incident.details) == (IncidentKind.FAILING, "no route")

    Job.objects.update(next_run_at=NOW + DAY)
    settle(cluster, job, "succeeded", at=NOW + 2 * HOUR)
    look(NOW + 2 * HOUR)

    assert [title for title, _ in sent()] == ["A job was paused", "A job works again"]
    assert not Incident.objects.filter(ended_at=None).exists()


def test_pause_of_everything_ends_no_failure(owner, sent, cluster):
    job = job_of(owner)
    settle(cluster, job, "failed", error="no route")
    look(NOW)

    engine.pause_each([job], NOW, "Everything was paused.")
    look(NOW + HOUR)
    job.refresh_from_db()
    engine.rearm_each([job], NOW + HOUR)
    look(NOW + HOUR)

    job.refresh_from_db()
    assert (job.failure_streak, standings_of([job], NOW + HOUR)[job.pk].name) == (1, "failing")
    assert Incident.objects.get().is_open
    assert len(sent()) == 1


@pytest.mark.parametrize("is_claimed", [False, True])
def test_late_run_is_told_and_that_it_has_started(owner, sent, cluster, is_claimed):
    job = job_of(owner, next_run_at=NOW)
    row = None
    if is_claimed:
        Job.objects.update(next_run_at=NOW + DAY)
        row = ExecutionFactory(
            job=job, scheduled_for=NOW, status="queued", available_at=NOW, finished_at=None
        )
    look(NOW + 4 * MINUTE)
    assert sent() == []
    look(NOW + 6 * MINUTE)
    assert sent() == [("A run is late", "Backup: It was due on Wed 4 Feb 2026 09:00 and has not started.")]

    if row:
        Execution.objects.filter(pk=row.pk).update(status="running", available_at=None)
    Job.objects.filter(pk=job.pk).update(next_run_at=NOW + DAY)
    look(NOW + 8 * MINUTE)

    assert sent()[1] == ("A late run has started", "Backup: It is not late any more after 2 min.")


def test_runs_that_wait_behind_another_and_heartbeats_are_not_late(owner, sent):
    job = job_of(owner)
    ExecutionFactory(job=job, scheduled_for=NOW, status="queued", available_at=None, finished_at=None)
    ExecutionFactory(
        job=job_of(owner, task="heartbeat"),
        scheduled_for=NOW,
        status="queued",
        available_at=NOW,
        finished_at=None,
    )
    look(NOW + HOUR)

    assert sent() == []


def test_night_without_a_cluster_is_one_message_with_what_was_missed(owner, stranger, sent, cluster):
    set_profile(stranger, failure_topic="other")
    job_of(owner, cron="0 * * * *", next_run_at=NOW + HOUR, name="Hourly")
    job_of(owner, cron="0 20 * * *", next_run_at=NOW + 11 * HOUR, name="Evening")
    job_of(stranger, next_run_at=NOW + 3 * DAY)
    morning = NOW + 14 * HOUR
    fresh = new_cluster(started_at=morning, last_seen_at=morning)

    engine.note_outage(fresh.pk, None, morning)
    engine.note_outage(fresh.pk, None, morning)
    engine.claim_runs(fresh.pk, morning, 10)
    engine.send_alerts(morning + SOON)

    ((title, message),) = sent()
    assert title == "No worker was running, a run was missed"
    assert message.splitlines() == [
        "Workers: None was running since Wed 4 Feb 2026 09:00, for 14 h; 2 jobs were due.",
        "Hourly: 13 runs were missed. No worker was running.",
    ]


@pytest.mark.parametrize("silence", [MINUTE, 14 * HOUR])
def test_restart_and_outage_without_due_jobs_are_not_told(owner, sent, cluster, silence):
    job_of(owner, next_run_at=NOW + 15 * HOUR)
    job_of(owner, next_run_at=NOW + timedelta(seconds=30) if silence == MINUTE else NOW + 15 * HOUR)
    fresh = new_cluster(started_at=NOW + silence, last_seen_at=NOW + silence)

    engine.note_outage(fresh.pk, None, NOW + silence)
    engine.send_alerts(NOW + silence + SOON)

    assert sent() == []


def test_outage_of_this_process_alone_is_not_told_while_another_cluster_ran(owner, sent, cluster):
    job_of(owner, next_run_at=NOW)
    other = new_cluster(last_seen_at=NOW + HOUR)

    engine.note_outage(cluster.pk, NOW, NOW + HOUR)

    assert other.pk != cluster.pk
    assert not Incident.objects.exists()


def test_missed_run_is_over_when_the_job_runs_again(owner, sent, cluster):
    job = job_of(owner, catch_up="none", cron="0 9 * * *", next_run_at=NOW)
    engine.claim_runs(cluster.pk, NOW + HOUR, 10)
    look(NOW + HOUR)
    settle(cluster, job, "succeeded", NOW + 2 * HOUR)
    look(NOW + 2 * HOUR)

    assert [title for title, _ in sent()] == ["A run was missed", "A job runs again"]


@pytest.mark.parametrize("runs_again", [True, False])
def test_slots_missed_in_a_restart_are_told_only_if_the_job_does_not_run_again(
    owner, sent, cluster, runs_again
):
    job = job_of(owner, catch_up="none", interval=True, every=5 * SECOND, next_run_at=NOW)
    engine.claim_runs(cluster.pk, NOW + 65 * SECOND, 10)
    look(NOW + 65 * SECOND)
    if runs_again:
        settle(cluster, job, "succeeded", NOW + 70 * SECOND)
    look(NOW + 80 * SECOND)
    look(NOW + 20 * MINUTE)

    assert any("missed" in title for title, _ in sent()) is not runs_again
    assert Incident.objects.filter(kind="missed").exists()


def test_prompt_that_no_agent_takes_is_told(owner, sent):
    job = job_of(owner, task="prompt", kwargs={"prompt": "Read the mail"}, status="running", next_run_at=None)
    row = ExecutionFactory(job=job, status="waiting", scheduled_for=NOW, started_at=NOW, finished_at=None)
    look(NOW + 20 * MINUTE)
    assert sent() == []
    look(NOW + 31 * MINUTE)
    assert sent() == [("A prompt waits", "Backup: No agent has taken it for 30 minutes.")]

    Execution.objects.filter(pk=row.pk).update(lease_until=NOW + 2 * HOUR)
    look(NOW + 40 * MINUTE)

    assert sent()[1][0] == "A prompt was taken"


def test_token_that_expires_within_a_week_is_told_and_a_revoked_one_forgotten(owner, sent):
    token = TokenFactory(owner=owner, name="laptop", expires_at=NOW + 6 * DAY)
    TokenFactory(owner=owner, expires_at=NOW + 8 * DAY)
    TokenFactory(owner=owner, expires_at=NOW - DAY)
    look(NOW)
    assert sent() == [("A key expires soon", "Token laptop: It expires on Tue 10 Feb 2026 09:00 UTC.")]

    token.revoked_at = NOW
    token.save()
    look(NOW + MINUTE)

    assert not Incident.objects.filter(ended_at=None).exists()
    assert len(sent()) == 1


def secret_of(owner, name="KEY", **fields):
    return Secret.objects.create(owner=owner, name=name, sealed="", created_at=NOW, updated_at=NOW, **fields)


def test_secret_that_expires_within_a_week_is_told_also_after_it_has_expired(owner, sent):
    secret_of(owner, expires_at=NOW + 6 * DAY)
    secret_of(owner, "LATER", expires_at=NOW + 8 * DAY)
    secret_of(owner, "NEVER")
    look(NOW)
    assert sent() == [
        (
            "A key expires soon",
            "Secret KEY: It expires on Tue 10 Feb 2026 09:00: replace it, or change the date.",
        )
    ]

    look(NOW + 7 * DAY)

    names = set(Incident.objects.filter(ended_at=None).values_list("name", flat=True))
    assert names == {"Secret KEY", "Secret LATER"}


@pytest.mark.parametrize("change", [{"expires_at": None}, {"expires_at": NOW + 60 * DAY}, None])
def test_alert_about_a_secret_is_over_when_its_date_is_moved_or_it_is_gone(owner, sent, change):
    secret = secret_of(owner, expires_at=NOW + DAY)
    look(NOW)
    rows = Secret.objects.filter(pk=secret.pk)
    rows.delete() if change is None else rows.update(**change)
    look(NOW + MINUTE)

    assert not Incident.objects.filter(ended_at=None).exists()
    assert len(sent()) == 1


def test_secret_of_the_installation_is_told_to_each_superuser(owner, stranger, sent):
    type(owner).objects.filter(pk=owner.pk).update(is_superuser=True)
    secret = secret_of(None, expires_at=NOW + DAY)
    others = type(owner).objects.filter(is_superuser=True, is_active=True)
    look(NOW)
    assert set(Incident.objects.values_list("owner", flat=True)) == set(others.values_list("pk", flat=True))
    assert not Incident.objects.filter(owner=stranger).exists()

    Secret.objects.filter(pk=secret.pk).update(expires_at=None)
    look(NOW + MINUTE)

    assert not Incident.objects.filter(ended_at=None).exists()


def test_expired_secret_is_written_about_once(owner, django_assert_max_num_queries):
    secret_of(owner, expires_at=NOW - DAY)
    engine.watch_incidents(NOW)

    with CaptureQueriesContext(connection) as asked:
        engine.watch_incidents(NOW + MINUTE)

    assert not [query for query in asked if query["sql"].startswith("INSERT")]


def test_deleted_job_ends_its_incidents_without_a_word(owner, sent, cluster):
    job = job_of(owner)
    settle(cluster, job, "failed", error="no route")
    look(NOW)
    Job.objects.filter(pk=job.pk).update(deleted_at=NOW)
    look(NOW + HOUR)

    assert len(sent()) == 1
    assert not Incident.objects.filter(ended_at=None).exists()


def test_one_time_job_that_failed_is_told_and_then_over(owner, sent, cluster):
    job = job_of(owner, once=True, run_at=NOW, status="running", next_run_at=None)
    row = begin(cluster, job)
    engine.settle_runs(cluster.pk, [outcome_of(row, "failed", error="no route")])
    look(NOW)
    look(NOW + 2 * DAY)

    assert sent() == [("A job failed", "Backup: no route")]
    assert not Incident.objects.filter(ended_at=None).exists()


def test_person_without_a_place_has_incidents_and_no_messages(owner, cluster):
    set_profile(owner, failure_topic="")
    settle(cluster, job_of(owner), "failed", error="no route")
    look(NOW)

    assert not Job.objects.notices().exists()
    assert Incident.objects.get().due_at is None


def test_quiet_system_looks_with_few_queries(owner, django_assert_max_num_queries):
    job_of(owner)
    with django_assert_max_num_queries(7):
        engine.watch_incidents(NOW)
        engine.send_alerts(NOW)


def test_outage_is_long_and_a_restart_is_not():
    assert incident_watch.RESTART < incident_watch.OUTAGE


@pytest.mark.parametrize("comes_back", [20 * SECOND, 5 * MINUTE], ids=["restart", "outage"])
def test_host_that_died_while_another_goes_on_is_told(owner, sent, cluster, comes_back):
    User.objects.filter(pk=owner.pk).update(is_superuser=True)
    Cluster.objects.filter(pk=cluster.pk).update(host="db-1")
    new_cluster(host="db-2")

    def pass_time(now, *hosts):
        Cluster.objects.filter(host__in=hosts).update(last_seen_at=now)
        engine.sweep(now)
        look(now)

    pass_time(NOW + 16 * SECOND, "db-1")
    assert list(engine.dead_hosts(NOW + 16 * SECOND)) == ["db-2"]
    if comes_back > MINUTE:
        pass_time(NOW + 3 * MINUTE, "db-1")
    new_cluster(host="db-2", started_at=NOW + comes_back, last_seen_at=NOW + comes_back)
    pass_time(NOW + comes_back, "db-1", "db-2")
    pass_time(NOW + comes_back + 5 * MINUTE, "db-1", "db-2")

    told = ["db-2 stopped responding", "db-2 is back"] if comes_back > MINUTE else []
    assert [title for title, _ in sent()] == told
    assert engine.dead_hosts(NOW + comes_back + 5 * MINUTE) == {}


def test_only_host_that_was_killed_and_came_back_under_another_name_is_not_dead(cluster):
    engine.sweep(NOW + 16 * SECOND)
    new_cluster(host="container-2", started_at=NOW + 17 * SECOND, last_seen_at=NOW + 17 * SECOND)

    assert engine.dead_hosts(NOW + 18 * SECOND) == {}
