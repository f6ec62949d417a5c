"""The acceptance scenarios of the three source documents, one test each, by the official client.

Each runs over stdio in a separate process. One for every kind of answer also runs over HTTP against the app of the web
process and in the legacy protocol era; with MCP_MATRIX=full, in `make conformance`, every one does.
"""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from schedules import clock
from schedules.services import issue_token
from tests.mcp.agents import IS_FULL, ToolRefusalError
from tests.mcp.over_http import OverHttp
from tests.mcp.over_stdio import OverStdio

WAYS = ["stdio modern", "stdio legacy", "http modern", "http legacy"]

every_way = pytest.mark.parametrize("assistant", WAYS, indirect=True)


@pytest.fixture(params=WAYS if IS_FULL else WAYS[:1])
def assistant(
    request: pytest.FixtureRequest, owner: User, conversations: Callable[[str], OverStdio]
) -> OverStdio | OverHttp:
    """An agent connected to Cronty over stdio or HTTP."""
    transport, era = request.param.split()
    if transport == "stdio":
        return conversations(era)
    return OverHttp(era, issue_token(owner, name="laptop").value.text)


def a_cron_schedule(assistant) -> str:
    made = assistant.call(
        "schedule_cron_notification",
        message="Stand up",
        notification_topic="cronty-eval-test",
        cron="0 0 * * *",
        timezone="UTC",
    )
    return made["schedule_id"]


def a_prompt(assistant, at="tomorrow at 9am") -> int:
    return int(assistant.call("schedule", at=at, prompt="Scenario").split("#")[1].split()[0])


# User story CRONTY-8: delete a schedule


@every_way
def test_delete_existing_schedule(assistant):
    schedule_id = a_cron_schedule(assistant)

    answer = assistant.call("delete_schedule", schedule_id=schedule_id)

    assert answer == {
        "success": True,
        "schedule_id": schedule_id,
        "confirmation": f"Schedule {schedule_id} deleted successfully",
        "undo": f'restore_job(job_id="{schedule_id}")',
    }
    listed = assistant.call("list_scheduled_notifications")["schedules"]
    assert schedule_id not in [item["schedule_id"] for item in listed]


def test_delete_non_existent_schedule(assistant):
    assert assistant.call("delete_schedule", schedule_id="scd_nonexistent") == {
        "success": False,
        "schedule_id": "scd_nonexistent",
        "error": "Schedule not found: scd_nonexistent. It may have already been deleted or the ID is incorrect.",
    }


def test_delete_with_invalid_id_format(assistant):
    answer = assistant.call("delete_schedule", schedule_id="invalid-id-123")

    assert answer["success"] is False
    assert answer["error"].startswith("Schedule not found: invalid-id-123.")


@every_way
def test_missing_schedule_id_parameter(assistant):
    with pytest.raises(ToolRefusalError, match="schedule_id: Field required"):
        assistant.call("delete_schedule")


def test_delete_returns_not_found_on_subsequent_calls(assistant):
    schedule_id = a_cron_schedule(assistant)

    first, second = (assistant.call("delete_schedule", schedule_id=schedule_id)["success"] for _ in range(2))

    assert (first, second) == (True, False)


# Schedule CRUD design


def test_schedule_list_has_one_line_per_task(assistant):
    number = a_prompt(assistant)

    lines = assistant.call("schedule_list").splitlines()

    assert any(line.startswith(f"#{number}  ") and line.endswith("  [pending]  Scenario") for line in lines)


def test_schedule_list_without_a_match_says_so(assistant):
    assert assistant.call("schedule_list", status="failed") == "No scheduled tasks found matching filters."


@every_way
def test_schedule_edit_happy_path(assistant):
    number = a_prompt(assistant)

    answer = assistant.call("schedule_edit", id=number, prompt="Edited")

    assert answer == f'Updated task #{number}: prompt → "Edited"'


