"""The evaluation tasks can be solved with the tools as they are: each has a scripted solution."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from schedules.mcp.registration import OFFERS
from schedules.result import Code, Err
from schedules.services.tokens import FAMILIES

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

    assert len(TASKS) >= 25
    assert len(used) >= 18
    assert {family for tool in used for family in families[tool]} == set(FAMILIES)


@pytest.mark.parametrize("task", TASKS, ids=range(1, len(TASKS) + 1))
def test_scripted_solution_gives_the_answer(call, task):
    assert task.findtext("question", "").strip()
    assert solve(task, call) == task.findtext("answer")


def refused_by_its_family(tool: str, /, **arguments: Any) -> Any:
    [offer] = [offer for offer in OFFERS if offer.name == tool]
    return offer.refuse(Err(Code.TOO_FAST, "boom", retry_after=1), arguments)


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
