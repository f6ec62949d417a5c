"""The tools that change, copy, pause, skip and restore a job."""

from dataclasses import replace
from datetime import timedelta

import pytest
import time_machine

from schedules import clock
from schedules.mcp.auth import local_caller, set_local_caller
from schedules.models import Event, Execution, Job, Question
from tests.factories import ExecutionFactory, JobFactory, reminder_job

SECRET = {"url": "https://example.com/", "headers": {"X-Api-Key": "hush"}}


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
    assert (answer["job_id"], answer["next_run"]) == (job.public_id, "2026-02-05T07:00:00+09:00")
    assert "Every 5 minutes → Every day at 07:00" in answer["changed"]
    olga.call("update_job", job_id=job.public_id, max_runs=0, tags=["home"], label="L", kwargs={"fail": True})
    job.refresh_from_db()
    assert (job.max_runs, job.tags, job.label, job.kwargs) == (None, ["home"], "L", {"fail": True})
    assert "already" in olga.call("update_job", job_id=job.public_id, label="L")["note"]


def test_update_job_keeps_the_arguments_that_are_not_given(call, owner, noon):
    job = JobFactory(owner=owner, task="webhook", kwargs=SECRET | {"method": "PUT"})

    assert "error" not in call("update_job", job_id=job.public_id, kwargs={"body": "x", "method": None})

    job.refresh_from_db()
    assert job.kwargs == SECRET | {"body": "x"}
    refused = call("update_job", job_id=job.public_id, kwargs={"url": "https://evil.example/"})
    assert "headers.X-Api-Key: write it again" in refused["error"]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"trigger_type": "cron"}, "Invalid trigger_config: give trigger_config together with trigger_type"),
        ({"trigger_config": {"expression": "x"}}, "Invalid cron expression: x"),
        ({"timezone": "Mars"}, "Unknown timezone: Mars"),
        ({"max_runs": -1}, "Invalid max_runs: -1"),
        ({"kwargs": {"loud": 1}}, "Invalid arguments for task tests.ping: loud"),
        ({"kwargs": {"token": "••••••"}}, "Invalid arguments for task tests.ping: write the real value"),
        ({"name": ""}, "Invalid name: "),
    ],
)
def test_invalid_update_changes_nothing(call, owner, changes, error):
    job = JobFactory(owner=owner)

    assert call("update_job", job_id=job.public_id, **changes)["error"].startswith(error)
    assert Job.objects.get().revision == 1


