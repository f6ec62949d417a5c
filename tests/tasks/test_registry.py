"""The task registry: names, signatures, argument checks and the injected run."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from schedules.tasks import registry
from schedules.tasks.interface import Final, Run
from schedules.tasks.registry import task

RUN = Run(
    execution_id=7,
    key="exec-7",
    job_id="job_1",
    job_name="Water the plants",
    attempt=1,
    scheduled_for=datetime(2026, 2, 4, 9, tzinfo=UTC),
    owner_id=1,
    signing_keys=lambda: ("hush",),
    timeout=60.0,
)


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_tasks", {})


def registered(function, **options) -> registry.Task:
    task(**options)(function)
    found = registry.get(options.get("name") or function.__name__)
    assert found is not None
    return found


def water(plant: str, litres: int = 1, *, gently: bool = False) -> str:
    """Water a plant."""
    return f"{plant} {litres} {gently}"


def test_function_is_registered_under_its_name_and_stays_callable():
    decorated = task()(water)

    found = registry.get("water")

    assert decorated is water
    assert found is not None
    assert (found.title, found.description) == ("Water", "Water a plant.")
    assert (found.attempts, found.timeout, found.system) == (1, timedelta(seconds=60), False)
    assert not found.is_coroutine


def test_explicit_name_title_and_limits_are_used():
    found = registered(
        water, name="garden.water", title="Garden", description="Wet.", attempts=3, timeout=timedelta(hours=1)
    )

    assert (found.name, found.title, found.description) == ("garden.water", "Garden", "Wet.")
    assert (found.attempts, found.timeout) == (3, timedelta(hours=1))


def test_lists_are_sorted_and_leave_system_tasks_out():
    task("b")(water)
    task("a", system=True)(water)
    task("c")(water)

    assert registry.names() == ["b", "c"]
    assert [found.name for found in registry.all_tasks(include_system=True)] == ["a", "b", "c"]


def test_same_name_for_another_function_is_an_error():
    def other() -> None: ...

    task("water")(water)

    with pytest.raises(ValueError, match="Two tasks are named 'water'"):
        task("water")(other)


def test_same_function_registered_again_replaces_itself():
    task()(water)
    task(title="New")(water)

    assert [found.title for found in registry.all_tasks()] == ["New"]


@pytest.mark.parametrize("name", ["9lives", "two words", "x" * 101, "a;b", "ü"])
def test_invalid_name_is_refused(name):
    with pytest.raises(ValueError, match="Not a task name"):
        task(name)(water)


def test_invalid_limits_are_refused():
    for options in (
        {"attempts": 0},
        {"attempts": 11},
        {"timeout": timedelta(milliseconds=999)},
        {"timeout": timedelta(days=1, seconds=1)},
    ):
        with pytest.raises(ValueError, match="water: give the task 1 to 10 attempts and a positive timeout"):
            task(**options)(water)


def test_timeout_must_be_a_timedelta():
    with pytest.raises(TypeError, match="as a timedelta, not as 30"):
        task(timeout=30)  # type: ignore[arg-type]


def count():
    yield 1


async def acount():
    yield 1


@pytest.mark.parametrize("function", [count, acount])
def test_generator_is_refused(function):
    with pytest.raises(TypeError, match="must not be a generator"):
        task()(function)


def test_type_without_a_schema_is_refused_by_the_name_of_its_parameter():
    class Van: ...

    def deliver(parcel: str, van: Van) -> None: ...

    with pytest.raises(TypeError, match="deliver: the type of van has no schema"):
        task()(deliver)


def test_decorator_without_parentheses_is_refused_with_an_explanation():
    with pytest.raises(TypeError, match="parentheses"):
        task(water)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (["fern"], {}),
        (["fern", 2], {}),
        (["fern"], {"litres": 2, "gently": True}),
        ([], {"plant": "fern"}),
    ],
)
def test_valid_arguments_have_no_problems(args, kwargs):
    assert registered(water).check(args, kwargs) == []


def test_problem_names_the_argument():
    for args, kwargs, problem in [
        ([], {}, "plant: required, but missing; water takes plant, litres, gently"),
        (["fern"], {"colour": "red"}, "colour: unknown argument; water takes plant, litres, gently"),
        (
            ["fern", 1, True],
            {},
            "arguments: too many positional arguments; water takes plant, litres, gently",
        ),
        (["fern"], {"plant": "ivy"}, "arguments: multiple values for argument 'plant'; water takes"),
        (["fern", "7"], {}, "litres: input should be a valid integer"),
        (["fern", 7.5], {}, "litres: input should be a valid integer"),
        (["fern", True], {}, "litres: input should be a valid integer"),
        (["fern"], {"gently": 1}, "gently: input should be a valid boolean"),
        ([7], {}, "plant: input should be a valid string"),
        ([None], {}, "plant: input should be a valid string"),
        ([{1, 2}], {}, "arguments: not JSON"),
    ]:
        problems = registered(water).check(args, kwargs)

        assert len(problems) == 1
        assert problems[0].startswith(problem)


def test_every_problem_is_reported():
    problems = registered(water).check([7, "x"], {"gently": "no"})

    assert [words.partition(":")[0] for words in problems] == ["plant", "litres", "gently"]


def test_nested_problem_names_its_path():
    def pack(things: list[dict[str, int]]) -> None: ...

    problems = registered(pack).check([[{"socks": 2}, {"shirts": "3"}]], {})

    assert problems == ["things.1.shirts: input should be a valid integer"]


def test_arguments_too_deep_for_json_are_a_problem():
    def anything(value: Any) -> None: ...

    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    assert "not JSON" in registered(anything).check([deep], {})[0]


def test_schema_describes_the_arguments_and_hides_the_run():
    def remind(
        text: Annotated[str, Field(description="What to say.")],
        times: Annotated[int, Field(ge=1)] = 3,
        *,
        run: Run,
    ) -> None: ...

    schema = registered(remind, title="Reminder").schema

    assert schema["title"] == "Reminder"
    assert schema["required"] == ["text"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["text"]["description"] == "What to say."
    assert schema["properties"]["times"]["default"] == 3
    assert set(schema["properties"]) == {"text", "times"}
    json.dumps(schema)


def test_call_passes_defaults_and_arguments():
    found = registered(water)

    assert found.call(RUN, ["fern"], {}) == "fern 1 False"
    assert found.call(RUN, [], {"plant": "fern", "gently": True}) == "fern 1 True"


def test_call_injects_the_run():
    def who(greeting: str, *, run: Run) -> str:
        return f"{greeting} {run.job_name}"

    assert registered(who).call(RUN, ["Hello"], {}) == "Hello Water the plants"


@pytest.mark.parametrize("hint", [Annotated[Run, "the current one"], Run | None, Optional[Run]])  # noqa: UP045
def test_run_may_be_annotated_or_optional(hint):
    def who(*, run=None) -> str:
        return run.job_name

    who.__annotations__["run"] = hint

    assert registered(who).call(RUN, [], {}) == "Water the plants"


def test_run_cannot_be_given_by_the_caller():
    def who(*, run: Run) -> None: ...

    assert registered(who).check([], {"run": {}}) == ["run: unknown argument; who takes no arguments"]


def test_run_must_be_keyword_only():
    def who(run: Run) -> None: ...

    with pytest.raises(TypeError, match="keyword-only"):
        task()(who)


def test_call_of_a_coroutine_function_returns_its_coroutine():
    async def greet(name: str, *, run: Run) -> str:
        return f"{name} {run.attempt}"

    found = registered(greet)

    assert found.is_coroutine
    assert asyncio.run(found.call(RUN, ["Ada"], {})) == "Ada 1"


def test_call_with_invalid_arguments_is_final():
    with pytest.raises(Final, match=r"Invalid arguments: plant: required"):
        registered(water).call(RUN, [], {})


def test_types_beyond_json_are_converted_from_json():
    def book(at: datetime, kind: Literal["table", "room"], seats: tuple[int, ...] = ()) -> str:
        return f"{at:%H:%M} {kind} {seats}"

    assert registered(book).call(RUN, ["2026-02-04T09:30:00Z", "room", [1, 2]], {}) == "09:30 room (1, 2)"


def test_argument_names_reserved_by_pydantic_are_accepted():
    def store(json: str, copy: int, _hidden: int = 0) -> str:
        return json * copy

    assert registered(store).call(RUN, ["ab", 2], {}) == "abab"


def test_variable_arguments_are_checked_by_their_annotations():
    def count(*numbers: int, **labels: str) -> tuple[int, list[str]]:
        return sum(numbers), sorted(labels)

    found = registered(count)

    assert found.call(RUN, [1, 2, 3], {"a": "x", "b": "y"}) == (6, ["a", "b"])
    assert found.check(["1"], {}) == ["numbers.0: input should be a valid integer"]
    assert found.check([], {"a": 1}) == ["labels.a: input should be a valid string"]
    assert found.schema["additionalProperties"] is True
    assert found.schema["properties"] == {}


def test_unannotated_parameter_accepts_anything():
    def anything(value, more=None):
        return value

    assert registered(anything).call(RUN, [{"a": [1, None, "x"]}], {}) == {"a": [1, None, "x"]}


@pytest.mark.parametrize(
    ("default", "kind"), [(3, "integer"), (True, "boolean"), (0.5, "number"), ("x", "string")]
)
def test_unannotated_parameter_has_the_type_of_its_default(default, kind):
    def anything(value=default):
        return value

    spec = registered(anything).schema["properties"]["value"]

    assert (spec["type"], spec["default"]) == (kind, default)


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    "default", [object(), Field(default=1), CIRCLE], ids=["object", "Field", "list in itself"]
)
def test_default_that_is_not_json_is_left_out_of_the_schema(default):
    def anything(value: Any = default):
        return value

    found = registered(anything)

    assert "default" not in found.schema["properties"]["value"]
    assert found.check([], {}) == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=8,
)


@given(
    args=st.lists(json_values, max_size=4),
    kwargs=st.dictionaries(st.text(max_size=8), json_values, max_size=4),
)
def test_check_and_call_agree_on_any_json(args, kwargs):
    found = registered(water)

    problems = found.check(args, kwargs)

    if problems:
        with pytest.raises(Final):
            found.call(RUN, args, kwargs)
    else:
        assert isinstance(found.call(RUN, args, kwargs), str)
