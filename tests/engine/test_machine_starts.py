"""Jobs that run when a machine starts: one run for each start, whatever happens meanwhile."""

from datetime import timedelta

import pytest
from django.db import Error

from schedules import engine
from schedules.engine import clusters
from schedules.models import Execution, Job, MachineStart
from schedules.when.unplanned import UNKNOWN_START
from tests.engine.conftest import NOW, begin, ledger, new_cluster
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


@pytest.fixture
def boot(tmp_path, monkeypatch):
    """Start the machine with an id, or on a system that has none."""
    path = tmp_path / "boot_id"
    monkeypatch.setattr(clusters, "BOOT_ID", path)

    def start(name: str = "") -> None:
        path.write_text(f"{name}\n") if name else path.unlink(missing_ok=True)

    start("first")
    return start


def at_start(**fields) -> Job:
    return JobFactory(**{"cron": "@reboot", "next_run_at": UNKNOWN_START, "created_at": NOW} | fields)


def claim(cluster, now=NOW):
    return engine.claim_runs(cluster.pk, now, 10)


def test_start_of_the_machine_runs_the_job_once(cluster, boot):
    job = at_start()
    other = JobFactory(next_run_at=NOW + MINUTE)

    assert claim(cluster) == []
    engine.note_machine_start(cluster.pk, NOW)
    [claimed] = claim(cluster)

    assert Execution.objects.get(pk=claimed.execution_id).cause == "schedule"
    assert ledger(job) == [("claimed", NOW)]
    job.refresh_from_db()
    assert (job.status, job.next_run_at, job.slot_count, job.run_count) == ("pending", UNKNOWN_START, 1, 1)
    other.refresh_from_db()
    assert other.next_run_at == NOW + MINUTE


def test_restart_of_cronty_alone_runs_nothing(cluster, boot):
    engine.note_machine_start(cluster.pk, NOW)
    job = at_start()

    engine.note_machine_start(new_cluster().pk, NOW + MINUTE)

    assert claim(cluster, NOW + MINUTE) == []
    assert ledger(job) == []


def test_each_start_runs_the_job_again(cluster, boot):
    job = at_start()
    for minutes, name in enumerate(("first", "second")):
        boot(name)
        engine.note_machine_start(cluster.pk, NOW + minutes * MINUTE)
        [claimed] = claim(cluster, NOW + minutes * MINUTE)
        Execution.objects.filter(pk=claimed.execution_id).update(status="succeeded", finished_at=NOW)

    assert ledger(job) == [("succeeded", NOW), ("succeeded", NOW + MINUTE)]


def test_without_an_id_of_the_machine_the_start_of_the_cluster_counts(cluster, boot):
    boot()
    job = at_start()

    engine.note_machine_start(cluster.pk, NOW)
    engine.note_machine_start(cluster.pk, NOW)
    claim(cluster)
    assert len(ledger(job)) == 1

    engine.note_machine_start(new_cluster().pk, NOW + MINUTE)
    job.refresh_from_db()
    assert job.next_run_at == NOW + MINUTE


def test_crash_while_the_start_is_noted_leaves_it_to_the_next_cluster(cluster, boot, monkeypatch):
    job = at_start()
    with monkeypatch.context() as patch:
        patch.setattr(clusters, "_arm", lambda now: (_ for _ in ()).throw(Error("gone")))
        with pytest.raises(Error):
            engine.note_machine_start(cluster.pk, NOW)
    assert not MachineStart.objects.exists()

    engine.note_machine_start(new_cluster().pk, NOW + MINUTE)

    job.refresh_from_db()
    assert job.next_run_at == NOW + MINUTE


def test_second_start_before_the_first_was_claimed_is_a_row_of_its_own(cluster, boot):
    job = at_start()
    engine.note_machine_start(cluster.pk, NOW)
    boot("second")
    engine.note_machine_start(cluster.pk, NOW)

    claim(cluster)

    assert [status for status, _ in ledger(job)] == ["claimed", "skipped"]
    skipped = Execution.objects.get(status="skipped")
    assert skipped.reason == "The run for the start before this one was still due."


