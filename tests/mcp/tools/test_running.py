"""The tools that run a job or a task now."""

import pytest

from schedules import clock
from schedules.mcp.tools import running
from schedules.models import Channel, Execution, Job, Profile
from tests.factories import JobFactory


def test_run_job_queues_a_run_and_keeps_the_schedule(olga, cluster, owner):
    job = JobFactory(owner=owner)

    answer = olga.call("run_job", job_id=job.public_id)

    row = Execution.objects.get()
    assert answer == {
        "job_id": job.public_id,
        "execution_id": row.pk,
        "status": "queued",
        "result": None,
        "error": None,
    }
    assert row.cause == "manual"
    before = job.next_run_at
    job.refresh_from_db()
    assert job.next_run_at == before


def test_run_job_waits_for_a_result_up_to_its_limit(call, owner, monkeypatch):
    job = JobFactory(owner=owner)
    monkeypatch.setattr(running, "POLL_SECONDS", 0.001)
    looks = []

    def finish_at_the_third_query(execution_id):
        looks.append(execution_id)
        if len(looks) == 3:
            Execution.objects.filter(pk=execution_id).update(status="succeeded", result={"values": []})
        return Execution.objects.get(pk=execution_id).status

    monkeypatch.setattr(running, "status_of", finish_at_the_third_query)

    assert call("run_job", job_id=job.public_id, wait_seconds=5)["result"] == {"values": []}
    assert len(looks) == 3
    monkeypatch.setattr(running, "status_of", lambda execution_id: "queued")
    assert call("run_job", job_id=job.public_id, wait_seconds=0.01)["status"] == "queued"


def test_run_job_refuses_a_long_wait_and_too_many_runs(call, owner):
    job = JobFactory(owner=owner)

    assert (
        call("run_job", job_id=job.public_id, wait_seconds=51)["error"]
        == "Invalid wait_seconds: choose 0 to 50"
    )
    for _ in range(10):
        call("run_job", job_id=job.public_id)
    assert call("run_job", job_id=job.public_id)["error"].startswith("Quota exceeded: 10 runs of this job")


def test_run_task_runs_once_without_a_schedule(call, owner):
    answer = call("run_task", task="tests.ping")

    row = Execution.objects.get()
    assert (row.pk, row.status, row.cause) == (answer["execution_id"], answer["status"], "manual")
    job = Job.objects.get(public_id=answer["job_id"])
    assert (job.name, job.status, job.next_run_at) == ("tests.ping", "completed", None)
    assert call("list_runs", **{"from": "today", "to": "tomorrow"})["runs"][0]["task"] == "tests.ping"
    again = call("run_job", job_id=answer["job_id"])
    assert again["status"] == "queued"


def test_run_task_waits_for_a_result(call, owner, monkeypatch):
    def finish(execution_id):
        Execution.objects.filter(pk=execution_id).update(status="succeeded", result={"values": [1]})
        return "succeeded"

    monkeypatch.setattr(running, "status_of", finish)

    assert call("run_task", task="tests.ping", wait_seconds=1)["result"] == {"values": [1]}


@pytest.mark.parametrize(
    ("defaults", "place", "expected"),
    [
        ({"topic": "my-phone"}, {}, {"topic": "my-phone"}),
        ({"topic": "my-phone", "channel": "phone"}, {}, {"channel": "phone"}),
        ({"topic": "my-phone"}, {"channel": "phone"}, {"channel": "phone"}),
        ({"channel": "phone"}, {"topic": "plants"}, {"topic": "plants"}),
    ],
    ids=["topic", "channel", "named channel", "named topic"],
)
def test_run_task_sends_a_notification_to_the_default_place_unless_one_is_named(
    call, owner, defaults, place, expected
):
    now = clock.now()
    Channel.objects.create(owner=owner, name="phone", kind="ntfy", created_at=now, updated_at=now)
    Profile.objects.filter(user=owner).update(**defaults)

    answer = call("run_task", task="notify", kwargs={"message": "Hello", **place})

    job = Job.objects.get(public_id=answer["job_id"])
    assert (job.name, job.kwargs) == ("Hello", {"message": "Hello", **expected})


def test_run_task_refuses_unknown_tasks_bad_arguments_and_system_tasks(call, owner):
    unknown = call("run_task", task="backup")
    bad = call("run_task", task="webhook", kwargs={"url": "nonsense"})
    system = call("run_task", task="cronty.prune")

    assert unknown["error"] == "Unknown task: backup"
    assert "webhook" in unknown["available_tasks"]
    assert bad["error"].startswith("Invalid arguments for task webhook: url")
    assert system["error"].startswith("Unknown task")
    assert not Job.objects.exists()
