"""Clusters, and what they do for their hosts: starts of the machine, wrong clocks, and pings to an external monitor."""

import os
import socket
from datetime import timedelta

import pytest
from django.db import Error

from schedules import clock, engine
from schedules.engine import clusters
from schedules.engine.interruptions import BUSY, Interruption
from schedules.models import FRESH_FOR, Cluster, Execution, Installation, Job, MachineStart
from schedules.when import zones
from schedules.when.unplanned import UNKNOWN_START
from tests.engine.conftest import NOW, begin, ledger, new_cluster
from tests.factories import ClusterFactory, JobFactory

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def test_enlisted_cluster_has_the_pid_of_this_process_and_is_running():
    cluster = engine.enlist(NOW)

    assert cluster.pid == os.getpid()
    assert engine.is_any_cluster_running(NOW + FRESH_FOR)
    assert not engine.is_any_cluster_running(NOW + FRESH_FOR + timedelta(seconds=1))


def test_heartbeat_keeps_a_cluster_alive_until_it_is_retired():
    cluster = engine.enlist(NOW)

    engine.beat(cluster.pk, NOW + HOUR)
    assert engine.is_any_cluster_running(NOW + HOUR)

    engine.retire(cluster.pk, NOW + HOUR, "why")
    assert not engine.is_any_cluster_running(NOW + HOUR)
    cluster.refresh_from_db()
    assert (cluster.stopped_at, cluster.note) == (NOW + HOUR, "why")


def test_second_retirement_keeps_the_first_time():
    cluster = engine.enlist(NOW)

    engine.retire(cluster.pk, NOW)
    engine.retire(cluster.pk, NOW + HOUR, "again")

    cluster.refresh_from_db()
    assert (cluster.stopped_at, cluster.note) == (NOW, "")


def test_retired_cluster_is_running_again_after_its_next_heartbeat():
    cluster = engine.enlist(NOW)
    engine.retire(cluster.pk, NOW)

    engine.beat(cluster.pk, NOW + HOUR)

    assert engine.is_any_cluster_running(NOW + HOUR)


def test_returned_probe_records_when_it_was_sent():
    cluster = engine.enlist(NOW)

    engine.probe_returned(cluster.pk, NOW + HOUR)

    assert Cluster.objects.get().probe_returned_at == NOW + HOUR


def test_heartbeat_records_interruptions_only_when_they_are_given():
    cluster = engine.enlist(NOW)
    interruption = Interruption(NOW, NOW + HOUR, BUSY)

    engine.beat(cluster.pk, NOW, interruptions=[interruption])
    engine.beat(cluster.pk, NOW)

    cluster.refresh_from_db()
    assert [Interruption.from_json(values) for values in cluster.interruptions] == [interruption]


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


@pytest.fixture(autouse=True)
def no_warning_before(monkeypatch):
    monkeypatch.setattr(clusters, "_warned_at", float("-inf"))


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (0.9, ""),
        (-1.0, ""),
        (1.6, "2 seconds ahead of the database's"),
        (-3600.2, "3,600 seconds behind the database's"),
    ],
)
def test_difference_of_more_than_a_second_is_said_in_words(ahead, words):
    assert clusters.describe_deviation(ahead) == words


def test_living_clusters_with_a_wrong_clock_are_named_once_per_host():
    ClusterFactory(host="right", clock_ahead=0.2)
    ClusterFactory.create_batch(2, host="kettle", clock_ahead=90.1)
    ClusterFactory(host="gone", clock_ahead=90, last_seen_at=clock.now() - timedelta(hours=1))

    assert engine.host_warnings(clock.now()) == [
        "The clock of kettle is 90 seconds ahead of the database's. Jobs run by the database's clock; correct the"
        " host's."
    ]


def test_this_hosts_own_clock_is_named(monkeypatch):
    monkeypatch.setattr(clock, "ahead", lambda: -5.0)

    (warning,) = engine.host_warnings(clock.now())

    assert warning.startswith(f"The clock of {socket.gethostname()} is 5 seconds behind the database's.")


def test_hosts_with_other_zone_data_are_named_with_their_releases():
    ClusterFactory.create_batch(2, host="kettle", zone_data="2025b")
    ClusterFactory(host="unknown", zone_data="")

    (warning,) = engine.host_warnings(clock.now())

    assert f": kettle has 2025b, {socket.gethostname()} has {zones.release()}." in warning


def test_hosts_that_agree_are_not_mentioned():
    ClusterFactory(zone_data=zones.release(), clock_ahead=0.01)

    assert engine.host_warnings(clock.now()) == []


def test_log_tells_of_a_wrong_clock_once_a_minute(monkeypatch, caplog):
    cluster = ClusterFactory()
    monkeypatch.setattr(clock, "ahead", lambda: 90.0)

    engine.beat(cluster.pk, clock.now())
    engine.beat(cluster.pk, clock.now())

    assert [record.getMessage() for record in caplog.records] == [
        "This host's clock is 90 seconds ahead of the database's. Jobs run by the database's clock; correct the host's."
    ]
    cluster.refresh_from_db()
    assert cluster.clock_ahead == 90

    monkeypatch.setattr(clusters, "WARN_EVERY", 0.0)
    engine.beat(cluster.pk, clock.now())
    assert len(caplog.records) == 2


def test_new_cluster_records_its_zone_data_and_clock(monkeypatch):
    monkeypatch.setattr(clock, "ahead", lambda: -2.0)

    row = engine.enlist(clock.now())

    assert (row.zone_data, row.clock_ahead) == (zones.release(), -2)


def test_one_process_of_all_pings_in_each_minute():
    moments = [NOW, NOW + SECOND, NOW + 59 * SECOND, NOW + MINUTE, NOW + MINUTE + SECOND]

    assert [engine.take_watch_turn(moment) for moment in moments] == [True, False, False, True, False]


def test_clock_that_was_ahead_does_not_end_the_pings():
    engine.take_watch_turn(NOW + timedelta(days=1))

    assert engine.take_watch_turn(NOW)
    assert not engine.take_watch_turn(NOW + SECOND)


def test_answer_clears_the_error_and_an_error_keeps_the_last_answer():
    engine.take_watch_turn(NOW)
    engine.note_watch_answer(NOW)
    engine.note_watch_answer(NOW + MINUTE, "no\x1b[31m answer" + "r" * 500)

    row = Installation.objects.get()
    assert row.watch_answered_at == NOW
    assert (row.watch_error[:14], len(row.watch_error)) == ("no[31m answerr", 200)

    engine.note_watch_answer(NOW + 2 * MINUTE)
    row.refresh_from_db()
    assert (row.watch_answered_at, row.watch_error) == (NOW + 2 * MINUTE, "")
