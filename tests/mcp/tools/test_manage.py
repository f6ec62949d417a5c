"""The management tools: update, pause, resume, skip and restore."""

from datetime import timedelta

import pytest
import time_machine

from schedules import clock
from schedules.mcp.tools import running
from schedules.models import Event, Execution, Job
from schedules.services import issue_token, profile_of
from tests.factories import ExecutionFactory, JobFactory
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


def test_name_follows_the_message_unless_somebody_chose_it(call, owner, noon):
    message = {"message": "Water the plants", "notification_topic": "phone"}
    derived = call("schedule_notification", **message, delay="1h")["message_id"]
    labelled = call(
        "schedule_cron_notification", **message, cron="0 9 * * *", timezone="UTC", label="Plants"
    )["schedule_id"]
    chosen = JobFactory(owner=owner, task="notify", name="Mine", kwargs={"message": "a", "topic": "phone"})

    for job_id in (derived, labelled, chosen.public_id):
        call("update_job", job_id=job_id, kwargs={"message": "Feed the cat"})

    names = dict(Job.objects.values_list("public_id", "name"))
    assert (names[derived], names[labelled], names[chosen.public_id]) == ("Feed the cat", "Plants", "Mine")
    assert call("update_job", job_id=labelled, label="Cat")["name"] == "Cat"


def test_update_job_can_change_the_trigger_type(call, owner, noon):
    job = JobFactory(owner=owner)

    every = call("update_job", job_id=job.public_id, trigger_type="interval", trigger_config={"hours": 6})
    once = call(
        "update_job", job_id=job.public_id, trigger_type="once", trigger_config={"run_at": "tomorrow at 9am"}
    )

    assert every["description"] == "Every 6 hours"
    assert once["next_runs"] == ["2026-02-05T09:00:00+00:00"]
    job.refresh_from_db()
    assert (job.every, job.anchor_at, job.cron) == (None, None, "")


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


def test_pause_can_be_changed_to_end_later_earlier_or_never(call, owner, noon):
    job = JobFactory(owner=owner)
    call("pause_job", job_id=job.public_id, until="tomorrow at 9am", reason="holiday")

    later = call("pause_job", job_id=job.public_id, until="in 2 days")
    earlier = call("pause_job", job_id=job.public_id, until="in 2 hours", reason="moving")
    endless = call("pause_job", job_id=job.public_id)

    assert later["paused_until"] == "2026-02-06T11:00:00+00:00"
    assert earlier["paused_until"] == "2026-02-04T13:00:00+00:00"
    assert (endless["paused_until"], endless["next_runs"]) == (None, [])
    job.refresh_from_db()
    assert (job.status, job.pause_reason, job.paused_until) == ("paused", "moving", None)
    last = Event.objects.filter(job=job).first()
    assert (last.verb, last.before["until"], last.after["until"]) == (
        "pause",
        "2026-02-04T13:00:00+00:00",
        None,
    )


def test_pausing_a_schedule_removes_the_end_of_its_pause(call, owner, noon):
    job = JobFactory(owner=owner, task="notify")
    call("pause_job", job_id=job.public_id, until="tomorrow at 9am")

    call("pause_schedule", schedule_id=job.public_id)

    job.refresh_from_db()
    assert job.paused_until is None


def test_repeated_pause_changes_nothing(call, owner, noon):
    job = JobFactory(owner=owner)

    for _ in range(2):
        call("pause_job", job_id=job.public_id, until="tomorrow at 9am", reason="holiday")

    assert Event.objects.filter(job=job, verb="pause").count() == 1


def test_moment_beyond_the_horizon_is_refused_as_such(call, owner, noon):
    job = JobFactory(owner=owner)

    answer = call("pause_job", job_id=job.public_id, until="2199-01-01T00:00:00Z")

    assert answer["error"] == "Invalid until: that is too far ahead: the limit is five years"


def test_pause_refuses_an_invalid_or_past_moment(call, owner, noon):
    job = JobFactory(owner=owner)

    assert call("pause_job", job_id=job.public_id, until="whenever")["error"].startswith("Invalid until: ")
    past = call("pause_job", job_id=job.public_id, until="2026-02-04 09:00")
    assert past["error"] == "Invalid until: choose a time in the future (now 2026-02-04 11:00:00 UTC)"


