from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from django import forms
from django.db import models
from pydantic import AfterValidator, BaseModel, Field

from schedules.models import Job
from schedules.result import Ok
from schedules.secrets import masking
from schedules.services.jobs.masked_arguments import fill_in
from schedules.tasks import registry
from schedules.tasks.forms.arguments import Arguments
from schedules.tasks.registry import task
from schedules.web.forms.jobs import JobForm


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


@pytest.mark.parametrize(("least", "is_unfolded"), [("1", False), ("2", True), ("x", True)])
def test_options_are_open_when_one_differs_from_its_default(least: str, is_unfolded: bool):
    options = JobForm(KEEP | {"tests.keep-least": least}, zone="UTC").options()

    assert [each["is_unfolded"] for each in options if each["task"].name == "tests.keep"] == [is_unfolded]


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


class Level(models.IntegerChoices):
    LOW = 1
    HIGH = 2


class Order(BaseModel):
    amount: int


@task("tests.kept", description="Arguments with values that their fields cannot show.")
def kept(
    limit: int | None = 5,
    greeting: str = "hello",
    names: list[str] = ["a"],  # noqa: B006
    table: dict[str, str] = {"a": "b"},  # noqa: B006
    unsure: bool | None = None,
    anything: Any = 7,
    price: Decimal = Decimal(1),
    number_or_text: int | str = 1,
    names_or_text: list[str] | str = "",
    mode: Literal["a", "b"] | None = "a",
    level: Level = Level.LOW,
    order: Order | None = None,
    big: int = 1,
    lines: str = "one\ntwo",
    max_tokens: int = 100,
    cookie_kind: Literal["a", "b"] = "a",
    is_secret: bool = False,
    tokens: list[str] | None = None,
    credentials: dict[str, str] | None = None,
    secrets: dict[str, int] | None = None,
    other: str = "",
) -> None:
    """Do nothing."""


def not_empty(text: str) -> str:
    if not text:
        raise ValueError("must not be empty")
    return text


@task("tests.never_empty", description="Arguments that are never empty.")
def never_empty(
    day: date = date(2026, 1, 1),
    share: Decimal = Decimal(1),
    code: Annotated[str, Field(pattern="^[a-z]+$")] = "abc",
    label: Annotated[str, Field(min_length=1)] = "x",
    pair: Annotated[list[str], Field(min_length=1)] = ["a"],  # noqa: B006
    word: Annotated[str, AfterValidator(not_empty)] = "X",
    other: str = "",
) -> None:
    """Do nothing."""


@task("tests.odd", description="Arguments that no form can fill in.")
def odd(nothing: None = None, named: Annotated[int | str, Field(alias="alias")] = 1) -> None:
    """Do nothing."""


def job_with(name: str = "tests.kept", args: tuple[Any, ...] = (), **kwargs: Any) -> Job:
    return Job(name="x", task=name, args=list(args), kwargs=kwargs, trigger_type="cron", cron="0 9 * * *")


def sent(job: Job, **values: str) -> dict[str, Any]:
    """Return what a browser sends of the form of a job after these arguments were typed."""
    form = JobForm(zone="UTC", job=job)
    shown = {name: form[name].value() for name in form.fields}
    unchanged = {name: "" if value is None else value for name, value in shown.items() if value is not False}
    return unchanged | {f"{job.task}-{name}": text for name, text in values.items()}


def edited(job: Job, **values: str) -> JobForm:
    return JobForm(sent(job, **values), zone="UTC", job=job)


KEPT = [
    {},
    {"limit": None},
    {"greeting": ""},
    {"greeting": " x "},
    {"greeting": "one\ntwo\n"},
    {"greeting": "one\r\ntwo"},
    {"names": []},
    {"names": ["one\ntwo", ""]},
    {"table": {}},
    {"table": {"a": ""}},
    {"table": {"a": " x"}},
    {"table": {"a": "one\ntwo"}},
    {"unsure": False},
    {"anything": 5},
    {"anything": True},
    {"anything": None},
    {"anything": '{"a": 1}'},
    {"price": "0.10"},
    {"number_or_text": "007"},
    {"number_or_text": "5"},
    {"names_or_text": "abc"},
    {"mode": None},
    {"level": 2},
    {"max_tokens": 500},
    {"cookie_kind": "b"},
    {"is_secret": True},
]


