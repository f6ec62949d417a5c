"""Pruning of the history, and the rows that are kept."""

from datetime import timedelta

import pytest
from axes.models import AccessAttempt, AccessLog
from django.apps import apps
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import modify_settings
from django.test.utils import CaptureQueriesContext

from schedules import engine
from schedules.engine.upkeep import prune
from schedules.models import Cluster, Event, Execution, Job, UserSession
from tests.engine.conftest import NOW, new_cluster
from tests.factories import ExecutionFactory, JobFactory, UserFactory

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


@pytest.fixture
def limits(settings, time_machine):
    time_machine.move_to(NOW, tick=False)
    settings.CRONTY_HISTORY_DAYS, settings.CRONTY_HISTORY_PER_JOB = 10, 5
    settings.CRONTY_EVENTS_PER_PERSON = 4


@pytest.mark.usefixtures("limits")
def test_history_is_kept_for_the_configured_days():
    job = JobFactory()
    old = [
        ExecutionFactory(job=job, scheduled_for=NOW - 11 * DAY, status=status, cause="manual")
        for status in ("succeeded", "skipped", "waiting", "running", "queued")
    ]
    kept = ExecutionFactory(job=job, scheduled_for=NOW - 9 * DAY)

    assert engine.prune_history() == {"executions": 2, "jobs": 0, "events": 0}
    assert set(Execution.objects.values_list("pk", flat=True)) == {kept.pk, *(row.pk for row in old[2:])}


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize(("last", "is_kept"), [(9 * DAY, True), (11 * DAY, False)])
def test_gap_is_as_old_as_its_last_slot(last, is_kept):
    ExecutionFactory(scheduled_for=NOW - 100 * DAY, last_slot=NOW - last, slots=90, status="skipped")

    engine.prune_history()

    assert Execution.objects.exists() == is_kept


@pytest.mark.usefixtures("limits")
def test_expired_sessions_and_old_logins_are_pruned():
    for key, age in (("old", DAY), ("young", -DAY)):
        for table in (Session, UserSession):
            table.objects.create(session_key=key, session_data="", expire_date=NOW - age)
    for age in (11 * DAY, 9 * DAY):
        for login in (
            AccessLog.objects.create(username="olga"),
            AccessAttempt.objects.create(username=f"olga {age}", failures_since_start=1),
        ):
            type(login).objects.filter(pk=login.pk).update(attempt_time=NOW - age)

    engine.prune_history()

    for table in (Session, UserSession):
        assert [session.session_key for session in table.objects.all()] == ["young"]
    for table in (AccessLog, AccessAttempt):
        assert [login.attempt_time for login in table.objects.all()] == [NOW - 9 * DAY]


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("status", ["succeeded", "skipped"])
def test_history_keeps_the_newest_runs_of_each_job(status, monkeypatch):
    monkeypatch.setattr(prune, "BATCH", 2)
    job, other = JobFactory(), JobFactory()
    for hours in range(9):
        ExecutionFactory(job=job, scheduled_for=NOW - hours * HOUR, status=status)
    ExecutionFactory(job=other, scheduled_for=NOW - 9 * HOUR)

    assert engine.prune_history()["executions"] == 4
    rows = Execution.objects.filter(job=job).order_by("-scheduled_for")
    assert [row.scheduled_for for row in rows] == [NOW - hours * HOUR for hours in range(5)]
    assert Execution.objects.filter(job=other).exists()


@pytest.mark.usefixtures("limits")
def test_old_trash_and_clusters_are_deleted_but_not_their_executions():
    gone = JobFactory(deleted_at=NOW - 31 * DAY)
    row = ExecutionFactory(job=gone, scheduled_for=NOW - DAY)
    JobFactory(deleted_at=NOW - 29 * DAY)
    JobFactory()
    new_cluster(last_seen_at=NOW - 11 * DAY)
    new_cluster()

    assert engine.prune_history() == {"executions": 0, "jobs": 1, "events": 0}
    assert (Job.objects.count(), Cluster.objects.count()) == (2, 1)
    row.refresh_from_db()
    assert (row.job, row.job_name) == (None, gone.name)


@pytest.mark.usefixtures("limits")
def test_old_notices_are_deleted_once_they_have_ended():
    for number, (age, fields) in enumerate(
        [(11 * DAY, {"ended": True}), (9 * DAY, {"ended": True}), (11 * DAY, {"next_run_at": NOW})]
    ):
        JobFactory(public_id=f"notice_{number}_0", created_at=NOW - age, **fields)
    JobFactory(created_at=NOW - 11 * DAY, ended=True)

    assert engine.prune_history()["jobs"] == 1
    assert not Job.objects.filter(public_id="notice_0_0").exists()


