"""Commands in a cluster: a bounded number at once, beside everything else, and never left alone."""

import signal

import psutil
import pytest

from schedules import engine, services
from schedules.engine import Claim
from schedules.models import Event, Execution, RunOutput
from schedules.result import Ok
from schedules.services import Actor
from schedules.tasks import registry
from schedules.worker.capacity import CommandLane
from schedules.worker.claim_loop import ClaimLoop
from schedules.worker.context import ClusterContext
from schedules.worker.locks import Permits
from tests.clusters import SHORT_LEASE, all_ended, family_of, is_alive, make_due, running_cluster
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory
from tests.waiting import PATIENCE, wait_for
from verification.stop_under_load import notes

TRY = '[try]\ndescription = "Try it."\nprogram = "/bin/true"\nallow = ["everyone"]\n'
WAIT = """
[polite]
description = "Clean up at the end."
program = "/bin/sh"
arguments = ["-c", 'trap "touch $1.bye; exit 1" TERM; echo ready; while :; do sleep 0.1; done', "sh", "{path}"]
allow = ["everyone"]
[polite.parameters.path]
[wait]
description = "Leave a child in another session, and wait for a file."
program = "/bin/sh"
arguments = ["-c", 'setsid sleep 600 & echo $! > "$1.child"; echo waiting; while [ ! -e "$1" ]; do sleep 0.1; done', "sh", "{path}"]
allow = ["everyone"]
[wait.parameters.path]
"""


@pytest.fixture
def most(settings, use_commands):
    use_commands(TRY)
    settings.CRONTY_COMMANDS_AT_ONCE = 2
    return 2


def claims_of(*tasks: str, **columns: object) -> list[Claim]:
    rows = [ExecutionFactory(job=JobFactory(task=task), status="claimed", **columns) for task in tasks]
    return [Claim(row.pk, 0, row.task, row.job.timeout, False) for row in rows]


@pytest.mark.django_db
def test_lane_admits_as_many_commands_as_may_run_and_releases_the_others(most):
    cluster = ClusterFactory()
    lane = CommandLane(cluster.pk)
    claims = claims_of("try", "tests.ping", "try", "try", "tests.aping", cluster=cluster)

    admitted, surplus = lane.admit(claims)

    assert [claim.task for claim in admitted] == ["try", "tests.ping", "try", "tests.aping"]
    assert [claim.execution_id for claim in surplus] == [claims[3].execution_id]
    assert lane.is_crowded
    assert lane.names() == ["try"]


@pytest.mark.django_db
def test_lane_has_room_again_when_commands_have_ended(most):
    cluster = ClusterFactory()
    lane = CommandLane(cluster.pk)
    first = claims_of("try", "try", cluster=cluster)
    assert lane.admit(first) == (first, [])
    assert lane.room() == 0

    Execution.objects.update(status="succeeded", lease_until=None)

    assert lane.room() == most
    assert not lane.is_crowded
    second = claims_of("try", "try", cluster=cluster)
    assert lane.admit(second) == (second, [])


@pytest.mark.django_db
def test_claims_without_commands_cost_nothing(most, django_assert_num_queries):
    claims = claims_of("tests.ping", "tests.aping")

    with django_assert_num_queries(0):
        assert CommandLane(1).admit(claims) == (claims, [])


@pytest.mark.django_db(transaction=True)
def test_crowded_lane_neither_delays_other_tasks_nor_loses_commands(most):
    cluster = ClusterFactory()
    context = ClusterContext(cluster.pk, Permits(1))
    claim_loop = ClaimLoop(context)
    make_due(5, "try", after=-1)
    try:
        claim_loop.next_packages()
        assert Execution.objects.filter(status="claimed").count() == most
        assert Execution.objects.filter(status="queued").count() == 3
        make_due(1, "tests.aping", after=-1)
        claim_loop.next_packages()
        assert Execution.objects.filter(status="claimed", task="tests.aping").count() == 1

        Execution.objects.filter(status="claimed").update(status="succeeded", lease_until=None)
        claim_loop.next_packages()
        assert Execution.objects.filter(status="claimed", task="try").count() == most
        Execution.objects.filter(status="claimed").update(status="succeeded", lease_until=None)
        claim_loop.next_packages()
        assert not Execution.objects.filter(status="queued").exists()
    finally:
        context.close()


