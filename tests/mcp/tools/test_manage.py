"""The management tools: update, pause, resume, skip and restore."""

from datetime import timedelta

import pytest
import time_machine

from schedules import clock
from schedules.mcp.tools import running
from schedules.models import Execution, Job
from schedules.services import issue_token
from tests.factories import JobFactory
from tests.mcp.agents import InMemory
from tests.mcp.over_http import OverHttp


def cron(expression):
    return {"trigger_type": "cron", "trigger_config": {"expression": expression}}


def test_update_job_changes_the_job_in_place(olga, owner, noon):
    job = JobFactory(owner=owner, max_runs=5)

    answer = olga.call(
        "update_job", job_id=job.public_id, name="New", **cron("0 7 * * *"), timezone="Asia/Tokyo"
    )

    assert (answer["name"], answer["description"], answer["timezone"]) == (
        "New",
        "Every day at 07:00, 5 times",
        "Asia/Tokyo",
    )
    assert answer["next_run"] == "2026-02-05T07:00:00+09:00"
    assert answer["job_id"] == job.public_id
    olga.call("update_job", job_id=job.public_id, max_runs=0, tags=["home"], label="L", kwargs={"fail": True})
    job.refresh_from_db()
    assert (job.max_runs, job.tags, job.label, job.kwargs) == (None, ["home"], "L", {"fail": True})


def test_update_job_asks_for_secrets_again_when_the_address_changes(call, owner, noon):
    job = JobFactory(
        owner=owner, task="webhook", args=["https://example.com/"], kwargs={"headers": {"X-Key": "hush"}}
    )

    answer = call("update_job", job_id=job.public_id, args=["https://evil.example/"])

    assert "headers.X-Key: write it again" in answer["error"]
    job.refresh_from_db()
    assert job.args == ["https://example.com/"]


def test_update_job_keeps_the_arguments_that_are_not_given(call, owner, noon):
    old = {"url": "https://example.com/", "headers": {"X-Api-Key": "hush"}, "method": "PUT"}
    job = JobFactory(owner=owner, task="webhook", kwargs=old)

    assert "error" not in call("update_job", job_id=job.public_id, kwargs={"body": "x", "method": None})

    job.refresh_from_db()
    assert job.kwargs == {"url": old["url"], "headers": old["headers"], "body": "x"}
    refused = call("update_job", job_id=job.public_id, kwargs={"url": "https://evil.example/"})
    assert "headers.X-Api-Key: write it again" in refused["error"]
    call("update_job", job_id=job.public_id, kwargs={"url": "https://example.org/", "headers": None})
    job.refresh_from_db()
    assert job.kwargs == {"url": "https://example.org/", "body": "x"}


def test_update_job_changes_by_name_what_was_given_by_position(call, owner, noon):
    job = JobFactory(owner=owner, task="notify", args=["Old", "phone"])

    call("update_job", job_id=job.public_id, kwargs={"message": "New", "title": "T"})
    job.refresh_from_db()
    assert (job.args, job.kwargs) == (["New", "phone"], {"title": "T"})

    call("update_job", job_id=job.public_id, args=["Newer"], kwargs={"topic": "phone"})
    job.refresh_from_db()
    assert (job.args, job.kwargs) == (["Newer"], {"title": "T", "topic": "phone"})


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"trigger_type": "cron"}, "Invalid trigger_config: give trigger_config together with trigger_type"),
        ({"trigger_config": {"expression": "x"}}, "Invalid cron expression: x"),
        ({"timezone": "Mars"}, "Unknown timezone: Mars"),
        ({"max_runs": -1}, "Invalid max_runs: -1"),
        ({"kwargs": {"loud": 1}}, "Invalid arguments for task tests.ping: loud"),
        (
            {"kwargs": {"h": {"token": "••••••"}}},
            "Invalid arguments for task tests.ping: write the real value",
        ),
        ({"name": ""}, "Invalid name: "),
        ({"tags": ["x" * 60]}, "Invalid tags: "),
    ],
)
def test_invalid_update_changes_nothing(call, owner, changes, error):
    job = JobFactory(owner=owner)

    assert call("update_job", job_id=job.public_id, **changes)["error"].startswith(error)
    assert Job.objects.get().revision == 1


