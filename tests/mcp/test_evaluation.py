"""The evaluation tasks can be solved with the tools as they are: each has a scripted solution."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import time_machine

from schedules import clock
from schedules.mcp.offers import OFFERS
from schedules.models import Profile
from schedules.result import Code, Err
from schedules.services.people.tokens import FAMILIES
from tests.factories import ExecutionFactory, JobFactory
from tests.mcp import everyday

# Our own file, so nothing untrusted is parsed.
TASKS = ElementTree.parse(Path(__file__).with_name("evaluation.xml")).getroot().findall("qa_pair")  # noqa: S314


class UnansweredError(Exception):
    """The answers of the tools do not contain the answer to the question."""


def look_up(path: str, said: dict[str, Any]) -> Any:
    """Follow a path like listed.schedules.0.paused."""
    value: Any = said
    for part in path.split("."):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (LookupError, TypeError) as error:
            raise UnansweredError(f"there is no {path} in {said}") from error
    return value


def filled_in(text: str, said: dict[str, Any]) -> str:
    return re.sub(r"\{([a-z_]+(?:\.\w+)+)\}", lambda match: str(look_up(match[1], said)), text)


def solve(task: ElementTree.Element, call: Any) -> str:
    said: dict[str, Any] = {}
    for step in task.findall("call"):
        arguments = json.loads(filled_in(step.text or "", said))
        said[step.get("as", "_")] = call(step.attrib["tool"], **arguments)
    return read_answer(task.find("check"), said)


def read_answer(check: ElementTree.Element, said: dict[str, Any]) -> str:
    found = look_up(check.attrib["path"], said)
    match check.attrib:
        case {"contains": words}:
            is_as_said = filled_in(words, said) in str(found)
        case {"equals": value}:
            is_as_said = found == json.loads(value)
        case _:
            return str(found)
    if not is_as_said:
        raise UnansweredError(f"{found} is not as said: {check.attrib}")
    return check.get("means", "Yes")


def test_tasks_are_enough_and_cover_every_tool_family():
    families = {offer.name: offer.families for offer in OFFERS}
    used = {step.attrib["tool"] for task in TASKS for step in task.findall("call")}
    used |= {call.tool for task in everyday.TASKS for call in task.calls}

    assert len(everyday.TASKS) >= 60
    # A real notification is sent in the tests of that tool alone.
    assert used == {offer.name for offer in OFFERS} - {"send_push_notification"}
    assert {family for tool in used for family in families[tool]} == set(FAMILIES)


@pytest.mark.parametrize("task", TASKS, ids=range(1, len(TASKS) + 1))
def test_scripted_solution_gives_the_answer(call, task):
    assert task.findtext("question", "").strip()
    assert solve(task, call) == task.findtext("answer")


def refused_by_its_family(tool: str, /, **arguments: Any) -> Any:
    [offer] = [offer for offer in OFFERS if offer.name == tool]
    return offer.refuse(Err(Code.CALLS_TOO_FAST, retry_after=1), arguments)


@pytest.mark.parametrize(
    "fail",
    [lambda tool, **arguments: {"error": "boom"}, lambda tool, **arguments: "boom", refused_by_its_family],
    ids=["an error", "a sentence", "its family's refusal"],
)
def test_no_task_is_solved_if_every_tool_fails(fail):
    assert [number for number, task in enumerate(TASKS, 1) if is_solved(task, fail)] == []


def is_solved(task: ElementTree.Element, call: Any) -> bool:
    try:
        return solve(task, call) == task.findtext("answer")
    except UnansweredError:
        return False


@pytest.fixture
def person(owner):
    """Olga in Berlin, on Wednesday, 4 February 2026 at noon; her topic is `my-phone`."""
    Profile.objects.filter(user=owner).update(topic="my-phone")
    with time_machine.travel("2026-02-04T11:00:00+00:00", tick=False):
        yield owner


def a_household(owner):
    for name, tags in {
        "Garden lights": ["home"],
        "Garden pump": ["home"],
        "Report": [],
        "Invoices": [],
    }.items():
        JobFactory(owner=owner, name=name, tags=tags)


def a_bad_week(owner):
    now = clock.now()
    backup = JobFactory(
        owner=owner,
        name="Backup",
        cron="0 9 * * *",
        timezone="Europe/Berlin",
        recent="FFS",
        last_error="disk full",
        last_run_at=now,
        created_at=now - timedelta(days=30),
    )
    for days, status in ((2, "failed"), (1, "failed"), (0, "succeeded")):
        slot = now - timedelta(days=days, hours=3)
        error = "disk full" if status == "failed" else ""
        ExecutionFactory(
            job=backup,
            status=status,
            scheduled_for=slot,
            started_at=slot,
            finished_at=slot,
            error=error,
            attempt=1,
        )
    check = {"message": "Check the backup", "topic": "my-phone"}
    JobFactory(owner=owner, name="Disk", task="notify", kwargs=check)


def a_month_of_reminders(owner):
    def run(job, days):
        slot = clock.now() - timedelta(days=days)
        ExecutionFactory(
            job=job, status="succeeded", scheduled_for=slot, started_at=slot, finished_at=slot, attempt=1
        )

    def reminder(name, **more):
        kwargs = {"message": name, "topic": "my-phone"}
        return JobFactory(owner=owner, name=name, task="notify", kwargs=kwargs, **more)

    vitamins, bins = reminder("Vitamins"), reminder("Bins")
    alert = reminder("Failure alert: Backup", public_id="notice_1_1")
    for job, days in ((vitamins, 10), (vitamins, 11), (bins, 12), (alert, 12), (vitamins, 1), (bins, 60)):
        run(job, days)


def a_prompt_that_is_due(owner):
    prompt = {"prompt": "Look at the logs"}
    job = JobFactory(owner=owner, once=True, status="running", next_run_at=None, task="prompt", kwargs=prompt)
    ExecutionFactory(job=job, status="waiting")


@pytest.mark.parametrize("task", everyday.TASKS, ids=lambda task: task.says)
def test_what_a_person_says_is_done(call, person, task):
    if task.given:
        globals()[task.given.replace(" ", "_")](person)

    said = play(task, call)

    for path, value in task.truths.items():
        found = look_up(path, said)
        assert value.part in found if isinstance(value, everyday.Contains) else found == value, (path, found)


def play(task, call):
    """Make the calls of a task, and return their answers by name."""
    said: dict[str, Any] = {}
    for step in task.calls:
        said[step.name] = call(step.tool, **completed(step.arguments, said))
    return said


def completed(value, said):
    """Replace {name.key} in arguments by what was answered; {name.key|token} is the last quoted text in it."""
    match value:
        case dict():
            return {name: completed(item, said) for name, item in value.items()}
        case list():
            return [completed(item, said) for item in value]
        case str() if found := re.fullmatch(r"\{(\w+(?:\.\w+)+)(\|token)?\}", value):
            answer = look_up(found[1], said)
            return answer.split('"')[-2] if found[2] else answer
    return value


def test_no_everyday_task_is_solved_if_every_tool_fails():
    def is_done(task):
        try:
            said = play(task, refused_by_its_family)
            return all(look_up(path, said) == value for path, value in task.truths.items())
        except UnansweredError:
            return False

    assert [task.says for task in everyday.TASKS if is_done(task)] == []
