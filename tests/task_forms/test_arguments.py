from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from schedules.tasks import registry
from schedules.tasks.registry import task
from schedules.web.forms import Arguments, JobForm


@task("tests.everything", description="One argument of every kind.")
def everything(
    text: str,
    number: int,
    share: float = 0.5,
    mode: Literal["fast", "slow"] = "fast",
    loud: bool = False,
    names: list[str] | None = None,
    table: dict[str, int] | None = None,
    size: Annotated[int, Field(ge=1, le=5)] | None = None,
    anything: Any = None,
    **more: int,
) -> None:
    """Do nothing."""


@task("tests.keep", description="Arguments that mean something when they are nothing.")
def keep(
    days: int,
    sure: bool,
    dry: bool = True,
    most: int = 7,
    only: list[str] = ["a", "b"],  # noqa: B006
    least: int = 1,
) -> None:
    """Do nothing."""


def arguments() -> Arguments:
    found = registry.get("tests.everything")
    assert found is not None
    return Arguments(found)


def typed(**values: str) -> dict[str, str]:
    return {f"tests.everything-{name}": text for name, text in values.items()}


FULL = {
    "text": "hello",
    "number": 3,
    "share": 0.25,
    "mode": "slow",
    "loud": True,
    "names": ["a", "b"],
    "table": {"x": 1},
    "size": 5,
    "anything": {"deep": [1]},
}


def test_every_kind_of_argument_survives_a_round_trip():
    every = arguments()

    shown = every.initial([], FULL)
    form = JobForm(
        {
            "name": "x",
            "task": "tests.everything",
            "when": "phrase",
            "phrase": "@daily",
            "timezone": "UTC",
            **shown,
        },
        zone="UTC",
    )

    assert form.is_valid(), form.errors
    assert form.columns()["kwargs"] == FULL
    assert form.columns()["args"] == []


KEEP = {
    "name": "x",
    "task": "tests.keep",
    "when": "phrase",
    "phrase": "@daily",
    "timezone": "UTC",
    "tests.keep-days": "0",
}


@pytest.mark.parametrize(
    ("more", "kwargs"),
    [
        ({}, {"days": 0, "sure": False, "dry": False}),
        ({"tests.keep-sure": "on"}, {"days": 0, "sure": True, "dry": False}),
        ({"tests.keep-dry": "on"}, {"days": 0, "sure": False, "dry": True}),
        ({"tests.keep-most": "0"}, {"days": 0, "sure": False, "dry": False, "most": 0}),
    ],
)
def test_zero_and_an_unticked_box_are_values(more: dict[str, str], kwargs: dict[str, Any]):
    form = JobForm(KEEP | more, zone="UTC")

    assert form.is_valid(), form.errors
    assert form.columns()["kwargs"] == kwargs


def test_default_of_an_argument_is_shown():
    form = JobForm(zone="UTC")

    assert form["tests.keep-dry"].value() is True
    assert form["tests.keep-most"].value() == 7
    assert form["tests.keep-only"].value() == "a, b"
    assert form["tests.everything-mode"].value() == "fast"


@pytest.mark.parametrize(("least", "is_unfolded"), [("1", False), ("2", True), ("x", True)])
def test_options_are_open_when_one_differs_from_its_default(least: str, is_unfolded: bool):
    options = JobForm(KEEP | {"tests.keep-least": least}, zone="UTC").options()

    assert [each["is_unfolded"] for each in options if each["task"].name == "tests.keep"] == [is_unfolded]


def test_carriage_returns_of_a_browser_are_removed():
    data = {
        "name": "x",
        "task": "notify",
        "notify-message": "one\r\ntwo",
        "notify-topic": "home",
        "when": "phrase",
        "phrase": "@daily",
        "timezone": "UTC",
    }
    form = JobForm(data, zone="UTC")

    assert form.is_valid(), form.errors
    assert form.columns()["kwargs"]["message"] == "one\ntwo"


def test_positional_arguments_are_shown_by_name():
    shown = arguments().initial(["hello", 3], {"extra": 4})

    assert shown["tests.everything-text"] == "hello"
    assert shown["tests.everything-number"] == 3
    assert shown["tests.everything-**"] == '{"extra": 4}'


def test_required_arguments_are_shown_and_the_rest_is_folded():
    every = arguments()

    assert [argument.name for argument in every.inline] == ["text", "number", "share", "mode", "loud", "more"]
    assert [argument.name for argument in every.folded] == ["names", "table", "size", "anything"]


def test_only_the_chosen_task_is_checked():
    data = {
        "name": "x",
        "task": "prompt",
        "prompt-prompt": "Hi",
        "when": "phrase",
        "phrase": "@daily",
        "timezone": "UTC",
    }

    form = JobForm(data | typed(number="many", table="{") | {"notify-priority": "99"}, zone="UTC")

    assert form.is_valid(), form.errors
    assert form.columns()["kwargs"] == {"prompt": "Hi"}


@pytest.mark.parametrize("names", [["a", "b"], ["Smith, John", "Doe"], [" a"], ["[x]"], [1, 2], 5])
def test_list_is_shown_so_that_it_is_read_back(names):
    [argument] = [each for each in arguments().named if each.name == "names"]

    shown = argument.write(names)

    assert argument.read(shown) == (names if isinstance(names, list) else ["5"])


def test_positional_arguments_that_a_task_no_longer_takes_are_left_out():
    found = registry.get("tests.keep")
    assert found is not None

    assert Arguments(found).initial([1, True, False, 7, [], 1, "too many"], {"days": 3}) == {
        "tests.keep-days": 3
    }
