"""Argument templates: what is filled in, and what can never become an option."""

import pytest

from schedules.tasks.commands.templates import fill_in, option_problem, template_problem

HOSTILE = [
    "-rf",
    "--",
    "--exec=sh",
    "a b",
    "*",
    "$(reboot)",
    "`reboot`",
    "{other}",
    "${secret:OTHER}",
    "Grüße 🌵",
]


@pytest.mark.parametrize("value", HOSTILE)
def test_value_is_filled_in_as_it_is_and_never_read_as_a_template(value):
    values = {"name": value, "other": "stolen"}

    assert fill_in("<{name}>", values, {"OTHER": "stolen"}) == f"<{value}>"


def test_braces_that_name_no_parameter_are_ordinary_characters():
    template = '{{name}} {"json": {"a": 1}} ${HOME} {print $1} ${secret:KEY}'

    assert fill_in(template, {}, {"KEY": "k3y"}) == '{name} {"json": {"a": 1}} ${HOME} {print $1} k3y'


@pytest.mark.parametrize("template", ["-{x}", "--{x}", "-o{x}", "--{x}=1", "-${secret:X}"])
def test_template_in_which_a_value_chooses_an_option_is_refused(template):
    assert "could become an option" in (template_problem(template) or "")


@pytest.mark.parametrize("template", ["{x}", "--option={x}", "-o={x}", "a-{x}", "--", "-v", "--{{x}}"])
def test_other_templates_are_fine(template):
    assert template_problem(template) is None


@pytest.mark.parametrize(
    ("template", "argument", "is_option"),
    [("{x}", "-rf", True), ("{x}{y}", "-rf", True), ("{x}", "rf-", False), ("--a={x}", "--a=-rf", False)],
)
def test_filled_in_argument_must_not_begin_with_a_dash_of_a_value(template, argument, is_option):
    assert bool(option_problem(template, argument)) == is_option
