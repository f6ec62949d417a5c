"""Every error that a tool answers is cured in one step: its advice, taken literally, succeeds."""

import json
import re
from typing import Any, NamedTuple

import pytest

from schedules.mcp.offers import OFFER_BY_NAME
from tests.factories import ExecutionFactory, JobFactory
from tests.mcp.agents import InMemory, ToolRefusalError, answer_of

WEBHOOK = {"name": "Backup 2", "task": "webhook", "kwargs": {"url": "https://example.org/x"}}
CRON = {"trigger_type": "cron", "trigger_config": {"expression": "0 9 * * *"}}
NOTE = {"message": "Hi", "notification_topic": "phone"}
BINS = '"Take out the bins" \\((job_[0-9_]+)\\)'
READS_MOMENTS = '(?:Try|Did you mean) "(.+?)"'


class Error(NamedTuple):
    """A call that is refused, a pattern of its advice, and the arguments that the advice changes.

    {1} stands for the first group of the pattern; {json 1} for the JSON in it.
    """

    tool: str
    wrong: dict[str, Any]
    advice: str
    right: dict[str, Any]
    then: str = ""
    """The tool that the advice names, if it is another one."""
    without: tuple[str, ...] = ()


def error(tool, wrong, advice, right, then="", without=()):
    return Error(tool, wrong, advice, right, then, without)


def job(**wrong):
    return WEBHOOK | CRON | wrong


ERRORS = [
    # Unknown and missing arguments.
    error("schedule_job", job(when="tomorrow"), r'"once" with trigger_config (\{.*?\})', {"trigger_config": "{json 1}", "trigger_type": "once"}, without=["when"]),
    error("list_jobs", {"search": "bins"}, "use (query)", {"{1}": "bins"}, without=["search"]),
    error("schedule_notification", {"message": "Hi", "topic": "phone", "delay": "1h"}, "use (notification_topic)", {"{1}": "phone"}, without=["topic"]),
    error("schedule_notification", {"message": "Hi", "delay": "1h"}, "(notification_topic): Field required", {"{1}": "phone"}),
    # Tasks, triggers and policies.
    error("schedule_job", job(task="webhok"), '"(webhook)"', {"task": "{1}"}),
    error("schedule_job", job(trigger_type="weekly"), r"interval with (\{.*?\})", {"trigger_type": "interval", "trigger_config": "{json 1}"}),
    error("schedule_job", job(trigger_config="tomorrow at 18:30"), r"trigger_type once with (\{.*?\})", {"trigger_type": "once", "trigger_config": "{json 1}"}),
    error("schedule_job", job(trigger_config="every weekday at 9"), 'write "(.+?)"', {"trigger_config": "{1}"}),
    error("schedule_job", job(trigger_type="once", trigger_config={}), r"write (\{.*?\})", {"trigger_config": "{json 1}"}),
    error("schedule_job", job(timezone="Berln"), "Did you mean (.+?)[?]", {"timezone": "{1}"}),
    error("schedule_job", job(backoff="some"), READS_MOMENTS, {"backoff": "{1}"}),
    error("schedule_job", job(overlap="maybe"), "choose one of: (skip)", {"overlap": "{1}"}),
    error("schedule_job", job(idempotency_key="used"), "choose a (new) one", {"idempotency_key": "{1}"}),
    # References.
    error("job_status", {"job_id": "bins"}, f"No exact match. Did you mean {BINS}", {"job_id": "{1}"}),
    error("delete_schedule", {"schedule_id": "the bin"}, f"No exact match. Did you mean {BINS}", {"schedule_id": "{1}"}),
    error("restore_job", {"job_id": "garden"}, r'"Old garden" \((job_[0-9_]+)\), which was deleted', {"job_id": "{1}"}),
    error("job_status", {"job_id": "Twice"}, r"(job_[0-9_]+) \(Every day at 07:00\)", {"job_id": "{1}"}),
    error("schedule_edit", {"id": "reprot", "prompt": "x"}, r'"Write report" \((job_[0-9_]+)\)', {"id": "{1}"}),
    error("complete_prompt", {"execution_id": 10**6, "result": "ok"}, "execution_id from (claim_prompts)", {}, "claim_prompts", without=["execution_id", "result"]),
    # States.
    error("update_job", {"job_id": "Done", "name": "New"}, "make a new one with (schedule_job)", job(), "schedule_job", without=["job_id"]),
    error("run_job", {"job_id": "Cancelled"}, "(restore_job) brings it back", {}, "restore_job"),
    error("schedule_edit", {"id": "Daily report", "at": "tomorrow at 9"}, "use update_job with (job_[0-9_]+)", {"job_id": "{1}", "trigger_config": "0 8 * * *"}, "update_job", without=["id", "at"]),
    error("update_job", {"job_id": "Take out the bins", "trigger_type": "cron"}, "give (trigger_config) together", {"{1}": "0 8 * * *"}),
    # Times in words.
    error("schedule", {"at": "in 20 minuts", "prompt": "x"}, 'Did you mean "(.+?)"', {"at": "{1}"}),
    error("schedule", {"at": "every day at 8", "prompt": "x"}, 'schedule_job; the cron is "(.+?)"', {**WEBHOOK, "trigger_type": "cron", "trigger_config": "{1}"}, "schedule_job", without=["at", "prompt"]),
    error("schedule_notification", NOTE | {"datetime": "every day at 8"}, 'the cron is "(.+?)"', {"cron": "{1}"}, "schedule_cron_notification", without=["datetime"]),
    error("schedule_notification", NOTE, r'datetime \("(.+?)"\)', {"datetime": "{1}"}),
    error("pause_job", {"job_id": "Take out the bins", "until": "tomorow"}, READS_MOMENTS, {"until": "{1}"}),
    # Choices and ranges.
    error("list_jobs", {"status": "active"}, "Choose one of: (pending)", {"status": "{1}"}),
    error("list_scheduled_notifications", {"limit": 0}, "choose (1) to", {"limit": 1}),
    error("bulk_jobs", {"action": "stop", "tag": "x"}, "choose one of: (pause)", {"action": "{1}"}),
    error("set_preferences", {}, "give (timezone)", {"timezone": "Lisbon"}),
]  # fmt: skip


