"""The prompt family: answers as sentences, and the inbox."""

from datetime import timedelta

import pytest
import time_machine

from schedules import clock
from schedules.models import Job, Profile
from tests.factories import ExecutionFactory, JobFactory

NOON = "2026-02-04T11:00:00+00:00"
EMPTY = "No scheduled tasks found matching filters."


@pytest.fixture(autouse=True)
def noon():
    """Wednesday, 4 February 2026, 12:00 in Berlin, where Olga lives."""
    with time_machine.travel(NOON, tick=False):
        yield


@pytest.fixture(autouse=True)
def asking_agent(owner):
    """An agent asks for prompts at regular intervals."""
    Profile.objects.filter(user=owner).update(prompts_asked_at=clock.now())


def prompt_job(owner, number=1, **fields):
    return JobFactory(
        owner=owner,
        once=True,
        task="prompt",
        timezone="Europe/Berlin",
        kwargs={"prompt": f"Prompt {number}"},
        run_at=clock.now() + timedelta(hours=number),
        **fields,
    )


def waiting(owner, text="Look at the build"):
    job = JobFactory(
        owner=owner, once=True, status="running", next_run_at=None, task="prompt", kwargs={"prompt": text}
    )
    return ExecutionFactory(job=job, status="waiting")


@pytest.mark.parametrize(
    ("at", "local"),
    [
        ("2026-02-04 3:00 PM", "Wed 2026-02-04 15:00 Europe/Berlin"),
        ("2026-02-05T09:30", "Thu 2026-02-05 09:30 Europe/Berlin"),
        ("2026-02-05T09:30:15Z", "Thu 2026-02-05 10:30:15 Europe/Berlin"),
        ("tomorrow at 9am", "Thu 2026-02-05 09:00 Europe/Berlin"),
        ("in 20 minutes", "Wed 2026-02-04 12:20 Europe/Berlin"),
    ],
)
def test_schedule_confirms_number_time_and_prompt(olga, cluster, at, local):
    answer = olga.call("schedule", at=at, prompt="Check the oven")

    job = Job.objects.get()
    assert answer == f'Scheduled task #{job.pk} for {local}: "Check the oven"'
    assert (job.task, job.kwargs) == ("prompt", {"prompt": "Check the oven"})
    assert job.public_id.startswith("tsk_")


@pytest.mark.parametrize("offset", ["+02:00", "+01:00"])
def test_repeated_local_time_is_shown_with_its_offset(call, offset):
    answer = call("schedule", at=f"2026-10-25T02:30{offset}", prompt="x")

    assert f" for Sun 2026-10-25 02:30{offset} Europe/Berlin: " in answer


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"at": "whenever"}, 'Error: could not parse "whenever" as a date/time.'),
        ({"at": ""}, 'Error: could not parse "" as a date/time.'),
        ({"at": "2026-02-30 10:00"}, 'Error: could not parse "2026-02-30 10:00" as a date/time.'),
        (
            {"at": "2026-02-04 11:00"},
            'Error: "2026-02-04 11:00" is in the past (now Wed 2026-02-04 12:00 Europe/Berlin).',
        ),
        (
            {"timezone": "Mars"},
            "Error: unknown timezone \"Mars\".\nhint: unknown time zone 'Mars'. Enter a city or a name like Europe/Berlin",
        ),
        ({"prompt": ""}, "Error: invalid prompt: "),
        ({"prompt": "x" * 17_000}, "Error: invalid prompt: "),
        ({"idempotency_key": "\x00"}, "Error: idempotency_key: "),
    ],
)
def test_schedule_refuses_invalid_input_in_the_words_of_the_contract(call, arguments, answer):
    assert call("schedule", **{"at": "in 1 hour", "prompt": "x", **arguments}).startswith(answer)
    assert not Job.objects.exists()


def test_same_key_and_relative_time_return_the_existing_task_later(call):
    first = call("schedule", at="in 20 minutes", prompt="x", idempotency_key="k")
    with time_machine.travel("2026-02-04T11:05:00+00:00", tick=False):
        again = call("schedule", at="in 20 minutes", prompt="x", idempotency_key="k")
    other = call("schedule", at="in 30 minutes", prompt="x", idempotency_key="k")

    assert again.startswith(first + "\nexisting: true")
    assert "was used for another request" in other
    assert Job.objects.count() == 1


def test_warnings_are_on_a_separate_line(olga):
    olga.call("schedule", at="2026-02-05 09:00", prompt="x")

    lines = olga.call("schedule", at="2026-02-05 09:00", prompt="x").splitlines()

    assert lines[1].startswith("warning: An active job does the same")
    assert "No worker is running" in lines[1]


