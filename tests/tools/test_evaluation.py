"""The evaluation tasks can be solved with the tools as they are: each has a scripted solution."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

# Our own file, so nothing untrusted is parsed.
TASKS = ElementTree.parse(Path(__file__).with_name("evaluation.xml")).getroot().findall("qa_pair")  # noqa: S314


def look_up(path: str, said: dict[str, Any]) -> Any:
    """Follow a path like listed.schedules.0.paused; what is not there is empty."""
    value: Any = said
    for part in path.split("."):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (LookupError, TypeError):
            return ""
    return value


def filled_in(text: str, said: dict[str, Any]) -> str:
    return re.sub(r"\{([a-z_]+(?:\.\w+)+)\}", lambda match: str(look_up(match[1], said)), text)


def solve(task: ElementTree.Element, call: Any) -> str:
    said: dict[str, Any] = {}
    for step in task.findall("call"):
        arguments = json.loads(filled_in(step.text or "", said))
        said[step.get("as", "_")] = call(step.attrib["tool"], **arguments)
    check = task.find("check")
    found = str(look_up(check.attrib["path"], said))
    words = check.get("contains")
    if words is None:
        return found
    return "Yes" if filled_in(words, said) in found else "No"


def test_there_are_tasks_enough_and_every_tool_family_is_in_them():
    tools = {step.attrib["tool"] for task in TASKS for step in task.findall("call")}

    assert len(TASKS) >= 25
    assert len(tools) >= 18


@pytest.mark.parametrize("task", TASKS, ids=range(1, len(TASKS) + 1))
def test_the_scripted_solution_gives_the_answer(call, task):
    assert task.findtext("question", "").strip()
    assert solve(task, call) == task.findtext("answer")