@pytest.fixture
def household(owner, call):
    notify = {"task": "notify", "kwargs": {"message": "Bins", "topic": "phone"}}
    due = JobFactory(owner=owner, name="Take out the bins", cron="0 18 * * *", **notify)
    ExecutionFactory(job=due, status="succeeded")
    JobFactory(owner=owner, name="Done", ended=True)
    JobFactory(owner=owner, name="Once", once=True)
    JobFactory(owner=owner, name="Twice", cron="0 7 * * *")
    JobFactory(owner=owner, name="Twice", cron="0 8 * * *")
    JobFactory(owner=owner, name="Write report", once=True, task="prompt", kwargs={"prompt": "Write"})
    JobFactory(owner=owner, name="Daily report", cron="0 7 * * *", task="prompt", kwargs={"prompt": "x"})
    call("cancel_job", job_id=JobFactory(owner=owner, name="Cancelled").public_id)
    call("delete_schedule", schedule_id=JobFactory(owner=owner, name="Old garden").public_id)
    call("schedule_job", **job(name="Other", idempotency_key="used"))


def name_of(case):
    return f"{case.tool}-{json.dumps(case.wrong, ensure_ascii=False)[-60:]}"


@pytest.mark.usefixtures("household", "caller", "cluster")
@pytest.mark.parametrize("case", ERRORS, ids=name_of)
def test_advice_of_an_error_taken_literally_succeeds(case):
    refused = InMemory("modern").raw(case.tool, case.wrong)
    refusal = answer_and_text(refused)
    assert is_refusal(refusal), refusal
    assert refused.is_error is must_be_error(case.tool, refused)
    match = re.search(case.advice, refusal[1])
    assert match, refusal[1]

    others = {name: value for name, value in case.wrong.items() if name not in case.without}
    corrected = others | filled_in(case.right, match)
    answer = answer_and_text(InMemory("modern").raw(case.then or case.tool, corrected))

    assert not is_refusal(answer), answer[1]


def must_be_error(tool, result):
    """Return whether a refusal is an error: everywhere but where the contract has an answer of its own for it."""
    answer = result.structured_content
    return answer is None or (OFFER_BY_NAME[tool].family == "more" and "next_step" not in answer)


def answer_and_text(result):
    """Return the answer, or the exception that stands for an error without one, and its text."""
    try:
        answer = answer_of(result)
    except ToolRefusalError as refusal:
        return refusal, str(refusal)
    return answer, answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False).replace(
        '\\"', '"'
    )


def is_refusal(answer_and_text):
    match answer_and_text[0]:
        case dict() as answer:
            return answer.get("success") is False or (
                "error" in answer and "executions" not in answer and answer["error"] is not None
            )
        case str(text):
            return text.startswith("Error") or "not editable" in text
    return True


def filled_in(value, found):
    match value:
        case dict():
            return {filled_in(name, found): filled_in(item, found) for name, item in value.items()}
        case list():
            return [filled_in(item, found) for item in value]
        case "{json 1}":
            return json.loads(found[1])
        case str():
            return value.replace("{1}", found[1] or "")
    return value