def test_error_about_a_past_time_uses_the_zone_of_the_job(call, owner, noon):
    job = JobFactory(owner=owner, timezone="Asia/Tokyo")
    past = {"trigger_type": "once", "trigger_config": {"run_at": "2026-02-04T09:00"}}

    answer = call("update_job", job_id=job.public_id, **past)

    now = "2026-02-04 20:00:00 Asia/Tokyo"
    assert answer["error"] == f"Invalid trigger_config: that time is in the past (now {now})"


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


def test_update_during_a_run_shows_the_job_as_running(olga, owner):
    job = JobFactory(owner=owner)
    ExecutionFactory(job=job, status="running", attempt=1)

    changed = olga.call("update_job", job_id=job.public_id, name="Other")

    assert changed["status"] == olga.call("job_status", job_id=job.public_id)["status"] == "running"


def test_job_with_a_queued_run_is_pending_until_the_run_starts(olga, owner):
    job = JobFactory(owner=owner)
    olga.call("run_job", job_id=job.public_id)

    assert olga.call("job_status", job_id=job.public_id)["status"] == "pending"
    assert [found["job_id"] for found in olga.call("list_jobs", status="pending")["jobs"]] == [job.public_id]
    Execution.objects.update(status="running", attempt=1, started_at=clock.now())
    assert olga.call("job_status", job_id=job.public_id)["status"] == "running"


def test_answers_to_changes_contain_warnings(olga, owner):
    job = JobFactory(owner=owner, timezone="Europe/Berlin")

    changed = olga.call("update_job", job_id=job.public_id, **cron("30 2 * * *"))
    olga.call("pause_job", job_id=job.public_id)
    resumed = olga.call("resume_job", job_id=job.public_id)

    for answer in (changed, resumed):
        assert "clocks in Europe/Berlin go forward: 02:30 is skipped" in answer["warning"]
        assert "No worker is running" in answer["warning"]


@pytest.mark.parametrize("schedule", [cron("0 9 * * *"), cron("61 9 * * *")], ids=["good", "bad"])
def test_system_task_is_unknown_to_agents(call, schedule):
    answer = call("schedule_job", name="x", task="prune_history", kwargs={"days": 1}, **schedule)

    assert answer["error"] == "Unknown task: prune_history"


def test_empty_zone_is_unknown(call, owner):
    job = JobFactory(owner=owner, timezone="Asia/Tokyo")

    for more_changes in ({}, cron("0 9 * * *")):
        answer = call("update_job", job_id=job.public_id, timezone="", **more_changes)
        assert answer["error"] == "Unknown timezone: "


def test_explicit_default_arguments_are_the_same_request(call):
    request = {"name": "x", "task": "tests.ping", **cron("0 9 * * *"), "idempotency_key": "k"}
    first = call("schedule_job", **request)

    assert call("schedule_job", **request, args=[], kwargs={})["job_id"] == first["job_id"]


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


def test_restored_job_whose_time_has_passed_is_paused(call, owner):
    with time_machine.travel("2026-02-04T11:00:00+00:00", tick=False):
        job = JobFactory(owner=owner, once=True)
        call("cancel_job", job_id=job.public_id)
    with time_machine.travel("2026-02-06T11:00:00+00:00", tick=False):
        assert call("restore_job", job_id=job.public_id)["status"] == "paused"


def test_foreign_job_is_not_restored(call, stranger):
    foreign = JobFactory(owner=stranger, deleted_at=clock.now())

    for job_id in (foreign.public_id, f"#{foreign.pk}"):
        assert call("restore_job", job_id=job_id) == {"error": f"Job not found: {job_id}"}


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


def test_undo_of_one_run_keeps_the_other_skips(call, owner, noon):
    # With a part of a second, which no answer shows.
    first = clock.now() + timedelta(minutes=5, seconds=0.25)
    hourly = {"interval": True, "every": timedelta(hours=1), "next_run_at": first}
    job = JobFactory(owner=owner, timezone=profile_of(owner).zone, **hourly)
    call("skip_runs", job_id=job.public_id, dates=["2026-12-24"])
    runs = call("job_status", job_id=job.public_id)["next_runs"]

    skipped = call("skip_runs", job_id=job.public_id, dates=[runs[1], runs[2]])

    assert skipped["next_runs"][:2] == [runs[0], runs[3]]
    undone = call("skip_runs", job_id=job.public_id, dates=[runs[1]], undo=True)
    assert undone["next_runs"][:3] == [runs[0], runs[1], runs[3]]
    assert len(undone["skips"]) == 2


