"""Form fields and forms of the admin pages."""

from datetime import timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.dateparse import parse_duration
from django.utils.duration import duration_string

from schedules import limits
from schedules.form_errors import add_errors
from schedules.models import Job, Profile, Token
from schedules.result import Ok, sentence
from schedules.services.masked_arguments import fill_in, shown_arguments
from schedules.services.tokens import FAMILIES, SCOPES
from schedules.services.validation import EDITABLE
from schedules.tasks import registry
from schedules.when import durations, phrases


class DelayField(forms.DurationField):
    """A duration like 10m or 1h30m, or in Django's format 01:30:00."""

    def prepare_value(self, value: Any) -> Any:
        return delay_text(value) if isinstance(value, timedelta) else value

    def to_python(self, value: Any) -> timedelta | None:
        if value in self.empty_values or isinstance(value, timedelta):
            return value or None
        try:
            return phrases.parse_delay(value)
        except phrases.PhraseError as error:
            if not _is_django_duration(value):
                raise ValidationError(sentence(str(error)), code="invalid") from error
        return super().to_python(value)


class ArgumentsField(forms.JSONField):
    """JSON within our limits of size and depth, checked before any other code reads it."""

    widget = forms.Textarea(attrs={"rows": 3})

    def to_python(self, value: Any) -> Any:
        try:
            parsed = super().to_python(value)
        except (ValueError, RecursionError) as error:
            # The parser itself fails on deep nesting and on numbers with thousands of digits.
            raise ValidationError("This JSON is nested too deeply or has a number too long.") from error
        if problem := limits.json_problem(parsed, max_bytes=settings.CRONTY_MAX_JSON_BYTES):
            raise ValidationError(problem, code="invalid")
        return parsed


def _task_choices() -> list[tuple[str, str]]:
    return [("", "---------"), *((task.name, f"{task.title} ({task.name})") for task in registry.all_tasks())]


class JobAdminForm(forms.ModelForm[Job]):
    task = forms.ChoiceField(choices=_task_choices)
    args = ArgumentsField(required=False, initial=list, help_text="A JSON list of positional arguments.")
    kwargs = ArgumentsField(required=False, initial=dict, help_text="A JSON object of named arguments.")
    tags = ArgumentsField(required=False, initial=list, help_text='Like ["home", "backup"].')
    every = DelayField(required=False, help_text="For type interval: 15m, 1h30m, 1d.")
    backoff = DelayField(
        initial=Job().backoff,
        help_text="How long to wait before the second attempt; it doubles each time.",
    )
    timeout = DelayField(initial=Job().timeout, help_text="How long one attempt may take.")
    seen_revision = forms.IntegerField(required=False, widget=forms.HiddenInput)

    class Meta:
        model = Job
        fields = EDITABLE
        help_texts = {
            "run_at": "For type once, in UTC.",
            "anchor_at": "For type interval: where its grid starts, in UTC; empty is one interval from now.",
            "cron": "For type cron, five fields: 30 8 * * 1-5.",
            "timezone": "The zone of a cron expression: Europe/Berlin.",
            "ends_at": "No run after this moment, in UTC.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["seen_revision"].initial = self.instance.revision
        self.typed: dict[str, Any] = {}
        if self.instance.pk:
            self.initial["args"], self.initial["kwargs"] = shown_arguments(self.instance)

    def clean(self) -> dict[str, Any]:
        """Check the arguments with the secrets that masks stand for, but hand on what was typed."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        columns: dict[str, Any] = {
            name: cleaned[name] for name in ("task", "args", "kwargs") if name in cleaned
        }
        self.typed = {name: value for name, value in columns.items() if name != "task"}
        match fill_in(self.instance if self.instance.pk else None, columns):
            case Ok(filled):
                return cleaned | filled
            case problem:
                add_errors(self, problem)
        return cleaned

    def clean_args(self) -> Any:
        return self.cleaned_data["args"] or []

    def clean_kwargs(self) -> Any:
        return self.cleaned_data["kwargs"] or {}

    def clean_tags(self) -> Any:
        return self.cleaned_data["tags"] or []

    def _update_errors(self, errors: ValidationError) -> None:
        # Skip fields that have form errors: the model would complain about another value.
        unread = {*self.errors, *(["kwargs"] if "args" in self.errors else [])}
        found = {name: words for name, words in errors.error_dict.items() if name not in unread}
        if found:
            super()._update_errors(ValidationError(found))  # type: ignore[misc]

    def _get_validation_exclusions(self) -> set[str]:
        # The service sets the anchor of an interval; until then the trigger's constraint is not met.
        return super()._get_validation_exclusions() | {"anchor_at"}  # type: ignore[misc, no-any-return]


class TokenAdminForm(forms.ModelForm[Token]):
    scopes = forms.MultipleChoiceField(
        choices=[(scope, scope) for scope in SCOPES],
        initial=SCOPES,
        widget=forms.CheckboxSelectMultiple,
    )
    families = forms.MultipleChoiceField(
        choices=[(family, family) for family in FAMILIES],
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="The tool families it is offered; none means all.",
    )
    expires_in = DelayField(required=False, help_text="Like 365d; empty is never.")

    class Meta:
        model = Token
        fields = ["owner", "name", "kind", "scopes", "families"]


class ProfileForm(forms.ModelForm[Profile]):
    class Meta:
        model = Profile
        fields = ["timezone", "topic", "failure_topic"]


def delay_text(delay: timedelta) -> str:
    """Format a duration as it can be typed: 1d2h30m10s; fractions and zero in Django's format."""
    if delay <= timedelta(0) or delay.microseconds:
        return duration_string(delay)
    return durations.typed(delay)


def _is_django_duration(text: str) -> bool:
    # Django takes a long time to parse a megabyte of digits.
    if len(text) > phrases.MAX_LENGTH:
        return False
    try:
        return parse_duration(text) is not None
    except OverflowError:
        # Django's own field reports this error.
        return True
