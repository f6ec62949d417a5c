"""The forms of the settings page and the welcome page."""

from collections.abc import Iterable
from typing import Any, cast

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.urls import reverse_lazy

from schedules import limits
from schedules.models import Profile
from schedules.web.forms import PageForm
from schedules.web.forms.when import Zone


def check_topic(text: str) -> None:
    if problem := limits.topic_problem(text):
        raise ValidationError(problem)


class SettingsForm(PageForm):
    """A user's time zone, topics for notifications and failure alerts, and display of times."""

    timezone = Zone(
        label="Your time zone", required=False, help_text="Default for new jobs and for displaying times."
    )
    topic = forms.CharField(
        label="Your topic",
        required=False,
        validators=[check_topic],
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text="Notifications go there unless they name another topic.",
    )
    failure_topic = forms.CharField(
        label="Failure alerts topic",
        required=False,
        validators=[check_topic],
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text="Get a push when a job starts failing or is paused automatically. "
        "Leave empty to turn alerts off.",
    )
    clock_hours = forms.TypedChoiceField(
        label="Clock",
        choices=Profile.ClockHours.choices,
        coerce=int,
        empty_value=None,
        required=False,
    )
    week_start = forms.TypedChoiceField(
        label="Week starts on",
        choices=Profile.WeekStart.choices,
        coerce=int,
        empty_value=None,
        required=False,
    )

    def __init__(self, *args: Any, shows_initial: bool = False, **kwargs: Any) -> None:
        """Build the form; `shows_initial` adds the shown values as hidden fields, so that only changes are saved."""
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.show_hidden_initial = shows_initial

    def changes(self) -> dict[str, Any]:
        """Return the settings to save, without those that the user left unchanged."""
        unchanged = {name for name in self.fields if self._shown(name) is not None} - set(self.changed_data)
        return {name: value for name, value in self.cleaned_data.items() if name not in unchanged}

    def conflicts(self) -> dict[str, str]:
        """Return an error for each setting changed here that was also changed elsewhere after the page was opened."""
        stored = {name: self._stored(name) for name in self.changes()}
        return {
            name: f"It was changed to “{text or 'nothing'}” after you opened this page. Save again to replace that."
            for name, text in stored.items()
            if self._shown(name) not in (None, text) and str(self.cleaned_data[name]) != text
        }

    def data_with_stored(self, names: Iterable[str]) -> QueryDict:
        """Return the form data as if the page had shown the stored values of these settings."""
        data = cast(QueryDict, self.data).copy()
        for name in names:
            data[self[name].html_initial_name] = self._stored(name)
        return data

    def _shown(self, name: str) -> str | None:
        return self.data.get(self[name].html_initial_name)

    def _stored(self, name: str) -> str:
        value = self.initial.get(name)
        return "" if value is None else str(value)


class WelcomeForm(SettingsForm):
    """Time zone and topic of a new user, and the text of a first reminder."""

    message = forms.CharField(
        label="Message", max_length=500, error_messages={"required": "Enter a message."}
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # A new user enters one topic, for both notifications and alerts.
        for name in ("topic", "clock_hours", "week_start"):
            del self.fields[name]
        zone, topic = self.fields["timezone"], self.fields["failure_topic"]
        zone.label = "Time zone"
        zone.help_text = "Used to display times. Each job can have its own time zone."
        topic.label = "Topic"
        topic.help_text = "We'll also notify this topic when a job fails. You can change it in Settings."
        topic.widget.attrs |= {
            "class": "mono",
            "hx-get": reverse_lazy("schedules:topic-qr"),
            "hx-trigger": "input changed delay:300ms",
            "hx-target": "#qr",
            "hx-swap": "outerMorph",
        }
        zone.error_messages["required"] = "Enter a time zone."
        topic.error_messages["required"] = "Enter a topic."
        for field in (zone, topic):
            field.required = field.widget.is_required = True
