"""Which columns a caller may set, and which kinds of value they take."""

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest

from schedules.models import Job
from schedules.services.validation import EDITABLE, editable_only, type_problems

GOOD = {
    "name": "Backup",
    "args": [1, "two", None],
    "kwargs": {"deep": [[[1.5]]]},
    "run_at": datetime(2026, 2, 4, tzinfo=UTC),
    "every": timedelta(minutes=5),
    "max_runs": 3,
    "ends_at": None,
    "tags": [],
}

BAD = {
    "a number for a name": ("name", 7, "text"),
    "a number for a duration": ("every", 300, "duration"),
    "text for a duration": ("timeout", "soon", "duration"),
    "text for a moment": ("run_at", "tomorrow", "zone"),
    "a naive moment": ("ends_at", datetime(2026, 2, 4), "zone"),  # noqa: DTZ001
    "a moment beyond the calendar": (
        "ends_at",
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-12))),
        "calendar",
    ),
    "a fraction for a count": ("max_runs", 1.5, "whole"),
    "infinity for a count": ("max_runs", math.inf, "whole"),
    "NaN for a count": ("attempts", math.nan, "whole"),
    "truth for a count": ("attempts", True, "whole"),
    "a set for JSON": ("args", {1}, "not a JSON value"),
    "NaN inside JSON": ("kwargs", {"a": math.nan}, "finite"),
}


def test_every_editable_column_is_one_that_people_may_see():
    shown = {field.name for field in Job._meta.concrete_fields if field.editable} - {"id", "owner"}

    assert set(EDITABLE) == shown


def test_good_values_have_no_problem():
    assert type_problems(GOOD) == {}


@pytest.mark.parametrize(("field", "value", "words"), BAD.values(), ids=BAD.keys())
def test_value_of_the_wrong_kind_is_named_with_its_field(field, value, words):
    problems = type_problems(GOOD | {field: value})

    assert list(problems) == [field]
    assert words in problems[field][0]


def test_none_is_an_empty_text_where_a_text_may_be_empty():
    assert editable_only({"cron": None, "label": None, "run_at": None}) == {
        "cron": "",
        "label": "",
        "run_at": None,
    }


@pytest.mark.parametrize("name", ["owner", "status", "next_run_at", "public_id", "nonsense"])
def test_column_that_is_nobodys_to_set_is_a_bug(name):
    with pytest.raises(TypeError, match=name):
        editable_only({name: 1})
