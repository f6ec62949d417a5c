"""Limits of stored values: text, moments, JSON and topics."""

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedules import limits
from schedules.tasks import registry


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Backup",
        "日本語 🙂",
        pytest.param("می\u200cخواهم", id="Persian with a non-joiner"),
        pytest.param("ᠠ\u180bᠨ", id="Mongolian with a selector"),
        pytest.param("👩\u200d💻 at work", id="joined emoji"),
        pytest.param("❤\ufe0f 1\ufe0f\u20e3 \u2139\ufe0f", id="emoji style"),
    ],
)
def test_ordinary_lines_are_accepted_and_kept(text):
    assert limits.line_problem(text) is None
    assert limits.strip_unprintable(text) == text


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


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        pytest.param("pay\U000e0061\U000e0062 me", "pay me", id="tag characters"),
        pytest.param("漢\U000e0100", "漢", id="selector of plane 14"),
        pytest.param("a\u200bb", "ab", id="zero-width space"),
        pytest.param("soft\u00adhyphen", "softhyphen", id="soft hyphen"),
        pytest.param("a\u200d", "a", id="joiner at the end"),
        pytest.param("a \u200d b", "a  b", id="joiner between spaces"),
        pytest.param("a\u200d🙂", "a🙂", id="joiner between a letter and an emoji"),
        pytest.param("🙂\ufe0f\ufe0f", "🙂\ufe0f", id="two selectors"),
        pytest.param("a\ufe0fb", "ab", id="selector after a letter"),
        pytest.param("🙂\ufe01", "🙂", id="selector without a meaning"),
        pytest.param("a\u180bb", "ab", id="Mongolian selector elsewhere"),
        pytest.param("\u115f\u1160\u3164\uffa0\u2800x", "x", id="fillers"),
    ],
)
def test_invisible_characters_are_refused_in_a_line_and_stripped_elsewhere(text, seen):
    assert "invisible" in (limits.line_problem(text) or "")
    assert limits.strip_unprintable(text) == seen


@given(
    st.text(
        st.sampled_from("a١語🙂❤1 \u200b\u200c\u200d\ufe0e\ufe0f\ufe00\u180b\u1820\u3164\u202e\U000e0041é")
    )
)
def test_nothing_invisible_is_left_after_stripping(text):
    stripped = limits.strip_unprintable(text)

    assert limits.line_problem(stripped) is None
    assert limits.strip_unprintable(stripped) == stripped


def test_misleading_characters_are_stripped_but_line_breaks_are_kept():
    assert limits.strip_unprintable("a\x00b\u202ec\n\td\x1b\ud800é") == "abc\n\tdé"


def test_line_without_unprintable_characters_is_not_read_character_by_character(monkeypatch):
    monkeypatch.setattr(limits, "_is_hidden", lambda character, *neighbours: pytest.fail(character))

    assert limits.strip_unprintable("one\tline\n日本語\n") == "one\tline\n日本語\n"


def test_moment_with_a_zone_is_accepted():
    assert limits.moment_problem(datetime(2026, 2, 4, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        pytest.param(datetime(2026, 2, 4), "zone", id="naive"),  # noqa: DTZ001
        pytest.param(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "past", id="before the start"),
        pytest.param(
            datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-2))), "future", id="after the end"
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


@pytest.mark.parametrize("topic", ["alerts", "a", "A-b_9", "t" * 64])
def test_topic_is_accepted_as_a_setting_and_as_an_argument(topic):
    assert limits.topic_problem(topic) is None
    assert not _notify_problems(topic)


@pytest.mark.parametrize(
    ("topic", "problem"),
    [
        ("", "Enter a topic."),
        ("two words!", 'Topics can\'t contain spaces or "!".'),
        ("a/b", 'Topics can\'t contain "/".'),
        ("ünder", 'Topics can\'t contain "ü".'),
        ("t" * 65, "Topics can't be longer than 64 characters."),
        ("alerts\n", "Topics can't contain line breaks."),
    ],
)
def test_invalid_topic_is_refused_as_a_setting_and_as_an_argument(topic, problem):
    assert limits.topic_problem(topic) == problem
    assert _notify_problems(topic)


def test_name_of_a_page_of_ntfy_is_refused_as_a_setting_and_as_an_argument():
    assert limits.topic_problem("docs") == "ntfy reserves this name. Choose another."
    assert _notify_problems("docs")


def _notify_problems(topic):
    task = registry.get("notify")
    assert task is not None
    return task.check([], {"topic": topic, "message": "Hello"})
