"""Form fields for the options of a job, made from their one description."""

from typing import Any, ClassVar

from django import forms

from schedules import clock
from schedules.models import Job
from schedules.result import sentence
from schedules.spec.job import ScheduleSpec, choices_of, shown_type
from schedules.tasks.forms.fields import Lines, Text, Whole
from schedules.web.forms import PageForm


class OptionsForm(PageForm):
    """A form with a field for each option; one that the class declares gets its words here, unless it has a hint."""

    spec: ClassVar[type[ScheduleSpec]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, option in self.spec.of_columns().items():
            made = field_of(name, option)
            field = self.fields.setdefault(name, made)
            field.label, field.help_text = made.label, field.help_text or made.help_text

    def clean(self) -> dict[str, Any]:
        """Replace what was typed by the values of the columns; what was left empty stays."""
        typed = {name: self.cleaned_data.get(name) for name in self.spec.of_columns()}
        given = {name: value for name, value in typed.items() if value not in (None, "", [])}
        columns, problems = self.spec.read_each(given, now=clock.now(), zone="UTC")
        for (name, *_), reason in problems:
            self.add_error(str(name), sentence(reason))
        self.cleaned_data |= columns
        return self.cleaned_data


def field_of(name: str, option: Any) -> forms.Field:
    """Return the form field for an option of a job."""
    kind = shown_type(option)
    words: dict[str, Any] = {"required": False, "label": option.title, "help_text": option.description}
    if choices := choices_of(option):
        refusal = {"invalid_choice": f"Choose one of: {', '.join(choices)}."}
        column: Any = Job._meta.get_field(name)
        return forms.ChoiceField(
            choices=column.choices, initial=column.get_default(), error_messages=refusal, **words
        )
    if kind is bool:
        return forms.BooleanField(**words)
    if kind is int:
        limits = {
            key: getattr(each, key) for each in option.metadata for key in ("ge", "le") if hasattr(each, key)
        }
        return Whole(min_value=limits.get("ge"), max_value=limits.get("le"), **words)
    if kind == list[str]:
        return Lines(**words | {"help_text": f"{option.description} One for each line."})
    return Text(**words)