def test_quota_error_is_a_sentence(call, settings):
    settings.CRONTY_MAX_ACTIVE_JOBS = 1
    call("schedule", at="in 1 hour", prompt="x")

    assert call("schedule", at="in 1 hour", prompt="x").startswith(
        "Error: quota exceeded: at most 1 active jobs"
    )


def test_schedule_list_shows_one_line_per_task_ordered_by_next_run(olga, owner, stranger):
    second, first = prompt_job(owner, 2), prompt_job(owner, 1)
    prompt_job(owner, 3, status="cancelled", next_run_at=None)
    prompt_job(stranger)
    JobFactory(owner=owner)

    assert olga.call("schedule_list") == (
        f"#{first.pk}  Wed 2026-02-04 13:00 Europe/Berlin  [pending]  Prompt 1\n"
        f"#{second.pk}  Wed 2026-02-04 14:00 Europe/Berlin  [pending]  Prompt 2"
    )
    assert "[cancelled]  Prompt 3" in olga.call("schedule_list", status="cancelled")
    assert olga.call("schedule_list", status=None).count("\n") == 1


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"from": "2026-02-04"}, ["Prompt 1", "Prompt 30"]),
        ({"from": "2026-02-05"}, ["Prompt 30"]),
        ({"to": "2026-02-04"}, ["Prompt 1"]),
        ({"to": "2026-02-05"}, ["Prompt 1", "Prompt 30"]),
        ({"from": "2026-02-04T13:30", "to": "tomorrow at 20:00"}, ["Prompt 30"]),
        ({"from": "2026-02-05", "to": "2026-02-05", "status": "pending"}, ["Prompt 30"]),
        ({"from": "2026-03-01"}, []),
        ({"status": "failed", "from": "2026-02-04"}, []),
    ],
)
def test_schedule_list_filters_by_date_and_status(call, owner, filters, found):
    prompt_job(owner, 1)
    prompt_job(owner, 30)

    answer = call("schedule_list", **filters)

    assert [line.split("  ")[-1] for line in answer.splitlines()] == (found or [EMPTY])


def test_schedule_list_names_invalid_arguments(call):
    assert call("schedule_list") == EMPTY
    assert call("schedule_list", status="done") == 'Error: unknown status "done".'
    assert call("schedule_list", **{"from": "soon"}) == 'Error: could not parse "soon" as a date.'
    assert call("schedule_list", to="32.13.2026") == 'Error: could not parse "32.13.2026" as a date.'


def test_long_list_says_how_much_is_left_out(call, owner):
    for number in range(1, 104):
        prompt_job(owner, number)

    assert call("schedule_list").splitlines()[-1] == "… and 3 more: narrow the list with from and to."


def test_prompt_in_the_list_is_one_line_of_60_characters(call, owner):
    job = prompt_job(owner)
    Job.objects.filter(pk=job.pk).update(kwargs={"prompt": "a\nb\u202e" + "c" * 100})

    assert call("schedule_list").endswith("  a b" + "c" * 56 + "…")


def test_schedule_edit_changes_time_and_prompt(olga, owner):
    job = prompt_job(owner)

    assert olga.call("schedule_edit", id=job.pk, at="2026-02-06 08:00", prompt="New words") == (
        f'Updated task #{job.pk}: time → Fri 2026-02-06 08:00 Europe/Berlin, prompt → "New words"'
    )
    assert (
        olga.call("schedule_edit", id=job.pk, prompt="Newer") == f'Updated task #{job.pk}: prompt → "Newer"'
    )
    job.refresh_from_db()
    assert (job.kwargs, f"{job.run_at:%d %H:%M}") == ({"prompt": "Newer"}, "06 07:00")
    assert job.next_run_at == job.run_at


def test_schedule_edit_explains_invalid_arguments(call, owner):
    job = prompt_job(owner)

    assert call("schedule_edit", id=job.pk) == "Error: provide at least one of 'at' or 'prompt' to edit."
    assert call("schedule_edit", id=job.pk, at="huh") == 'Error: could not parse "huh" as a date/time.'
    assert call("schedule_edit", id=job.pk, at="2026-02-04 09:00").startswith(
        'Error: "2026-02-04 09:00" is in the past (now '
    )
    assert call("schedule_edit", id=job.pk, prompt="").startswith("Error: invalid prompt: ")


def test_schedule_edit_does_not_change_the_time_of_a_recurring_prompt(call, owner):
    job = JobFactory(owner=owner, task="prompt", kwargs={"prompt": "x"})

    assert "use update_job" in call("schedule_edit", id=job.pk, at="in 1 hour")
    assert call("schedule_edit", id=job.pk, prompt="y").startswith("Updated task")