def test_schedule_edit_not_editable(assistant):
    number = a_prompt(assistant)
    assistant.call("schedule_cancel", id=number)

    answer = assistant.call("schedule_edit", id=number, prompt="Edited")

    assert answer == f"Task #{number} not found or not editable (only pending tasks can be edited)."


def test_schedule_cancel_happy_path(assistant):
    number = a_prompt(assistant)

    assert assistant.call("schedule_cancel", id=number) == f"Cancelled task #{number}."


def test_schedule_cancel_not_editable(assistant):
    number = a_prompt(assistant)
    assistant.call("schedule_cancel", id=number)

    answer = assistant.call("schedule_cancel", id=number)

    assert answer == f"Task #{number} not found or not editable (only pending tasks can be cancelled)."


def test_date_parsing_errors(assistant):
    number = a_prompt(assistant)

    assert assistant.call("schedule_edit", id=number, at="gibberish") == (
        'Error: could not parse "gibberish" as a date/time.'
    )
    assert assistant.call("schedule_list", **{"from": "gibberish"}) == (
        'Error: could not parse "gibberish" as a date.'
    )


# Scheduler: MCP tool specification


@every_way
def test_schedule_job_usage_example(assistant):
    answer = assistant.call(
        "schedule_job",
        name="hourly_cleanup",
        task="webhook",
        kwargs={"url": "https://example.org/cleanup"},
        trigger_type="interval",
        trigger_config={"hours": 1},
        max_runs=24,
    )

    assert (answer["name"], answer["status"]) == ("hourly_cleanup", "pending")
    assert assistant.call("job_status", job_id=answer["job_id"])["max_runs"] == 24


def test_schedule_job_once_with_an_iso_time(assistant):
    run_at = f"{clock.now() + timedelta(days=3):%Y-%m-%d}T15:00:00"

    answer = assistant.call(
        "schedule_job",
        name="once",
        task="webhook",
        kwargs={"url": "https://example.org"},
        trigger_type="once",
        trigger_config={"run_at": run_at},
        timezone="UTC",
    )

    assert answer["next_run"] == f"{run_at}+00:00"


def test_schedule_job_of_an_unknown_task(assistant):
    answer = assistant.call(
        "schedule_job", name="x", task="rm_rf", trigger_type="interval", trigger_config={"hours": 1}
    )

    assert answer["error"] == "Unknown task: rm_rf"


def test_schedule_job_with_a_malformed_cron_expression(assistant):
    answer = assistant.call(
        "schedule_job",
        name="x",
        task="webhook",
        kwargs={"url": "https://example.org"},
        trigger_type="cron",
        trigger_config={"expression": "every tuesday"},
    )

    assert answer["error"] == "Invalid cron expression: every tuesday"


def test_list_jobs_usage_example(assistant):
    assert assistant.call("list_jobs", status="failed") == {"jobs": [], "total": 0}


@every_way
def test_list_jobs_with_an_invalid_status(assistant):
    assert assistant.call("list_jobs", status="broken")["error"] == "Unknown status: broken"


def test_cancel_job_twice(assistant):
    job_id = a_cron_schedule(assistant)

    for _ in range(2):
        assert assistant.call("cancel_job", job_id=job_id) == {"cancelled": True, "job_id": job_id}


def test_cancel_job_that_does_not_exist(assistant):
    assert assistant.call("cancel_job", job_id="job_1_1738764000")["cancelled"] is False


def test_job_status_of_an_unknown_id(assistant):
    assert assistant.call("job_status", job_id="job_1_1738764000") == {
        "error": "Job not found: job_1_1738764000"
    }


def test_job_status_has_every_specified_field(assistant):
    answer = assistant.call("job_status", job_id=a_cron_schedule(assistant))

    assert answer.keys() >= {
        "job_id",
        "name",
        "status",
        "trigger_type",
        "created_at",
        "last_run",
        "next_run",
        "run_count",
        "max_runs",
        "error",
    }
