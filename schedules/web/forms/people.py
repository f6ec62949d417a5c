"""The forms of settings, of the welcome page and of tokens, and the choices that tokens share with the consent page."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any, cast

from django import forms
from django.core.exceptions import ValidationError
from django.urls import reverse_lazy

from schedules import limits
from schedules.models import Job, Profile, Token
from schedules.models.alert_rules import KINDS, RECOVERED, read_quiet_hours, rules_problem
from schedules.web.forms import PageForm
from schedules.web.forms.when import Zone
from schedules.when import durations

REMINDERS = [
    (0, "Never"),
    (3600, "Every hour"),
    (21_600, "Every 6 hours"),
    (86_400, "Every day"),
    (604_800, "Every week"),
]
# The smallest set first: models choose better among few tools, and their descriptions cost fewer tokens.
TOOLS = {
    "core": "Everyday tools",
    "": "All tools",
    "notifications": "Reminders and notifications only",
    "prompts": "Scheduled prompts only",
    "jobs": "Jobs only",
}
CONFIRM = {
    "never": "Never",
    "prompts": "Before a prompt or a command runs",
    "always": "Before any of its jobs runs",
}
# Keys are days.
LIFETIMES = {"30": "30 days", "90": "90 days", "365": "1 year", "": "No expiry"}


def check_topic(text: str) -> None:
    if problem := limits.topic_problem(text):
        raise ValidationError(problem)


def check_rules(text: str) -> None:
    if problem := rules_problem(text, of_person=True):
        raise ValidationError(problem)


def check_quiet_hours(text: str) -> None:
    try:
        read_quiet_hours(text)
    except ValueError as error:
        raise ValidationError(str(error)) from error


class SettingsForm(PageForm):
    """A user's time zone, default places and runner, alerts, and display of times."""

    timezone = Zone(
        label="Your time zone", required=False, help_text="Default for new jobs and for displaying times."
    )
    topic = forms.CharField(
        label="Your topic or channel",
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "list": "places"}),
        help_text="Notifications go there unless they name another.",
    )
    runner = forms.ChoiceField(
        label="Runner of your prompts", required=False, help_text="For prompts that name no runner."
    )
    failure_topic = forms.CharField(
        label="Alerts go to",
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "list": "places"}),
        help_text="A topic or channel. Leave empty to turn alerts off.",
    )
    alert_rules = forms.CharField(
        label="Alerts you don't want",
        required=False,
        max_length=200,
        validators=[check_rules],
        widget=forms.TextInput(attrs={"autocomplete": "off", "placeholder": "not late, not recovered"}),
        help_text=f"Empty for all of them: {', '.join((*KINDS, RECOVERED))}.",
    )
    quiet_hours = forms.CharField(
        label="Quiet hours",
        required=False,
        max_length=20,
        validators=[check_quiet_hours],
        widget=forms.TextInput(attrs={"autocomplete": "off", "placeholder": "22:00-07:00"}),
        help_text="Scheduled notifications, reminders and alerts wait until they end, and are sent once.",
    )
    alert_every = forms.TypedChoiceField(
        label="Remind me while it lasts",
        choices=REMINDERS,
        coerce=int,
        empty_value=None,
        required=False,
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

    def __init__(
        self,
        *args: Any,
        shows_initial: bool = False,
        channels: Collection[str] = (),
        runners: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        """Build the form; `shows_initial` adds the shown values as hidden fields, so that only changes are saved."""
        super().__init__(*args, **kwargs)
        self.channels = channels
        self._offer_runners(runners)
        self._offer_stored_interval()
        for field in self.fields.values():
            field.show_hidden_initial = shows_initial

    def _offer_runners(self, runners: Sequence[str]) -> None:
        stored = self.initial.get("runner")
        names = [*runners, stored] if stored and stored not in runners else runners
        if not names:
            del self.fields["runner"]
            return
        field = cast(forms.ChoiceField, self.fields["runner"])
        field.choices = [("", "The default of this installation"), *((name, name) for name in names)]

    def _offer_stored_interval(self) -> None:
        """Offer an interval that was set elsewhere, too."""
        seconds = self.initial.get("alert_every")
        if seconds is not None and seconds not in dict(REMINDERS):
            field = cast(forms.TypedChoiceField, self.fields["alert_every"])
            field.choices = [*REMINDERS, (seconds, f"Every {durations.in_words(timedelta(seconds=seconds))}")]

    def clean_topic(self) -> str:
        return self._clean_place("topic")

    def clean_failure_topic(self) -> str:
        return self._clean_place("failure_topic")

    def _clean_place(self, name: str) -> str:
        text: str = self.cleaned_data[name]
        channel = text.removeprefix(Job.CHANNEL_PREFIX).strip().casefold()
        if text and channel not in {each.casefold() for each in self.channels}:
            check_topic(text)
        return text

    def changes(self) -> dict[str, Any]:
        """Return the settings to save, without those that the user left unchanged."""
        unchanged = {name for name in self.fields if self[name].html_initial_name in self.data}
        unchanged -= set(self.changed_data)
        return {name: value for name, value in self.cleaned_data.items() if name not in unchanged}


class WelcomeForm(SettingsForm):
    """Time zone and topic of a new user, and the text of a first reminder."""

    message = forms.CharField(
        label="Message", max_length=500, error_messages={"required": "Enter a message."}
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # A new user enters one topic, for both notifications and alerts.
        for name in set(self.fields) - {"timezone", "failure_topic", "message"}:
            del self.fields[name]
        zone, topic = self.fields["timezone"], self.fields["failure_topic"]
        zone.label = "Time zone"
        zone.help_text = "Used to display times. Each job can have its own time zone."
        topic.label = "Topic"
        topic.help_text = "We'll also notify this topic when a job fails. You can change it in Settings."
        topic.widget.attrs |= {
            "class": "mono",
            "list": None,
            "hx-get": reverse_lazy("schedules:topic-qr"),
            "hx-trigger": "input changed delay:300ms",
            "hx-target": "#qr",
            "hx-swap": "outerMorph",
        }
        zone.error_messages["required"] = "Enter a time zone."
        topic.error_messages["required"] = "Enter a topic."
        for field in (zone, topic):
            field.required = field.widget.is_required = True


class TokenForm(PageForm):
    name = forms.CharField(
        label="Name", max_length=100, help_text='Appears in the activity log, e.g. "laptop".'
    )
    scopes = forms.ChoiceField(
        label="Access", choices=[("read,write", "Read and write"), ("read", "Read only")], required=False
    )
    tools = forms.ChoiceField(
        label="Tools", choices=list(TOOLS.items()), initial=next(iter(TOOLS)), required=False
    )
    kind = forms.ChoiceField(
        label="Type",
        choices=Token.Kind.choices,
        required=False,
        help_text="A program may do through the HTTP API what you may, with commands and secrets; an agent may not.",
    )
    confirm = forms.ChoiceField(
        label="Ask me to confirm its jobs",
        choices=list(CONFIRM.items()),
        required=False,
        help_text="What it schedules or changes then waits, paused, until you confirm it.",
    )
    expires = forms.ChoiceField(
        label="Expires", choices=list(LIFETIMES.items()), initial="365", required=False
    )

    def options(self) -> dict[str, Any]:
        """Return the arguments for `services.issue_token`."""
        cleaned = self.cleaned_data
        return {
            "name": cleaned["name"],
            "scopes": (cleaned["scopes"] or "read,write").split(","),
            "families": [cleaned["tools"]] if cleaned["tools"] else [],
            "confirm": cleaned["confirm"] or Token.Confirm.NEVER,
            "kind": cleaned["kind"] or Token.Kind.CONVERSATION,
            "expires_in": timedelta(days=int(cleaned["expires"])) if cleaned["expires"] else None,
        }
