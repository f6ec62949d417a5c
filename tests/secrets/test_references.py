"""References to secrets in texts and JSON values."""

import pytest

from schedules.secrets.references import (
    escape_for_url,
    fill_in_secrets,
    names_in,
    problem_in,
    without_references,
)

VALUE = {"a": ["x ${secret:ONE} y", 3, None], "b": {"c": "${secret:TWO}${secret:ONE}"}}


def test_references_are_found_and_replaced_everywhere():
    assert names_in(VALUE) == {"ONE", "TWO"}
    assert fill_in_secrets(VALUE, {"ONE": "1", "TWO": "${secret:ONE}"}) == {
        "a": ["x 1 y", 3, None],
        "b": {"c": "${secret:ONE}1"},
    }


@pytest.mark.parametrize(
    "text", ["${secret:}", "${secret:1A}", "${secret: A}", "${secret:A", "${secret:A-B}"]
)
def test_broken_reference_is_a_problem(text):
    assert problem_in({"a": [text]})


@pytest.mark.parametrize("text", ["", "$secret", "${HOME}", "${secret:_a1}", "${ secret:A}"])
def test_other_text_is_not(text):
    assert problem_in(text) is None


def test_secret_cannot_begin_another_part_of_an_address():
    assert escape_for_url("a/b?c#d&e=f g:h") == "a%2Fb%3Fc%23d%26e%3Df%20g:h"
    assert without_references("https://a/${secret:A}?b") == "https://a/secret?b"
