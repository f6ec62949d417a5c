import pytest
from django.http import QueryDict

from schedules.tasks.forms.fields import Json, Pairs, json_problem, looks_like_json, read_pairs


def test_problem_of_json_says_what_to_change():
    for text, words in [
        ('{"a": 1}', ""),
        ('{"a": 1,}', "remove the comma before } in line 1."),
        ('{"a": [1,\n2,\n]}', "remove the comma before ] in line"),
        ("{'a': 1}", "use double quotes in line 1."),
        ('{"a": ', "it ends too early."),
        ("{a: 1}", "there is a mistake in line 1, column 2."),
        ("[" * 100_000, "it is nested too deeply."),
        ("1" * 5_000, "a number in it has too many digits."),
    ]:
        assert json_problem(text).startswith(words)
        assert bool(json_problem(text)) == bool(words)


def test_json_field_names_no_parser():
    with pytest.raises(Exception, match=r"^\[\"This isn.t valid JSON: use double quotes in line 1") as caught:
        Json().clean("{'a': 1}")

    assert "Expecting" not in str(caught.value)


@pytest.mark.parametrize(("text", "is_like"), [("{x}", True), (" [1,] ", True), ("{x", False), ("", False)])
def test_text_in_brackets_looks_like_json(text: str, is_like: bool):
    assert looks_like_json(text) == is_like


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", []),
        ('{"X-Key": "abc", "n": 1}', [("X-Key", "abc"), ("n", "1")]),
        ("X-Key: abc\n\nAuthorization: Bearer a:b ", [("X-Key", "abc"), ("Authorization", "Bearer a:b")]),
        ('[["X-Key", "abc"], ["A: b", ""]]', [("X-Key", "abc"), ("A", "b")]),
    ],
)
def test_rows_lines_and_json_are_read(text: str, rows: list[tuple[str, str]]):
    assert read_pairs(text) == rows


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("X-Key", "Enter a name and a value"),
        ("[1]", "Enter a name and a value"),
        ('{"a": }', "This isn't valid JSON"),
        ('[["", "abc"]]', "Enter a name for each value."),
        ("A: 1\nA: 2", "A is there twice."),
    ],
)
def test_error_of_rows_says_what_to_enter(text: str, words: str):
    with pytest.raises(Exception, match=words):
        Pairs(required=False).clean(text)


def test_rows_of_a_form_become_one_text_and_are_shown_again():
    field = Pairs(required=False)
    data = QueryDict("h.name=X-Key&h.value=abc&h.name=&h.value=")

    text = field.widget.value_from_datadict(data, {}, "h")

    assert field.clean(text) == {"X-Key": "abc"}
    assert field.has_changed('{"X-Key": "abc"}', text) is False
    assert field.has_changed("", text) is True
    shown = field.widget.render("h", text, {"id": "id_h"})
    assert 'value="X-Key"' in shown
    assert shown.count('name="h.name"') == 3


def test_unreadable_text_is_shown_unchanged():
    assert 'value="nonsense"' in Pairs().widget.render("h", "nonsense", {"id": "id_h"})
