"""The start of a process: garbage, deferred models and hidden modules."""

import gc
import inspect
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

import pydantic
import pytest
from pydantic import BaseModel, TypeAdapter

from schedules.management.startup import (
    deferred_adapters,
    deferred_models,
    without_garbage_collection,
    without_modules,
)
from schedules.tasks import registry


@pytest.fixture
def unfrozen() -> Iterator[None]:
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("unfrozen")
def test_garbage_is_collected_after_a_start_that_failed():
    with suppress(ValueError), without_garbage_collection():
        was_enabled = gc.isenabled()
        raise ValueError("wrong setting")

    assert not was_enabled
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


@pytest.mark.usefixtures("unfrozen")
def test_garbage_is_not_collected_before_the_outermost_start_ends():
    with without_garbage_collection():
        with without_garbage_collection():
            pass
        assert not gc.isenabled()

    assert gc.isenabled()


def test_arguments_of_a_task_are_checked_by_a_deferred_adapter():
    parameters = [inspect.Parameter("days", inspect.Parameter.KEYWORD_ONLY, annotation=int)]
    values = {"title": "", "description": "", "is_coroutine": False, "attempts": 1, "system": False}
    with deferred_models():
        early = registry.build("early", parameters, print, timeout=timedelta(seconds=1), **values)
    eager = registry.build("eager", parameters, print, timeout=timedelta(seconds=1), **values)

    assert (early.adapter.pydantic_complete, eager.adapter.pydantic_complete) == (False, True)
    assert early.check([], {"days": "x"}) == eager.check([], {"days": "x"}) != []


def test_deferred_model_is_built_at_its_first_use():
    with deferred_models():

        class Point(BaseModel):
            x: int

    class Later(BaseModel):
        x: int

    assert (Point.__pydantic_complete__, Later.__pydantic_complete__) == (False, True)
    assert Point(x="3").x == 3
    assert Point.__pydantic_complete__


def test_deferred_adapter_is_built_at_its_first_use():
    class Point(BaseModel):
        x: int

    with deferred_adapters():
        unions = pydantic.TypeAdapter(int | list[str])
        lists = pydantic.TypeAdapter[list[int]](list[int])
        points = pydantic.TypeAdapter(Point)

    assert not any(adapter.pydantic_complete for adapter in (unions, lists))
    assert unions.validate_json('["a"]') == ["a"]
    assert lists.validate_python(["1"]) == [1]
    assert points.validate_python({"x": 1}).x == 1
    assert pydantic.TypeAdapter is TypeAdapter


def test_hidden_module_cannot_be_imported_until_the_end():
    sys.modules.pop("this", None)

    with without_modules("this", "sys"), pytest.raises(ModuleNotFoundError):
        __import__("this")

    assert "this" not in sys.modules
    assert sys.modules["sys"] is sys