@pytest.mark.parametrize("kwargs", KEPT, ids=str)
def test_arguments_that_were_not_changed_are_kept(kwargs: dict[str, Any]):
    job = job_with(**kwargs, other="old")
    form = edited(job, other="new")
    copy = JobForm(sent(job, other="new"), zone="UTC", job=job, is_copy=True)

    assert form.is_valid(), form.errors
    assert form.changes()["kwargs"] == kwargs | {"other": "new"}
    assert copy.is_valid(), copy.errors
    assert copy.columns()["kwargs"] == kwargs | {"other": "new"}


@task("tests.untyped", description="Parameters without a type.")
def untyped(factor=1, share=0.5, label="", other="") -> None:
    """Do nothing."""


@pytest.mark.parametrize("kwargs", [{"factor": 2.5}, {"factor": "3"}, {"share": 2}, {"label": None}], ids=str)
def test_value_of_another_type_is_kept_if_the_parameter_has_no_type(kwargs: dict[str, Any]):
    form = edited(job_with("tests.untyped", **kwargs, other="old"), other="new")

    assert form.is_valid(), form.errors
    assert form.changes()["kwargs"] == kwargs | {"other": "new"}


def test_number_is_stored_as_a_number_if_the_parameter_has_no_type():
    form = edited(job_with("tests.untyped"), factor="3", share="2.5", label="4")

    assert form.is_valid(), form.errors
    assert form.changes()["kwargs"] == {"factor": 3, "share": 2.5, "label": "4"}


@pytest.mark.parametrize(
    "kwargs", [{"tokens": ["a", "b"]}, {"credentials": {"a": "b"}}, {"secrets": {"a": 1}}], ids=str
)
def test_mask_of_a_list_or_table_is_handed_on(kwargs: dict[str, Any]):
    job = job_with(**kwargs)
    form = edited(job, other="new")

    assert form.is_valid(), form.errors
    assert form.changes()["kwargs"] == dict.fromkeys(kwargs, masking.MASK) | {"other": "new"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("greeting", ""), ("names", []), ("table", {}), ("limit", None), ("mode", None), ("anything", None)],
)
def test_cleared_field_does_not_mean_a_default_with_content(name: str, value: Any):
    form = edited(job_with(), **{name: ""})

    assert form.is_valid(), form.errors
    assert form.changes()["kwargs"] == {name: value}


@pytest.mark.parametrize("name", ["day", "share", "code", "label", "pair", "word"])
def test_cleared_field_means_the_default_if_the_type_accepts_nothing_empty(name: str):
    form = edited(job_with("tests.never_empty", day="2026-02-04", label="abc"), **{name: "", "other": "new"})

    assert form.is_valid(), form.errors
    assert name not in form.changes()["kwargs"]


def test_types_without_a_field_of_their_own_do_not_break_the_form():
    form = JobForm(zone="UTC")

    assert form["tests.odd-nothing"].value() is None
    assert form["tests.odd-alias"].value() == "1"


