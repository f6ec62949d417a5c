"""The forms of the settings page and of the first steps."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from schedules import limits
from schedules.web.forms.rendering import PageForm
from schedules.web.forms.when import Zone


def check_topic(text: str) -> None:
    if problem := limits.topic_problem(text):
        raise ValidationError(problem)


class SettingsForm(PageForm):
    """The user's time zone, the topic of their notifications, and the one for failure alerts."""

    timezone = Zone(
        label="Your time zone", required=False, help_text="New jobs start with it, and times are shown in it."
    )
    topic = forms.CharField(
        label="Your topic",
        required=False,
        validators=[check_topic],
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text="Notifications go there unless they name another topic.",
    )
    failure_topic = forms.CharField(
        label="Tell failures to this topic",
        required=False,
        validators=[check_topic],
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text="Told when a job begins to fail, and when it is paused for failing. "
        "Empty: failures are only visible here.",
    )


class WelcomeForm(SettingsForm):
    """The same settings for a new user, and the text of a first reminder."""

    message = forms.CharField(label="What should it say?", max_length=500)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Here one topic is for both.
        del self.fields["topic"]
        zone, topic = self.fields["timezone"], self.fields["failure_topic"]
        zone.label, zone.help_text = "Time zone", "Times are shown on this clock; each job may have its own."
        topic.label, topic.help_text = (
            "Topic",
            "Failures of your jobs are told there too; change that under Settings.",
        )
        topic.widget.attrs["class"] = "mono"
        for field in (zone, topic):
            field.required = field.widget.is_required = True
