"""What agents are told about jobs that wait for a confirmation, by every tool that makes or changes one."""

from dataclasses import replace

import pytest

from schedules.mcp.auth import local_caller, set_local_caller
from schedules.models import Execution, Job
from tests.factories import JobFactory

CRON = {"trigger_type": "cron", "trigger_config": {"expression": "0 12 * * *"}}
PROMPT = {"name": "Check", "task": "prompt", "kwargs": {"prompt": "Check the build"}, **CRON}
ASKED = "It waits for your user's confirmation"


@pytest.fixture
def careful_call(call, agent):
    """Call a tool as Olga's agent, whose jobs wait for a confirmation."""
    caller = local_caller(agent.user, name=agent.name)
    set_local_caller(replace(caller, actor=replace(caller.actor, confirm="always")))
    return call


def only_job() -> Job:
    return Job.objects.get()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("schedule_job", PROMPT),
        ("schedule", {"at": "in 2 hours", "prompt": "Check the build"}),
        (
            "schedule_notification",
            {"message": "Hi", "notification_topic": "phone", "datetime": "tomorrow at 9am"},
        ),
        (
            "schedule_cron_notification",
            {"message": "Hi", "notification_topic": "phone", "cron": "0 9 * * *"},
        ),
    ],
)
def test_new_job_is_paused_and_the_answer_says_who_confirms_it(careful_call, tool, arguments):
    answer = careful_call(tool, **arguments)

    job = only_job()
    assert (job.status, job.proposed_at is not None) == ("paused", True), answer
    text = answer if isinstance(answer, str) else answer["warning"]
    assert ASKED in text
    assert f"/jobs/{job.public_id}/" in text
    if tool == "schedule_job":
        assert (answer["status"], answer["next_run"]) == ("paused", None)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("resume_job", {}),
        ("pause_job", {"until": "tomorrow"}),
        ("run_job", {}),
    ],
)
def test_what_would_run_it_is_refused_with_the_page(careful_call, tool, arguments):
    careful_call("schedule_job", **PROMPT)
    job = only_job()

    answer = careful_call(tool, job_id=job.public_id, **arguments)

    assert "until a person confirms it" in answer["error"]
    assert f"/jobs/{job.public_id}/" in answer["error"]
    assert only_job().status == "paused"
    assert not Execution.objects.exists()


def test_bulk_update_says_that_the_jobs_wait(careful_call, owner):
    JobFactory.create_batch(2, owner=owner, cron="30 8 * * *")
    asked = careful_call("bulk_jobs", action="update", shift="30m")

    done = careful_call("bulk_jobs", action="update", shift="30m", confirm=asked["confirm"])

    assert "2 wait for your user's confirmation" in done["note"]
    assert set(Job.objects.values_list("status", flat=True)) == {"paused"}


@pytest.mark.parametrize(
    ("confirm", "task", "choices"),
    [
        ("always", {"task": "tests.ping", "kwargs": {}}, "never or prompts"),
        ("always", {}, "never"),
        ("prompts", {}, "never"),
    ],
)
def test_answer_names_what_would_need_no_confirmation(careful_call, agent, confirm, task, choices):
    caller = local_caller(agent.user, name=agent.name)
    set_local_caller(replace(caller, actor=replace(caller.actor, confirm=confirm)))

    answers = [
        careful_call("schedule_job", **(PROMPT | task))["warning"],
        careful_call("run_task", **({"task": "prompt", "kwargs": PROMPT["kwargs"]} | task))["error"],
    ]

    words = f'A token with "Ask me to confirm its jobs" set to {choices} needs no confirmation for this.'
    assert all(words in answer for answer in answers), answers


def test_refusal_names_the_permissions_that_a_person_would_have_to_give(call, owner, use_runners):
    use_runners(
        '[notes]\ndescription = "x"\nkind = "claude"\ngrantable = ["Bash"]\nallow = ["everyone", "agents"]\n'
    )
    job = JobFactory(
        owner=owner,
        task="prompt",
        kwargs={"prompt": "Push it.", "runner": "notes"},
        grants=["Bash(git push:*)"],
    )

    answer = call("update_job", job_id=job.public_id, kwargs={"prompt": "Push all.", "runner": "notes"})

    assert "change what it does while it has some (here: Bash(git push:*))." in answer["error"]