def record(owner, *ages, job=None):
    """Write one event for each age, the oldest first."""
    return [
        Event.objects.create(at=NOW - age, owner=owner, actor="olga", door="web", verb="edit", job=job)
        for age in ages
    ]


def kept_events():
    return list(Event.objects.order_by("pk"))


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_events_are_kept_for_the_configured_days(batch, monkeypatch, owner):
    monkeypatch.setattr(prune, "BATCH", batch)
    *_, on_the_edge, young = record(owner, 30 * DAY, 12 * DAY, 11 * DAY, 10 * DAY, DAY)

    assert engine.prune_history()["events"] == 3
    assert kept_events() == [on_the_edge, young]
    assert engine.prune_history()["events"] == 0


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_newest_events_of_each_person_are_kept(batch, monkeypatch, owner):
    monkeypatch.setattr(prune, "BATCH", batch)
    few = record(UserFactory(), 3 * HOUR, 2 * HOUR)
    many = record(owner, *(hours * HOUR for hours in range(9, 0, -1)))

    assert engine.prune_history()["events"] == 5
    assert kept_events() == few + many[-4:]


@pytest.mark.usefixtures("limits")
def test_pruning_reads_no_more_events_than_needed(django_assert_num_queries, monkeypatch, owner):
    monkeypatch.setattr(prune, "BATCH", 2)
    record(owner, 12 * DAY, 11 * DAY, *[HOUR] * 4)

    # The query and deletion of the old batch, the query of the first recent batch, and no more.
    with django_assert_num_queries(3):
        assert prune._prune_old_events(NOW - 10 * DAY) == 2


@pytest.mark.usefixtures("limits")
def test_event_with_a_future_date_does_not_keep_old_events(monkeypatch, owner):
    monkeypatch.setattr(prune, "BATCH", 2)
    _, ahead, _, _ = record(owner, 12 * DAY, -DAY, 11 * DAY, 11 * DAY)

    engine.prune_history()

    assert kept_events() == [ahead]


@pytest.mark.usefixtures("limits")
def test_job_is_kept_when_its_events_are_pruned(owner):
    job = JobFactory(owner=owner)
    record(owner, 11 * DAY, job=job)

    engine.prune_history()

    assert not Event.objects.exists()
    assert Job.objects.get() == job


@pytest.mark.usefixtures("limits")
def test_pruning_works_in_a_project_without_sessions_and_login_limits(settings):
    names = ("axes", "django.contrib.sessions")
    ExecutionFactory(scheduled_for=NOW - 11 * DAY)

    with modify_settings(INSTALLED_APPS={"remove": names}):
        assert not any(map(apps.is_installed, names))
        assert engine.prune_history()["executions"] == 1


@pytest.mark.usefixtures("limits")
def test_later_pruning_looks_only_at_jobs_and_owners_with_new_rows():
    job = JobFactory()
    for hours in range(6):
        ExecutionFactory(job=job, status="succeeded", scheduled_for=NOW - hours * HOUR)
    assert engine.prune_history()["executions"] == 1

    with CaptureQueriesContext(connection) as queries:
        assert engine.prune_history()["executions"] == 0
    assert not any(
        'GROUP BY "schedules_execution"."job_id"' in query["sql"] and " IN (SELECT" not in query["sql"]
        for query in queries
    )
    assert not any("OFFSET" in query["sql"] for query in queries)

    ExecutionFactory(job=job, status="succeeded", scheduled_for=NOW + HOUR)
    assert engine.prune_history()["executions"] == 1


@pytest.mark.parametrize("name", ["CRONTY_HISTORY_PER_JOB", "CRONTY_HISTORY_PER_PERSON"])
@pytest.mark.usefixtures("limits")
def test_lower_limit_applies_to_rows_that_were_pruned_before(settings, name):
    job = JobFactory()
    for hours in range(4):
        ExecutionFactory(job=job, status="succeeded", scheduled_for=NOW - hours * HOUR)
    assert engine.prune_history()["executions"] == 0

    setattr(settings, name, 3)

    assert engine.prune_history()["executions"] == 1


@pytest.mark.usefixtures("limits")
def test_new_events_of_an_owner_are_pruned_to_the_limit():
    owner = UserFactory()
    for count in (4, 2):
        Event.objects.bulk_create(
            [Event(at=NOW, owner=owner, actor="x", verb="edit", subject="x") for _ in range(count)]
        )
        engine.prune_history()

    assert Event.objects.filter(owner=owner).count() == 4
