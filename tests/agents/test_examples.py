"""The example file and the page about agents."""

from pathlib import Path
from typing import get_args

from schedules.agents.definitions import RunnerKind, parse
from tests.documented import blocks

PROJECT = Path(__file__).resolve().parents[2]


def test_example_file_has_one_runner_of_each_kind():
    runners = parse((PROJECT / "examples/runners.toml").read_text())

    assert sorted(runner.kind for runner in runners.values()) == sorted(get_args(RunnerKind))


def test_first_runner_of_the_page_is_valid():
    (block,) = blocks("docs/how-to/agents.md", "toml")

    assert parse(block.text)["notes"].secrets == {"ANTHROPIC_API_KEY"}