def test_moment_at_which_a_job_does_not_run_cannot_be_skipped(call, owner, noon):
    job = JobFactory(owner=owner, cron="0 9 * * *", next_run_at=clock.now() + timedelta(hours=22))

    refused = call("skip_runs", job_id=job.public_id, dates=["2026-02-05T09:30:00Z"])

    assert refused["error"] == "Invalid dates: the job does not run at 2026-02-05T09:30:00+00:00"
    assert Job.objects.get(pk=job.pk).skips == ""


def test_skips_of_a_wrong_date_or_a_single_run_are_refused(call, owner, noon):
    daily, once = JobFactory(owner=owner), JobFactory(owner=owner, once=True)

    assert call("skip_runs", job_id=daily.public_id, dates=["someday"])["error"].startswith("Invalid dates: ")
    assert call("skip_runs", job_id=once.public_id)["error"].startswith("Job runs only once: ")


@pytest.mark.parametrize(
    ("until", "end"), [("monday", "2026-02-09T00:00:00+00:00"), ("2026-11-23", "2026-11-23T00:00:00+00:00")]
)
def test_pause_until_a_day_ends_at_its_start(call, owner, noon, until, end):
    job = JobFactory(owner=owner)

    assert call("pause_job", job_id=job.public_id, until=until)["paused_until"] == end


def test_job_that_runs_only_once_leaves_nothing_out(call, owner):
    job = JobFactory(owner=owner, cron="0 18 * * *")
    call("skip_runs", job_id=job.public_id, dates=["tomorrow"])

    changed = call("update_job", job_id=job.public_id, trigger_config={"run_at": "tomorrow at 20:00"})

    job.refresh_from_db()
    assert (job.skips, len(changed["next_runs"])) == ("", 1)


def test_another_interval_keeps_the_time_of_day(call, owner):
    made = call(
        "schedule_job",
        name="Bins",
        task="tests.ping",
        trigger_type="interval",
        trigger_config={"weeks": 2, "start": "2026-02-06T09:00"},
        timezone="Europe/Berlin",
    )

    weekly = call("update_job", job_id=made["job_id"], trigger_config={"weeks": 1})
    moved = call("update_job", job_id=made["job_id"], trigger_config={"start": "2026-02-07T10:00"})

    assert weekly["description"].startswith("Every week on Friday at 09:00")
    assert moved["description"].startswith("Every week on Saturday at 10:00")


def test_restored_job_whose_time_has_passed_says_that_it_is_paused(call, owner):
    job = JobFactory(owner=owner, once=True, run_at=clock.now() + timedelta(hours=1))
    call("cancel_job", job_id=job.public_id)
    Job.objects.update(run_at=clock.now() - timedelta(hours=1))

    restored = call("restore_job", job_id=job.public_id)
    changed = call("update_job", job_id=job.public_id, trigger_config={"run_at": "in 2 hours"})

    assert "call resume_job" in restored["warning"]
    assert "call resume_job" in changed["warning"]
    assert "resume_job" not in call("resume_job", job_id=job.public_id).get("warning", "")


def test_restoration_by_name_says_what_is_the_matter(call, owner):
    job = JobFactory(owner=owner, name="Gym")

    assert call("restore_job", job_id="Gym") == {"error": f"Job already pending: {job.public_id}"}


def test_skipped_run_is_shown_in_the_zone_of_the_job(call, owner):
    job = JobFactory(owner=owner, cron="0 0 * * *", timezone="Asia/Tokyo")
    Job.objects.update(next_run_at=job.trigger.next_after(clock.now()))

    [skipped] = call("skip_runs", job_id=job.public_id)["skips"]

    assert skipped.endswith("T00:00:00+09:00")
    assert call("job_status", job_id=job.public_id)["skips"] == [skipped]


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