@pytest.mark.parametrize(
    ("tool", "more_arguments"),
    [("update_job", {"name": "x"}), ("pause_job", {}), ("resume_job", {}), ("run_job", {}), ("why", {})],
)
def test_foreign_and_unknown_ids_get_the_same_answer(call, stranger, tool, more_arguments):
    foreign = JobFactory(owner=stranger).public_id

    for job_id in (foreign, "nope"):
        assert call(tool, job_id=job_id, **more_arguments) == {"error": f"Job not found: {job_id}"}
    assert not Execution.objects.exists()


def test_ended_job_cannot_be_updated_paused_or_resumed(call, owner):
    job = JobFactory(owner=owner, ended=True)

    for tool, arguments in (("update_job", {"name": "x"}), ("pause_job", {}), ("resume_job", {})):
        answer = call(tool, job_id=job.public_id, **arguments)
        assert answer["error"] == f"Job already completed: {job.public_id}"


def test_job_is_paused_until_a_moment_and_resumed(olga, owner, noon):
    # "9am" means 9am in the zone of the job.
    job = JobFactory(owner=owner, timezone="America/New_York")

    paused = olga.call("pause_job", job_id=job.public_id, until="tomorrow at 9am", reason="holiday")

    assert (paused["status"], paused["next_run"], paused["paused_until"]) == (
        "paused",
        None,
        "2026-02-05T09:00:00-05:00",
    )
    shown = olga.call("job_status", job_id=job.public_id)
    assert (shown["pause_reason"], shown["paused_until"]) == ("holiday", paused["paused_until"])
    for _ in range(2):
        assert olga.call("resume_job", job_id=job.public_id)["status"] == "pending"


def test_pause_refuses_an_invalid_or_past_moment(call, owner, noon):
    job = JobFactory(owner=owner)

    assert call("pause_job", job_id=job.public_id, until="whenever")["error"].startswith("Invalid until: ")
    past = call("pause_job", job_id=job.public_id, until="2026-02-04 09:00")
    assert past["error"] == "Invalid until: choose a time in the future (now 2026-02-04 11:00:00 UTC)"


def test_pause_that_leaves_no_run_has_a_warning(olga, owner, noon):
    job = JobFactory(owner=owner, once=True)

    shorter = olga.call("pause_job", job_id=job.public_id, until="in 59 minutes")
    olga.call("resume_job", job_id=job.public_id)
    longer = olga.call("pause_job", job_id=job.public_id, until="in 1 hour")

    assert "warning" not in shorter
    assert longer["warning"].startswith("No run is left after this pause")


def test_resume_of_a_job_whose_time_has_passed_suggests_a_fix(olga, owner, noon):
    job = JobFactory(owner=owner, once=True, timezone="Asia/Tokyo", paused=True)
    Job.objects.update(run_at=clock.now() - timedelta(hours=1))

    as_job = olga.call("resume_job", job_id=job.public_id)["error"]
    as_schedule = olga.call("resume_schedule", schedule_id=job.public_id)["error"]

    passed = "Its time (2026-02-04 19:00:00 Asia/Tokyo) has passed. Choose a later one."
    assert as_job == f"{passed} Change its schedule with update_job first, or cancel it and make it anew."
    assert as_schedule == f"{passed} To do so, delete it with delete_schedule and schedule it anew."


def test_answers_to_changes_contain_warnings(olga, owner):
    job = JobFactory(owner=owner, timezone="Europe/Berlin")

    changed = olga.call("update_job", job_id=job.public_id, **cron("30 2 * * *"))
    olga.call("pause_job", job_id=job.public_id)
    resumed = olga.call("resume_job", job_id=job.public_id)

    for answer in (changed, resumed):
        assert "clocks in Europe/Berlin go forward: 02:30 is skipped" in answer["warning"]
        assert "No worker is running" in answer["warning"]


def test_deleted_schedule_is_restored_by_what_its_deletion_says(call, owner):
    job = JobFactory(owner=owner, task="notify", name="Plants", name_skeleton="plants")

    deleted = call("delete_schedule", schedule_id=job.public_id)
    assert deleted["undo"] == f'restore_job(job_id="{job.public_id}")'
    restored = call("restore_job", job_id=f"#{job.pk}")

    assert (restored["job_id"], restored["status"]) == (job.public_id, "pending")
    assert call("restore_job", job_id=job.public_id) == {"error": f"Job already pending: {job.public_id}"}


