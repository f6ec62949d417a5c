"""Many jobs at once: bulk changes and files are confirmed as they were shown, and undone."""

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


def test_confirmation_is_refused_once_a_job_has_changed(owner, program: Program):
    job = JobFactory(owner=owner)
    shown = program.ok("POST", "/bulk", {"action": "cancel"})
    program.ok("PATCH", f"/jobs/{job.pk}", {"name": "New"}, **{"If-Match": "*"})

    answer = program.call("POST", "/bulk", {"action": "cancel", "confirm": shown["confirm"]})

    assert problem(answer)["code"] == "confirmation_outdated"
    assert Job.objects.get().status == "pending"


def test_end_is_refused_for_what_has_none(program: Program):
    assert fields(program.call("POST", "/bulk", {"action": "cancel", "until": "monday"})) == ["until"]


def test_last_call_is_undone_without_a_number(owner, program: Program):
    job = JobFactory(owner=owner)
    program.ok("POST", f"/jobs/{job.pk}/pause")

    assert program.ok("POST", "/undo")["jobs"] == [{"id": job.public_id, "name": job.name}]
    assert program.call("POST", "/undo").status_code == 422


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
