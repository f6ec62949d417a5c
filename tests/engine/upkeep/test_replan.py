"""Planning after a change of zone data, with two real releases: 2025b and the pinned package."""

import zoneinfo
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from schedules import engine
from schedules.engine.upkeep import replan
from schedules.management import preparation
from schedules.management.commands import qcluster
from schedules.models import Event, Installation, Job
from schedules.when import cron, triggers, zones
from tests.factories import ClusterFactory, JobFactory

pytestmark = pytest.mark.django_db

OLDER = Path(__file__).parents[2] / "zone_data" / "2025b"
NOW = datetime(2026, 10, 20, 12, 0, tzinfo=UTC)


@contextmanager
def older_zone_data() -> Iterator[None]:
    """Be a host with release 2025b inside the block."""
    before = zoneinfo.TZPATH
    _use([str(OLDER)])
    try:
        yield
    finally:
        _use(before)


def _use(folders: list[str] | tuple[str, ...]) -> None:
    zoneinfo.reset_tzpath(to=folders)
    zoneinfo.ZoneInfo.clear_cache()
    # A host keeps its zone data for as long as a process lives, so results are cached.
    for cached in (cron.next_run, triggers.exact_zone):
        cached.cache_clear()


def planned(zone: str, expression: str, **fields: object) -> Job:
    """Create a job whose next slot comes from the zone data in use."""
    job = JobFactory(cron=expression, timezone=zone, next_run_at=NOW, **fields)
    job.next_run_at = job.next_slot(NOW)
    job.save()
    return job


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.fixture
def follow() -> Callable[[], int]:
    """Plan anew as a start does, at a fixed time."""
    return lambda: engine.follow_zone_data(NOW)


@pytest.fixture
def jobs(follow) -> dict[str, Job]:
    """Jobs planned by a host with release 2025b."""
    with older_zone_data():
        follow()
        return {
            "havana": planned("America/Havana", "0 8 1 11 *", name="Coffee"),
            "chisinau": planned("Europe/Chisinau", "30 3 25 10 *"),
            "same": planned("Europe/Chisinau", "30 8 25 10 *"),
            "berlin": planned("Europe/Berlin", "30 2 25 10 *"),
            "utc": planned("UTC", "0 8 * * *"),
        }


def slots(jobs: dict[str, Job]) -> dict[str, datetime | None]:
    found = Job.objects.in_bulk([job.pk for job in jobs.values()])
    return {name: found[job.pk].next_run_at for name, job in jobs.items()}


def test_jobs_whose_slot_moved_are_planned_anew_with_an_event_each(jobs, follow, caplog):
    before = slots(jobs)
    assert before["havana"] == utc("2026-11-01T13:00")
    assert before["chisinau"] == utc("2026-10-25T01:30")

    assert follow() == 2

    after = slots(jobs)
    assert after == before | {"havana": utc("2026-11-01T12:00"), "chisinau": utc("2026-10-25T00:30")}
    event = Event.objects.get(job=jobs["havana"])
    assert (event.verb, event.door, event.subject) == ("edit", Event.Door.ENGINE, "Coffee")
    assert event.before == {"next_run_at": "2026-11-01T13:00:00+00:00"}
    assert event.after == {
        "next_run_at": "2026-11-01T12:00:00+00:00",
        "reason": f"The zone data changed to {zones.release()}.",
    }
    assert Event.objects.count() == 2
    assert [record.getMessage() for record in caplog.records] == [
        f"The zone data changed from 2025b to {zones.release()}: 2 jobs were planned anew."
    ]
    assert Installation.objects.get().zone_data == zones.release()


def test_second_start_with_the_same_release_reads_no_job(jobs, follow, monkeypatch):
    follow()
    monkeypatch.setattr(replan, "_replan_all", None)

    assert follow() == 0


def test_older_release_moves_nothing_back(jobs, follow, caplog):
    follow()
    after = slots(jobs)
    caplog.clear()

    with older_zone_data():
        assert follow() == 0

    assert slots(jobs) == after
    assert Installation.objects.get().zone_data == zones.release()
    assert [record.getMessage() for record in caplog.records] == [
        f"This host's zone data is 2025b, but jobs were planned with {zones.release()}: update it."
    ]


def test_jobs_planned_by_a_cluster_with_an_older_release_are_corrected_when_it_is_updated(
    follow, monkeypatch
):
    """During a rolling update, the old cluster goes on and moves jobs to their next slots."""
    follow()
    cluster = ClusterFactory(zone_data="2025b", last_seen_at=NOW, stopped_at=NOW)
    with older_zone_data():
        job = planned("America/Havana", "0 8 1 11 *")

    assert follow() == 1

    job.refresh_from_db()
    cluster.refresh_from_db()
    assert job.next_run_at == utc("2026-11-01T12:00")
    assert cluster.zone_data == ""
    monkeypatch.setattr(replan, "_replan_all", None)
    assert follow() == 0


def test_living_cluster_keeps_its_older_release(follow):
    cluster = ClusterFactory(zone_data="2025b", last_seen_at=NOW)

    follow()

    cluster.refresh_from_db()
    assert cluster.zone_data == "2025b"


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "paused", "next_run_at": None, "paused_at": NOW},
        {"deleted_at": NOW},
        {"next_run_at": NOW - timedelta(minutes=1)},
        {"max_runs": 1, "slot_count": 1},
        {"cron": "not cron"},
    ],
    ids=["paused", "trashed", "due", "without a slot", "unreadable"],
)
def test_other_jobs_are_left_alone(follow, fields):
    with older_zone_data():
        follow()
        job = planned("America/Havana", "0 8 1 11 *")
    Job.objects.filter(pk=job.pk).update(**fields)
    before = Job.objects.values().get(pk=job.pk)

    assert follow() == 0

    assert Job.objects.values().get(pk=job.pk) == before


def test_job_that_was_edited_meanwhile_is_left_alone(jobs, monkeypatch):
    job = jobs["havana"]
    Job.objects.filter(pk=job.pk).update(revision=job.revision + 1)

    assert not replan._replan(job, NOW, "2026f")


def test_every_batch_is_planned(jobs, follow, monkeypatch):
    monkeypatch.setattr(replan, "BATCH", 1)

    assert follow() == 2


def test_unknown_release_plans_nothing(jobs, follow, monkeypatch):
    monkeypatch.setattr(zones, "release", lambda: "")

    assert follow() == 0
    assert Installation.objects.get().zone_data == "2025b"


def test_jobs_that_did_not_move_cost_no_query(follow, django_assert_max_num_queries):
    with older_zone_data():
        follow()
        for hour in range(20):
            planned("Europe/Chisinau", f"0 {hour} 1 5 *")

    with django_assert_max_num_queries(10):
        assert follow() == 0


def test_up_follows_the_zone_data_while_it_prepares(jobs, time_machine, monkeypatch):
    time_machine.move_to(NOW, tick=False)
    monkeypatch.setattr(preparation, "call_command", lambda *args, **options: None)

    preparation.prepare(with_first_user=False)

    assert slots(jobs)["havana"] == utc("2026-11-01T12:00")


def test_cluster_follows_the_zone_data_when_it_starts(jobs, time_machine):
    time_machine.move_to(NOW, tick=False)

    qcluster._get_ready()

    assert slots(jobs)["havana"] == utc("2026-11-01T12:00")