def test_paused_job_skips_the_start_with_the_reason_and_goes_on_afterwards(cluster, boot):
    job = at_start()
    engine.pause(job, NOW - MINUTE, "holiday")

    engine.note_machine_start(cluster.pk, NOW)

    assert ledger(job) == [("skipped", NOW)]
    assert Execution.objects.get().reason == "Paused: holiday"
    job.refresh_from_db()
    assert engine.rearm(job, NOW + MINUTE)
    assert ledger(job) == [("skipped", NOW)]
    boot("second")
    engine.note_machine_start(cluster.pk, NOW + 2 * MINUTE)
    assert len(claim(cluster, NOW + 2 * MINUTE)) == 1


def test_pause_before_the_claim_skips_the_start_that_is_due(cluster, boot):
    job = at_start()
    engine.note_machine_start(cluster.pk, NOW)
    job.refresh_from_db()

    engine.pause(job, NOW, "holiday")

    assert claim(cluster) == []
    assert ledger(job) == [("skipped", NOW)]


@pytest.mark.parametrize("fields", [{"status": "cancelled", "next_run_at": None}, {"deleted_at": NOW}])
def test_stopped_job_has_no_run(cluster, boot, fields):
    job = at_start(**fields)

    engine.note_machine_start(cluster.pk, NOW)

    assert claim(cluster) == []
    assert ledger(job) == []


@pytest.mark.parametrize(
    ("overlap", "status"), [("skip", "skipped"), ("queue", "queued"), ("allow", "claimed")]
)
def test_overlap_policy_holds_at_a_start(cluster, boot, overlap, status):
    job = at_start(overlap=overlap)
    begin(cluster, job, now=NOW - MINUTE)

    engine.note_machine_start(cluster.pk, NOW)
    claim(cluster)

    assert ledger(job) == [("running", NOW - MINUTE), (status, NOW)]


@pytest.mark.parametrize(("catch_up", "status"), [("once", "claimed"), ("none", "missed")])
def test_catch_up_policy_decides_about_a_start_that_was_claimed_late(cluster, boot, catch_up, status):
    job = at_start(catch_up=catch_up)
    engine.note_machine_start(cluster.pk, NOW)

    claim(cluster, NOW + 5 * MINUTE)

    assert ledger(job) == [(status, NOW)]
    job.refresh_from_db()
    assert (job.status, job.next_run_at) == ("pending", UNKNOWN_START)


def test_job_with_a_limit_ends_after_its_last_start(cluster, boot):
    job = at_start(max_runs=1)

    engine.note_machine_start(cluster.pk, NOW)
    claim(cluster)

    job.refresh_from_db()
    assert (job.status, job.next_run_at) == ("running", None)


def test_day_that_the_job_leaves_out_skips_its_start(cluster, boot):
    job = at_start(skips=NOW.date().isoformat())

    engine.note_machine_start(cluster.pk, NOW)
    claim(cluster)

    assert [status for status, _ in ledger(job)] == ["skipped"]


def test_inactive_owner_skips_the_start(cluster, boot):
    job = at_start()
    job.owner.is_active = False
    job.owner.save(update_fields=["is_active"])

    engine.note_machine_start(cluster.pk, NOW)

    assert claim(cluster) == []
    assert ledger(job) == [("skipped", NOW)]


def test_restored_backup_does_not_repeat_the_start(cluster, boot):
    job = at_start()

    engine.skip_since_backup(NOW - MINUTE, NOW)
    engine.note_machine_start(cluster.pk, NOW)

    assert claim(cluster) == []
    assert ledger(job) == []


def test_old_starts_are_forgotten(cluster, boot, monkeypatch):
    monkeypatch.setattr(clusters, "REMEMBERED", 2)
    for name in ("a", "b", "c"):
        boot(name)
        engine.note_machine_start(cluster.pk, NOW)

    assert set(MachineStart.objects.values_list("boot_id", flat=True)) == {"b", "c"}