def test_cancelled_job_is_restored_and_its_slots_are_recorded(call, owner):
    with time_machine.travel("2026-02-04T11:00:00+00:00", tick=False):
        job = JobFactory(owner=owner, cron="0 9 * * *", next_run_at=clock.now() + timedelta(hours=22))
        call("cancel_job", job_id=job.public_id)
    with time_machine.travel("2026-02-06T11:00:00+00:00", tick=False):
        restored = call("restore_job", job_id=job.public_id)

    assert (restored["status"], restored["next_run"]) == ("pending", "2026-02-07T09:00:00+00:00")
    row = Execution.objects.get()
    assert (row.status, row.slots, row.reason) == ("skipped", 2, "The job was stopped.")


def test_next_run_is_skipped_and_recorded(call, cluster, owner, noon):
    job = JobFactory(owner=owner, cron="0 9 * * *", next_run_at=clock.now() + timedelta(hours=22))

    answer = call("skip_runs", job_id=job.public_id)

    assert answer["skips"] == ["2026-02-05T09:00:00+00:00"]
    assert answer["next_run"] == answer["next_runs"][0] == "2026-02-06T09:00:00+00:00"
    assert call("list_jobs")["jobs"][0]["next_run"] == answer["next_run"]
    assert call("upcoming", hours=30)["upcoming"] == []
    assert call("why", job_id=job.public_id, at="2026-02-05 09:00")["verdict"] == "excluded"
    again = call("skip_runs", job_id=job.public_id)
    assert again["next_run"] == "2026-02-07T09:00:00+00:00"
    undone = call("skip_runs", job_id=job.public_id, undo=True)
    assert (undone["skips"], undone["next_run"]) == ([], "2026-02-05T09:00:00+00:00")


def test_days_are_skipped_in_the_zone_of_the_job(call, owner, noon):
    job = JobFactory(
        owner=owner,
        cron="30 0 * * *",
        timezone="Asia/Tokyo",
        next_run_at=clock.now() + timedelta(minutes=270),
    )

    answer = call("skip_runs", job_id=job.public_id, dates=["tomorrow", "24 december", "2026-02-07"])

    assert answer["skips"] == ["2026-02-05", "2026-02-07", "2026-12-24"]
    assert [run[:10] for run in answer["next_runs"][:2]] == ["2026-02-06", "2026-02-08"]
    undone = call("skip_runs", job_id=job.public_id, dates=["2026-02-05"], undo=True)
    assert undone["next_run"] == "2026-02-05T00:30:00+09:00"


def test_restored_job_whose_time_has_passed_says_that_it_is_paused(call, owner):
    job = JobFactory(owner=owner, once=True, run_at=clock.now() + timedelta(hours=1))
    call("cancel_job", job_id=job.public_id)
    Job.objects.update(run_at=clock.now() - timedelta(hours=1))

    restored = call("restore_job", job_id=job.public_id)
    changed = call("update_job", job_id=job.public_id, trigger_config={"run_at": "in 2 hours"})

    assert "call resume_job" in restored["warning"]
    assert "call resume_job" in changed["warning"]
    assert "resume_job" not in call("resume_job", job_id=job.public_id).get("warning", "")


@pytest.fixture(params=["memory", "http"])
def agent_waiting(request, era, owner, caller, cluster):
    if request.param == "memory":
        return InMemory(era)
    return OverHttp(era, issue_token(owner, name="laptop").value.text)


def test_waiting_client_sees_how_the_run_is_going(agent_waiting, owner, monkeypatch):
    job = JobFactory(owner=owner)
    statuses = iter(["queued", "running", "succeeded"])
    monkeypatch.setattr(running, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(running, "status_of", lambda execution_id: next(statuses))
    seen = []

    async def note(progress, total, message):
        seen.append((progress, total, message))

    arguments = {"job_id": job.public_id, "wait_seconds": 5}
    agent_waiting.do(lambda client: client.call_tool("run_job", arguments, progress_callback=note))

    assert seen == [(0, 5, "The run is queued."), (0.01, 5, "The run is running.")]
