"""Errors of a service, shown on a form of the pages or the admin."""

from collections.abc import Mapping

from django.forms import BaseForm

from schedules.result import Err, sentence


def add_errors(form: BaseForm, problem: Err, *, fields: Mapping[str, str] | None = None) -> None:
    """Add the errors of a service to the fields they belong to, or to the form as a whole.

    `fields` maps columns to form fields where their names differ.
    """
    for column, reasons in problem.errors.items():
        field = (fields or {}).get(column, column)
        form.add_error(field if field in form.fields else None, list(reasons))
    if not problem.errors:
        form.add_error(None, sentence(problem.message))