@pytest.mark.parametrize(
    ("tool", "more_arguments"),
    [
        ("update_job", {"name": "x"}),
        ("copy_job", {}),
        ("pause_job", {}),
        ("resume_job", {}),
        ("run_job", {}),
        ("skip_runs", {}),
        ("why", {}),
    ],
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

    assert (paused["status"], paused["next_run"], paused["changed"]) == ("paused", None, "pending → paused")
    assert paused["paused_until"] == "2026-02-05T09:00:00-05:00"
    assert olga.call("job_status", job_id=job.public_id)["pause_reason"] == "holiday"
    for _ in range(2):
        assert olga.call("resume_job", job_id=job.public_id)["status"] == "pending"
    assert olga.call("pause_job", job_id=job.public_id, until="whenever")["error"].startswith("Invalid until")


def test_pause_that_leaves_no_run_and_resumption_after_its_time_are_explained(olga, owner, noon):
    job = JobFactory(owner=owner, once=True, timezone="Asia/Tokyo")

    assert "warning" not in olga.call("pause_job", job_id=job.public_id, until="in 59 minutes")
    longer = olga.call("pause_job", job_id=job.public_id, until="in 1 hour")
    assert longer["warning"].startswith("No run is left after this pause")

    Job.objects.update(run_at=clock.now() - timedelta(hours=1))
    passed = "Its time (2026-02-04 19:00:00 Asia/Tokyo) has passed. Choose a later one."
    as_job = olga.call("resume_job", job_id=job.public_id)["error"]
    as_schedule = olga.call("resume_schedule", schedule_id=job.public_id)["error"]
    assert as_job == f"{passed} Change its schedule with update_job first, or cancel it and make it anew."
    assert as_schedule == f"{passed} To do so, delete it with delete_schedule and schedule it anew."


def test_answers_to_changes_contain_warnings(olga, owner):
    job = JobFactory(owner=owner, timezone="Europe/Berlin")

    changed = olga.call("update_job", job_id=job.public_id, **cron("30 2 * * *"))

    assert "clocks in Europe/Berlin go forward: 02:30 is skipped" in changed["warning"]
    assert "No worker is running" in changed["warning"]


def test_stopped_job_is_restored_and_says_that_it_is_paused_if_its_time_has_passed(call, owner):
    job = JobFactory(owner=owner, once=True, run_at=clock.now() + timedelta(hours=1))
    deleted = call("delete_schedule", schedule_id=job.public_id)
    assert deleted["undo"] == f'restore_job(job_id="{job.public_id}")'
    assert call("restore_job", job_id=f"#{job.pk}")["status"] == "pending"
    assert call("restore_job", job_id=job.public_id) == {"error": f"Job already pending: {job.public_id}"}
    call("cancel_job", job_id=job.public_id)
    Job.objects.update(run_at=clock.now() - timedelta(hours=1))

    restored = call("restore_job", job_id=job.public_id)
    changed = call("update_job", job_id=job.public_id, trigger_config={"run_at": "in 2 hours"})

    assert "call resume_job" in restored["warning"]
    assert "call resume_job" in changed["warning"]
    assert "resume_job" not in call("resume_job", job_id=job.public_id).get("warning", "")


def test_next_run_is_skipped_and_recorded(call, cluster, owner, noon):
    job = JobFactory(owner=owner, cron="0 9 * * *", next_run_at=clock.now() + timedelta(hours=22))

    answer = call("skip_runs", job_id=job.public_id)

    assert answer["skips"] == ["2026-02-05T09:00:00+00:00"]
    assert answer["next_run"] == answer["next_runs"][0] == "2026-02-06T09:00:00+00:00"
    assert call("list_jobs")["jobs"][0]["next_run"] == answer["next_run"]
    assert call("upcoming", hours=30)["upcoming"] == []
    assert call("why", job_id=job.public_id, at="2026-02-05 09:00")["verdict"] == "excluded"
    undone = call("skip_runs", job_id=job.public_id, undo=True)
    assert (undone["skips"], undone["next_run"]) == ([], "2026-02-05T09:00:00+00:00")


def test_days_are_skipped_in_the_zone_of_the_job(call, owner, noon):
    first = clock.now() + timedelta(minutes=270)
    job = JobFactory(owner=owner, cron="30 0 * * 1-5", timezone="Asia/Tokyo", next_run_at=first)

    answer = call("skip_runs", job_id=job.public_id, dates=["tomorrow", "24 december", "2026-02-07"])

    assert answer["skips"] == ["2026-02-05", "2026-12-24"]
    assert answer["warning"] == "No run falls on 2026-02-07; nearest: 6 Feb, 9 Feb."
    undone = call("skip_runs", job_id=job.public_id, dates=["2026-02-05"], undo=True)
    assert undone["next_run"] == "2026-02-05T00:30:00+09:00"


def test_copy_has_everything_but_what_is_changed(call, owner, noon):
    kwargs = {"message": "Bins", "topic": "mine", "priority": 4}
    job = JobFactory(
        owner=owner, name="Bins", task="notify", kwargs=kwargs, tags=["home"], attempts=4, run_count=3
    )

    asked = {"job_id": "Bins", "name": "Bins for Anna", "kwargs": {"topic": "anna"}, "idempotency_key": "one"}
    answer, again = (call("copy_job", **asked) for _ in range(2))

    copy = Job.objects.get(public_id=answer["job_id"])
    assert (copy.name, copy.kwargs) == ("Bins for Anna", kwargs | {"topic": "anna"})
    assert (copy.cron, copy.tags, copy.attempts, copy.run_count) == (job.cron, ["home"], 4, 0)
    assert Event.objects.get(job=copy).verb == "create"
    assert (again["job_id"], again["existing"]) == (copy.public_id, True)


def test_secret_of_a_copy_goes_along_only_to_the_same_address(call, owner, noon):
    JobFactory(owner=owner, name="Ping", task="webhook", kwargs=SECRET)

    same = call("copy_job", job_id="Ping", trigger_config={"expression": "0 5 * * *"})
    other = call("copy_job", job_id="Ping", kwargs={"url": "https://evil.example/"})
    masked = call("copy_job", job_id="Ping", kwargs={"body": "••••••"})

    assert Job.objects.get(public_id=same["job_id"]).kwargs == SECRET
    assert "headers.X-Api-Key: write it again" in other["error"]
    assert "write the real value instead" in masked["error"]
    assert Job.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_agent_answers_a_reminder_for_the_user_also_of_a_job_that_has_ended(olga, owner):
    job = reminder_job(owner=owner, once=True, status="completed", next_run_at=None)
    Question.objects.create(execution=ExecutionFactory(job=job), job=job, asked_at=clock.now())

    assert "error" in olga.call("update_job", job_id=job.public_id, answer="perhaps")
    assert Question.objects.get().status == "open"
    snoozed = olga.call("update_job", job_id=job.public_id, answer="snooze 1h")
    assert snoozed["reminder"].startswith("Snoozed by ")
    done = olga.call("update_job", job_id=job.public_id, answer="done")
    assert done["reminder"].startswith("Done by ")
    assert olga.call("job_status", job_id=job.public_id)["reminder"] == done["reminder"]


PROMPT = {"name": "Check", "task": "prompt", "kwargs": {"prompt": "Check the build"}, **cron("0 12 * * *")}


@pytest.fixture
def careful_call(call, agent):
    """Call a tool as Olga's agent, whose jobs wait for a confirmation."""
    caller = local_caller(agent.user, name=agent.name)
    set_local_caller(replace(caller, actor=replace(caller.actor, confirm="always")))
    return call


def test_job_that_waits_for_a_person_is_answered_with_its_page(careful_call):
    made = careful_call("schedule_job", **PROMPT)

    job = Job.objects.get()
    assert (made["status"], made["next_run"], job.proposed_at is not None) == ("paused", None, True)
    assert "It waits for your user's confirmation" in made["warning"]
    assert f"/jobs/{job.public_id}/" in made["warning"]
    for tool, arguments in (("resume_job", {}), ("pause_job", {"until": "tomorrow"}), ("run_job", {})):
        answer = careful_call(tool, job_id=job.public_id, **arguments)
        assert "until a person confirms it" in answer["error"]
    assert not Execution.objects.exists()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("schedule", {"at": "in 2 hours", "prompt": "Check the build"}),
        ("schedule_cron_notification", {"message": "Hi", "notification_topic": "p", "cron": "0 9 * * *"}),
        ("schedule_notification", {"message": "Hi", "notification_topic": "p", "delay": "1h"}),
    ],
)
def test_every_family_says_that_a_job_waits_for_a_person(careful_call, tool, arguments):
    assert "confirmation and does not run before: ask them" in str(careful_call(tool, **arguments))


def test_cancelled_job_is_restored_and_its_slots_are_recorded(call, owner):
    with time_machine.travel("2026-02-04T11:00:00+00:00", tick=False):
        job = JobFactory(owner=owner, cron="0 9 * * *", next_run_at=clock.now() + timedelta(hours=22))
        call("cancel_job", job_id=job.public_id)
    with time_machine.travel("2026-02-06T11:00:00+00:00", tick=False):
        restored = call("restore_job", job_id=job.public_id)

    assert (restored["status"], restored["next_run"]) == ("pending", "2026-02-07T09:00:00+00:00")
    row = Execution.objects.get()
    assert (row.status, row.slots, row.reason) == ("skipped", 2, "The job was stopped.")