def test_text_with_line_breaks_is_shown_in_several_lines():
    form = JobForm(zone="UTC", job=job_with(greeting="one\ntwo", table={"a": "one\ntwo"}))

    assert isinstance(form.fields["tests.kept-greeting"].widget, forms.Textarea)
    assert isinstance(form.fields["tests.kept-lines"].widget, forms.Textarea)
    assert isinstance(form.fields["tests.kept-other"].widget, forms.TextInput)
    assert "\none\ntwo</textarea>" in str(form["tests.kept-table"])


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("level", "2", 2),
        ("price", "0.10", "0.10"),
        ("number_or_text", "5", 5),
        ("number_or_text", "five", "five"),
        ("names_or_text", '["a"]', ["a"]),
        ("names_or_text", "a, b", "a, b"),
        ("anything", "8", "8"),
    ],
)
def test_text_is_read_as_the_type_of_its_argument(name: str, text: str, value: Any):
    form = edited(job_with(), **{name: text})

    assert form.is_valid(), form.errors
    assert form.changes()["kwargs"] == {name: value}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("order", "{}", "amount: required, but missing"),
        ("order", '{"amount": "x"}', "amount: input should be a valid integer"),
        ("big", "9" * 20, "Whole numbers must fit into 64 bits."),
    ],
)
def test_error_names_the_part_of_the_argument(name: str, text: str, words: str):
    form = edited(job_with(), **{name: text})

    assert form.errors == {f"tests.kept-{name}": [words]}


@task("tests.rest", description="Arguments that are given by position.")
def rest(first: int, second: int = 2, *numbers: int, other: str = "") -> None:
    """Do nothing."""


@task("tests.typed_rest", description="Defaults that are no JSON before others.")
def typed_rest(level: Level = Level.HIGH, day: date = date(2026, 1, 1), *names: str) -> None:
    """Do nothing."""


@task("tests.positional", description="Arguments that are given by position only.")
def positional(first: int, second: int = 2, third: int = 3, /, other: str = "") -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("name", "args", "typed", "saved"),
    [
        ("tests.rest", (1, 2, 3), {"other": "new"}, ([1, 2, 3], {"other": "new"})),
        ("tests.rest", (1,), {"other": "new"}, ([], {"first": 1, "other": "new"})),
        ("tests.rest", (1,), {"*": "[7]"}, ([1, 2, 7], {})),
        ("tests.typed_rest", (), {"*": '["a"]'}, ([2, "2026-01-01", "a"], {})),
        ("tests.positional", (1,), {"other": "new"}, ([1], {"other": "new"})),
        ("tests.positional", (1,), {"third": "5"}, ([1, 2, 5], {})),
    ],
)
def test_arguments_before_others_are_given_by_position(name, args, typed, saved):
    form = edited(job_with(name, args), **typed)

    assert form.is_valid(), form.errors
    assert (form.changes()["args"], form.changes()["kwargs"]) == saved


@task("tests.secret_rest", description="Secrets that are given by position.")
def secret_rest(url: str, *tokens: str, number: int = 1, **more: str) -> None:
    """Do nothing."""


@task("tests.header_rest", description="Request headers that are given by position.")
def header_rest(*headers: dict[str, str], number: int = 1) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "shown"),
    [
        ("tests.secret_rest", ("u", "s1", "s2"), {}, ["u", masking.MASK, masking.MASK]),
        ("tests.secret_rest", ("u", "s1"), {"tokens": "s2"}, ["u", masking.MASK]),
        ("tests.header_rest", ({"Zone": "s1"},), {}, [{"Zone": masking.MASK}]),
    ],
    ids=str,
)
def test_secrets_given_by_position_are_masked_and_kept(name, args, kwargs, shown):
    job = job_with(name, args, **kwargs)
    form = edited(job, number="5")

    assert form.is_valid(), form.errors
    changes = form.changes()
    assert changes["args"] == shown
    assert fill_in(job, changes) == Ok(changes | {"args": list(args), "kwargs": kwargs | {"number": 5}})


def test_error_of_a_new_mask_names_its_argument():
    form = edited(
        job_with("tests.secret_rest", ("u", "s1")), **{"*": f'["{masking.MASK}", "{masking.MASK}"]'}
    )

    assert form.errors == {"tests.secret_rest-*": ["Enter the real value of tokens."]}


def test_missing_argument_before_others_is_reported():
    form = edited(job_with("tests.rest", (1, 2, 3)), first="")

    assert form.errors == {"tests.rest-first": ["Enter a first."]}
