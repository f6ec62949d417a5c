"""Limits of stored values: text, moments, JSON and topics."""

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest

from schedules import limits
from schedules.tasks import registry


@pytest.mark.parametrize("text", ["", "Backup", "日本語 🙂", "שלום", "tab-less line"])
def test_ordinary_lines_are_accepted(text):
    assert limits.line_problem(text) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("a\x00", "U+0000", id="NUL"),
        pytest.param("a\nb", "U+000A", id="line break"),
        pytest.param("a\x1b[31m", "U+001B", id="escape"),
        pytest.param("a\u2028b", "U+2028", id="line separator"),
        pytest.param("\ud83d", "U+D83D", id="half a character"),
        pytest.param("a\u202eb", "reorders", id="override"),
        pytest.param("a\u2067b", "reorders", id="isolate"),
        pytest.param("a\u200fb", "reorders", id="mark"),
    ],
)
def test_misleading_line_is_refused(text, words):
    problem = limits.line_problem(text)

    assert problem is not None
    assert words in problem


def test_misleading_characters_are_stripped_but_line_breaks_are_kept():
    assert limits.strip_unprintable("a\x00b\u202ec\n\td\x1b\ud800é") == "abc\n\tdé"


def test_moment_with_a_zone_is_accepted():
    assert limits.moment_problem(datetime(2026, 2, 4, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        pytest.param(datetime(2026, 2, 4), "zone", id="naive"),  # noqa: DTZ001
        pytest.param(
            datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "calendar", id="before the start"
        ),
        pytest.param(
            datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-2))), "calendar", id="after the end"
        ),
    ],
)
def test_moment_that_cannot_be_stored_is_refused(moment, words):
    assert words in (limits.moment_problem(moment) or "")


def nested(levels: int) -> object:
    value: object = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -(2**63) + 1, 1.5, "text\n", [], {}, (1, 2), nested(10)],
    ids=["null", "true", "zero", "large", "float", "text", "list", "object", "tuple", "ten levels"],
)
def test_ordinary_json_is_accepted(value):
    assert limits.json_problem(value, max_bytes=1000) is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        pytest.param(math.nan, "finite", id="NaN"),
        pytest.param([{"a": -math.inf}], "finite", id="infinity inside"),
        pytest.param(2**63, "64 bits", id="large number"),
        pytest.param(10**5000, "64 bits", id="number of 5,000 digits"),
        pytest.param(nested(11), "deep", id="eleven levels"),
        pytest.param(nested(100_000), "deep", id="abysmal"),
        pytest.param({1: 1}, "key", id="number as a key"),
        pytest.param({"a\x00": 1}, "NUL", id="NUL in a key"),
        pytest.param("\x00", "NUL", id="NUL"),
        pytest.param(["\udfff"], "surrogate", id="half a character"),
        pytest.param({1}, "set is not", id="set"),
        pytest.param(b"x", "bytes is not", id="bytes"),
        pytest.param("é" * 500, "1,002 bytes", id="large"),
    ],
)
def test_value_that_cannot_be_stored_as_json_is_refused(value, words):
    assert words in (limits.json_problem(value, max_bytes=1000) or "")


def test_secrets_are_masked_at_any_depth():
    value = {
        "url": "https://example.com",
        "headers": [{"Authorization": "Bearer x", "X-Api-Key": "y", "accept": "json"}],
        "password": {"nested": 1},
        "token": "",
    }

    assert limits.masked(value) == {
        "url": "https://example.com",
        "headers": [{"Authorization": limits.MASK, "X-Api-Key": limits.MASK, "accept": "json"}],
        "password": limits.MASK,
        "token": "",
    }


@pytest.mark.parametrize("topic", ["alerts", "a", "A-b_9", "t" * 64])
def test_topic_is_accepted_as_a_setting_and_as_an_argument(topic):
    assert limits.topic_problem(topic) is None
    assert not _notify_problems(topic)


@pytest.mark.parametrize("topic", ["", "two words", "a/b", "ünder", "t" * 65, "alerts\n"])
def test_invalid_topic_is_refused_as_a_setting_and_as_an_argument(topic):
    assert limits.topic_problem(topic) == "Use 1 to 64 letters, digits, - and _."
    assert _notify_problems(topic)


def _notify_problems(topic):
    task = registry.get("notify")
    assert task is not None
    return task.check([], {"topic": topic, "message": "Hello"})
