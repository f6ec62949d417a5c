"""The errors of a service on a form, for the pages and the admin alike."""

from collections.abc import Mapping

from django.forms import BaseForm

from schedules.result import Err


def add_errors(form: BaseForm, problem: Err, *, fields: Mapping[str, str] | None = None) -> None:
    """Add what a service refused to the fields it names, and everything else to the form as a whole.

    `fields` maps a column to the form's field for it, where their names differ.
    """
    for column, reasons in problem.errors.items():
        field = (fields or {}).get(column, column)
        form.add_error(field if field in form.fields else None, list(reasons))
    if not problem.errors:
        form.add_error(None, problem.message)
