"""Many jobs at once: bulk changes and files are confirmed as they were shown, and undone."""

from datetime import datetime

import pytest

from schedules.models import Job
from tests.api.conftest import Program
from tests.api.test_jobs import fields, problem
from tests.factories import ExecutionFactory, JobFactory

FILE = """
jobs:
  stand-up:
    schedule: every weekday at 8:30
    task: notify
    arguments: {message: Stand up, topic: phone}
"""


def test_bulk_change_is_shown_first_and_done_as_it_was_shown(owner, program: Program):
    home = JobFactory.create_batch(2, owner=owner, tags=["home"])
    JobFactory(owner=owner)
    asked = {"action": "pause", "tag": "home", "until": "in 3 days", "reason": "holidays"}

    shown = program.ok("POST", "/bulk", asked)
    assert (shown["is_done"], shown["count"]) == (False, 2)
    assert not Job.objects.filter(status="paused").exists()
    done = program.ok("POST", "/bulk", asked | {"confirm": shown["confirm"]})

    assert (done["is_done"], done["count"]) == (True, 2)
    assert set(Job.objects.filter(status="paused")) == set(home)
    assert len(program.ok("POST", "/undo", {"change": done["undo"]})["jobs"]) == 2
    assert not Job.objects.filter(status="paused").exists()


@pytest.mark.parametrize(("filters", "together"), [({}, 1), ({"tag": "home"}, 0)])
def test_pause_without_a_filter_is_a_pause_of_everything(owner, program: Program, filters, together):
    JobFactory(owner=owner, tags=["home"])
    held = JobFactory(owner=owner, once=True, status="running", next_run_at=None)
    ExecutionFactory(job=held, status="queued", finished_at=None)
    asked = {"action": "pause", **filters}

    answer = program.ok("POST", "/bulk", asked | {"confirm": program.ok("POST", "/bulk", asked)["confirm"]})

    assert answer["note"].startswith("Not paused: 1 job") is bool(together)
    assert Job.objects.filter(status="paused").count() == 1
    assert Job.objects.filter(pause_reason="Everything was paused.").count() == together


def test_confirmation_is_refused_once_a_job_has_changed(owner, program: Program):
    job = JobFactory(owner=owner)
    shown = program.ok("POST", "/bulk", {"action": "cancel"})
    program.ok("PATCH", f"/jobs/{job.pk}", {"name": "New"}, **{"If-Match": "*"})

    answer = program.call("POST", "/bulk", {"action": "cancel", "confirm": shown["confirm"]})

    assert problem(answer)["code"] == "confirmation_outdated"
    assert Job.objects.get().status == "pending"


def test_end_is_refused_for_what_has_none(program: Program):
    assert fields(program.call("POST", "/bulk", {"action": "cancel", "until": "monday"})) == ["until"]


@pytest.mark.parametrize(
    ("asked", "column", "value", "change"),
    [
        ({"shift": "30m"}, "cron", "0 9 * * *", "Every day at 08:30 → 09:00"),
        ({"time": "7:15", "at_time": "8:30"}, "cron", "15 7 * * *", "07:15"),
        ({"timezone": "Lisbon", "in_timezone": "Berlin"}, "timezone", "Europe/Lisbon", "Europe/Lisbon"),
        ({"add_tags": ["new"], "remove_tags": ["home"]}, "tags", ["new"], "new"),
        ({"topic": "family"}, "kwargs", {"message": "Tea", "topic": "family"}, "family"),
    ],
    ids=["shift", "time", "timezone", "tags", "topic"],
)
def test_update_is_shown_first_and_undone_as_one(owner, program: Program, asked, column, value, change):
    job = JobFactory(
        owner=owner,
        task="notify",
        kwargs={"message": "Tea", "topic": "home"},
        cron="30 8 * * *",
        timezone="Europe/Berlin",
        tags=["home"],
    )
    before = getattr(job, column)
    request = {"action": "update", "query": "tea", **asked}

    shown = program.ok("POST", "/bulk", request)
    job.refresh_from_db()
    assert (shown["is_done"], shown["count"], getattr(job, column)) == (False, 1, before)
    assert change in shown["jobs"][0]["change"]
    done = program.ok("POST", "/bulk", request | {"confirm": shown["confirm"]})
    job.refresh_from_db()
    assert (done["is_done"], done["count"], getattr(job, column)) == (True, 1, value)
    program.ok("POST", "/undo", {"change": done["undo"]})
    job.refresh_from_db()
    assert getattr(job, column) == before


def test_update_names_the_jobs_that_stay_as_they_are(owner, program: Program):
    job = JobFactory(owner=owner, name="Often", cron="*/5 * * * *")

    shown = program.ok("POST", "/bulk", {"action": "update", "time": "9:00"})

    assert (shown["count"], shown["confirm"]) == (0, None)
    assert [(each["id"], each["name"]) for each in shown["unmoved"]] == [(job.public_id, "Often")]
    assert "no single time of day" in shown["unmoved"][0]["why"]