@pytest.mark.parametrize("status", ["running", "paused", "completed", "failed", "cancelled"])
def test_only_pending_tasks_can_be_edited_or_cancelled(call, owner, status):
    job = prompt_job(owner, status=status, next_run_at=None)

    assert call("schedule_edit", id=job.pk, prompt="x") == (
        f"Task #{job.pk} not found or not editable (only pending tasks can be edited)."
    )
    assert call("schedule_cancel", id=job.pk) == (
        f"Task #{job.pk} not found or not editable (only pending tasks can be cancelled)."
    )
    job.refresh_from_db()
    assert (job.status, job.kwargs["prompt"]) == (status, "Prompt 1")


def test_foreign_unknown_and_other_jobs_are_not_found(call, owner, stranger):
    others = [prompt_job(stranger).pk, JobFactory(owner=owner).pk, 10**12, -1, 10**30]

    for number in others:
        assert call("schedule_cancel", id=number).startswith(f"Task #{number} not found or not editable")
        assert call("schedule_edit", id=number, prompt="x").startswith(f"Task #{number} not found")


def test_schedule_cancel_ends_a_pending_task_once(olga, owner):
    job = prompt_job(owner)

    assert olga.call("schedule_cancel", id=job.pk) == f"Cancelled task #{job.pk}."
    assert "not found or not editable" in olga.call("schedule_cancel", id=job.pk)
    job.refresh_from_db()
    assert job.status == "cancelled"


def test_waiting_prompt_is_claimed_and_completed(olga, owner):
    row = waiting(owner)

    claimed = olga.call("claim_prompts", limit=5, lease_minutes=30)

    assert claimed == {
        "prompts": [
            {
                "execution_id": row.pk,
                "job_id": row.job.public_id,
                "prompt": "Look at the build",
                "scheduled_for": "2026-02-04T12:00:00+01:00",
                "lease_until": "2026-02-04T12:30:00+01:00",
            }
        ]
    }
    assert olga.call("claim_prompts") == {"prompts": []}
    assert olga.call("complete_prompt", execution_id=row.pk, result={"build": "green"}) == {
        "completed": True,
        "execution_id": row.pk,
        "status": "succeeded",
    }
    row.refresh_from_db()
    assert (row.status, row.result) == ("succeeded", {"build": "green"})


@pytest.mark.parametrize(
    "arguments",
    [
        {"limit": 0},
        {"limit": 21},
        {"limit": -1},
        {"lease_minutes": 0},
        {"lease_minutes": 1e300},
        {"lease_minutes": -5},
    ],
)
def test_claim_prompts_names_the_argument_out_of_range(call, arguments):
    answer = call("claim_prompts", **arguments)

    assert answer["prompts"] == []
    assert answer["error"].startswith(next(iter(arguments)))


def test_completing_an_unknown_prompt_gives_a_normal_answer(call, owner, stranger):
    foreign = waiting(stranger)

    for number in (foreign.pk, 10**12, -1, 10**30):
        answer = call("complete_prompt", execution_id=number, result="x")
        assert answer == {
            "completed": False,
            "execution_id": number,
            "error": f"Prompt not found: {number}. Take the execution_id from claim_prompts.",
        }
    mine = waiting(owner)
    call("claim_prompts")
    assert "result" in call("complete_prompt", execution_id=mine.pk, result="x" * 20_000)["error"]


@pytest.mark.parametrize(
    ("at", "hint"),
    [
        ("tomorrow at 3", "morning or evening? Write 3am or 3pm"),
        ("2026-03-29 02:30", "clocks in Europe/Berlin skip 02:30 on 2026-03-29"),
    ],
)
def test_ambiguous_or_skipped_time_is_refused_with_a_hint(call, at, hint):
    first, second = call("schedule", at=at, prompt="x").splitlines()

    assert first == f'Error: could not parse "{at}" as a date/time.'
    assert second.startswith(f"hint: {hint}")


def test_time_beyond_the_horizon_is_refused_as_such(call):
    assert call("schedule", at="2199-01-01T00:00:00Z", prompt="x") == (
        'Error: "2199-01-01T00:00:00Z" is too far ahead: at most five years ahead.'
    )


@pytest.mark.parametrize("asked", [None, timedelta(days=8)])
def test_prompt_warns_if_no_agent_has_asked_for_prompts_lately(call, owner, asked):
    Profile.objects.filter(user=owner).update(prompts_asked_at=asked and clock.now() - asked)
    job = {"name": "Inbox", "task": "prompt", "kwargs": {"prompt": "Read my inbox"}}

    once = call("schedule", at="tomorrow at 9", prompt="Look")
    repeated = call("schedule_job", **job, trigger_type="cron", trigger_config={"expression": "0 8 * * *"})

    assert "\nwarning: No agent has asked for prompts in the last week" in once
    assert "call claim_prompts at regular intervals" in repeated["warning"]
    call("claim_prompts")
    assert "warning" not in call("schedule", at="tomorrow at 10", prompt="Look again")