@pytest.mark.django_db
def test_lost_commands_are_those_that_another_cluster_runs_or_that_ended():
    cluster = ClusterFactory()
    mine, ended, taken, retried = (
        ExecutionFactory(status=status, cluster=holder, attempt=attempt)
        for status, holder, attempt in (
            ("running", cluster, 1),
            ("lost", cluster, 1),
            ("running", ClusterFactory(), 2),
            ("running", cluster, 2),
        )
    )

    lost = engine.find_lost(cluster.pk, {row.pk: 1 for row in (mine, ended, taken, retried)})

    assert lost == [ended.pk, taken.pk, retried.pk]


@pytest.mark.django_db(transaction=True)
def test_commands_run_in_a_cluster_beside_everything_else_and_die_with_their_worker(
    use_commands, commands_file, tmp_path
):
    use_commands(WAIT)
    assert registry.get("wait") is not None
    paths = [tmp_path / str(number) for number in range(3)]
    settings = {"CRONTY_COMMANDS_FILE": commands_file, "CRONTY_COMMANDS_AT_ONCE": 2}
    with running_cluster(**SHORT_LEASE, **settings) as leader:
        for path in paths:
            make_due(1, "wait", after=0, path=str(path))
        wait_for(lambda: RunOutput.objects.filter(head="waiting\n").count() == 2)
        (notification,) = make_due(1, "tests.aping", after=0)
        wait_for(lambda: Execution.objects.filter(job=notification, status="succeeded").exists())
        running = Execution.objects.filter(task="wait", status="running")
        assert running.count() == 2

        child = next(path.with_suffix(".child") for path in paths if path.with_suffix(".child").exists())
        orphan = psutil.Process(int(child.read_text()))
        *_, guard = (parent for parent in orphan.parents() if "guard.py" in " ".join(parent.cmdline()))
        worker = guard.parent()
        assert worker in family_of(leader.pid)
        worker.kill()
        wait_for(lambda: not is_alive(orphan))

        for path in paths:
            path.touch()
        wait_for(all_ended)

        (stopped,) = make_due(1, "wait", after=0, path=str(tmp_path / "never"))
        child = tmp_path / "never.child"
        wait_for(lambda: child.exists() and child.read_text())
        orphan = psutil.Process(int(child.read_text()))
        run = Execution.objects.get(job=stopped)
        assert isinstance(services.stop_run(Actor(stopped.owner, Event.Door.WEB), run.pk), Ok)
        wait_for(lambda: not is_alive(orphan))

    run.refresh_from_db()
    assert (run.status, run.reason) == ("cancelled", f"Stopped by {stopped.owner.username}.")
    rows = list(Execution.objects.filter(task="wait").exclude(pk=run.pk))
    assert {row.status for row in rows} == {"succeeded"}
    assert max(row.attempt for row in rows) >= 2
    assert all(row.result["exit_code"] == 0 for row in rows)


@pytest.mark.verify
@pytest.mark.django_db(transaction=True)
def test_stopped_commands_have_time_to_clean_up_although_their_workers_are_busy(
    use_commands, commands_file, tmp_path
):
    """They were told to end only once their worker was free: at times too late, and they were killed."""
    use_commands(WAIT)
    notes_file, until = tmp_path / "notes", tmp_path / "until"
    goodbyes = {tmp_path / f"polite{number}.bye" for number in range(4)}
    limits = {"CRONTY_WORKERS": 1, "CRONTY_COMMANDS_AT_ONCE": 4, "CRONTY_STOP_SECONDS": 30}
    with running_cluster(CRONTY_COMMANDS_FILE=commands_file, **limits) as cluster:
        # One after the other, so that they come to different workers.
        for number in range(4):
            (job,) = make_due(1, "polite", after=0, path=str(tmp_path / f"polite{number}"))
            wait_for(RunOutput.objects.filter(head="ready\n", execution__job=job).exists)
        (busy,) = make_due(1, "tests.wait", after=0, path=str(notes_file), until=str(until))
        wait_for(lambda: notes(notes_file, "begin"))

        cluster.send_signal(signal.SIGTERM)
        wait_for(lambda: goodbyes <= set(tmp_path.glob("*.bye")) or cluster.poll() is not None)
        until.touch()
        assert cluster.wait(PATIENCE) == 0

    assert set(tmp_path.glob("*.bye")) == goodbyes
    handed_back = Execution.objects.filter(task="polite")
    assert list(handed_back.values_list("status", "error")) == [("queued", "")] * 4
    assert Execution.objects.get(job=busy).status == "succeeded"