def test_update_from_a_day_on_is_made_by_a_job(owner, program: Program):
    job = JobFactory(owner=owner, name="Tea", cron="30 8 * * *")
    request = {"action": "update", "shift": "1h", "starting": "in 3 days"}

    shown = program.ok("POST", "/bulk", request)
    done = program.ok("POST", "/bulk", request | {"confirm": shown["confirm"]})

    job.refresh_from_db()
    mover = Job.objects.get(public_id=done["updated_by"])
    assert (job.cron, mover.name, mover.task) == ("30 8 * * *", "Move Tea", "move_jobs")
    assert datetime.fromisoformat(done["starting"]) == mover.run_at.replace(microsecond=0)
    assert program.ok("POST", "/undo", {"change": done["undo"]})["jobs"][0]["id"] == mover.public_id


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"action": "update"}, "action"),
        ({"action": "update", "time": "noon"}, "time"),
        ({"action": "update", "time": "9:00", "at_time": "noon"}, "at_time"),
        ({"action": "update", "time": "9:00", "shift": "1h"}, "shift"),
        ({"action": "update", "shift": "a bit"}, "shift"),
        ({"action": "update", "timezone": "Nowhere"}, "timezone"),
        ({"action": "update", "time": "9:00", "in_timezone": "Nowhere"}, "in_timezone"),
        ({"action": "update", "time": "9:00", "starting": "2020-01-01"}, "starting"),
        ({"action": "update", "time": "9:00", "until": "monday"}, "until"),
        ({"action": "pause", "time": "9:00"}, "time"),
    ],
)
def test_update_that_says_too_little_or_too_much_is_refused(owner, program: Program, asked, field):
    JobFactory(owner=owner, cron="30 8 * * *")

    assert fields(program.call("POST", "/bulk", asked)) == [field]


def test_update_of_a_job_that_was_edited_since_is_refused(owner, program: Program):
    job = JobFactory(owner=owner, cron="30 8 * * *")
    request = {"action": "update", "shift": "1h"}
    confirm = program.ok("POST", "/bulk", request)["confirm"]
    program.ok("PATCH", f"/jobs/{job.pk}", {"name": "New"}, **{"If-Match": "*"})

    answer = program.call("POST", "/bulk", request | {"confirm": confirm})

    assert problem(answer)["code"] == "confirmation_outdated"
    assert Job.objects.get().cron == "30 8 * * *"


def test_last_call_is_undone_without_a_number(owner, program: Program):
    job = JobFactory(owner=owner)
    program.ok("POST", f"/jobs/{job.pk}/pause")

    assert program.ok("POST", "/undo")["jobs"] == [{"id": job.public_id, "name": job.name}]
    assert program.call("POST", "/undo").status_code == 422


def test_call_that_cannot_be_undone_is_named(owner, program: Program):
    job = JobFactory(owner=owner)
    program.ok("POST", f"/jobs/{job.pk}/pause")
    program.ok("POST", f"/jobs/{JobFactory(owner=owner).pk}/run")

    assert "number of its change" in problem(program.call("POST", "/undo"))["detail"]
    assert Job.objects.get(pk=job.pk).status == "paused"


def test_file_is_planned_and_then_applied(owner, program: Program):
    asked = {"source": "jobs.yaml", "text": FILE}

    plan = program.ok("POST", "/apply", asked)
    assert ([step["action"] for step in plan["steps"]], plan["applied"]) == (["create"], False)
    assert not Job.objects.exists()
    assert program.ok("POST", "/apply", asked | {"confirm": plan["confirm"]})["applied"]

    assert Job.objects.get().source == "jobs.yaml"
    assert program.ok("POST", "/apply", asked)["steps"] == []
    again = program.call("POST", "/apply", asked | {"confirm": plan["confirm"]})
    assert problem(again)["code"] == "confirmation_outdated"


@pytest.mark.parametrize("text", ["jobs: [", "jobs:\n  a:\n    schedule: sometime\n    task: notify\n"])
def test_file_with_mistakes_is_refused_with_their_places(program: Program, text):
    answer = program.call("POST", "/apply", {"source": "jobs.yaml", "text": text})

    assert answer.status_code == 422
    assert fields(answer)[0].startswith("text:")


def test_prompt_is_claimed_once_and_completed(owner, program: Program, program_with):
    job = JobFactory(
        owner=owner, once=True, task="prompt", kwargs={"prompt": "Read"}, status="running", next_run_at=None
    )
    run = ExecutionFactory(job=job, status="waiting")
    agent = program_with(name="agent", kind="heartbeat")

    [claimed] = agent.ok("POST", "/prompts/claim")["prompts"]
    assert (claimed["run"], claimed["prompt"]) == (run.pk, "Read")
    assert program.ok("POST", "/prompts/claim", {"limit": 20})["prompts"] == []
    assert agent.ok("POST", f"/prompts/{run.pk}/complete", {"result": {"mails": 3}})["status"] == "succeeded"
    assert problem(agent.call("POST", f"/prompts/{run.pk}/complete", {}))["code"] == "prompt_answered"
