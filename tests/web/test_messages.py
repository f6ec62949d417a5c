"""Refusals of a service on a form."""

from django import forms

from schedules.result import Code, Err, invalid
from schedules.web.messages import add_errors


class _Form(forms.Form):
    name = forms.CharField(required=False)
    when = forms.CharField(required=False)


def test_error_is_shown_at_the_field_it_names():
    form = _Form({})

    add_errors(form, invalid("name", "Too long."))

    assert form.errors == {"name": ["Too long."]}


def test_error_of_a_column_is_shown_at_the_field_for_it():
    form = _Form({})

    add_errors(form, Err(Code.INVALID, errors={"cron": ["Odd.", "Really."]}), fields={"cron": "when"})

    assert form.errors == {"when": ["Odd.", "Really."]}


def test_error_without_a_field_is_shown_above_the_form_as_a_sentence():
    form = _Form({})

    add_errors(form, invalid("unknown", "Odd."))
    add_errors(form, Err(Code.TOO_MANY_TOKENS, limit=3))

    assert form.non_field_errors() == ["Odd.", "At most 3 tokens; revoke one first."]
