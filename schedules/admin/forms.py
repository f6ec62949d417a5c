"""Form fields and forms of the admin pages."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.dateparse import parse_duration
from django.utils.duration import duration_string

from schedules import limits
from schedules.models import Job, Profile, Token
from schedules.result import Ok, sentence
from schedules.services.jobs.masked_arguments import fill_in, shown_arguments
from schedules.services.jobs.validation import CALL, EDITABLE
from schedules.services.people.preferences import preference
from schedules.services.people.tokens import FAMILIES, SCOPES
from schedules.tasks import registry
from schedules.tasks.forms.arguments import Arguments
from schedules.tasks.forms.fields import Lines
from schedules.web.messages import add_errors
from schedules.when import durations, phrases
from schedules.when.zone_names import zone_named


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


class TagsField(forms.CharField):
    """Tags, separated by commas."""

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(map(str, value)) if isinstance(value, list) else value

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        return list(dict.fromkeys(tag.strip() for tag in text.split(",") if tag.strip()))

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool((initial or []) != self.clean(data or ""))


class LocalDateTimeInput(forms.DateTimeInput):
    """One labelled input for a date and a 24-hour time, in the zone of the person."""

    def __init__(self, attrs: dict[str, Any] | None = None) -> None:
        # A fixed format that Django does not localize, because the control accepts only ISO times.
        super().__init__({"type": "datetime-local", "step": "1"} | (attrs or {}), format="%Y-%m-%dT%H:%M:%S")


class MomentField(forms.DateTimeField):
    """A time of a row; if unchanged, it keeps its microseconds and is valid even in an hour that repeats in autumn."""

    shown: datetime | None = None

    def to_python(self, value: Any) -> datetime | None:
        if self.shown:
            # In UTC, no hour repeats.
            with timezone.override(UTC):
                typed = super().to_python(value)
            if typed == timezone.make_naive(self.shown).replace(microsecond=0, tzinfo=UTC):
                return self.shown
        return super().to_python(value)

    def has_changed(self, initial: Any, data: Any) -> bool:
        return super().has_changed(self.shown, data)


class ArgumentsField(forms.JSONField):
    """JSON within our limits of size and depth, which are checked before other code reads it."""

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


MOMENTS = ("run_at", "anchor_at", "ends_at")


class JobAdminForm(forms.ModelForm[Job]):
    task = forms.ChoiceField(choices=_task_choices)
    args = ArgumentsField(required=False, initial=list, help_text="A JSON list of positional arguments.")
    kwargs = ArgumentsField(required=False, initial=dict, help_text="A JSON object of named arguments.")
    tags = TagsField(required=False, help_text="Separated by commas: home, backup.")
    grants = Lines(
        label="Permissions of its agent",
        required=False,
        help_text="Of a prompt, one for each line: Bash(git push:*). Its runner must allow them.",
    )
    calendars = TagsField(
        required=False, help_text="The names of the owner's calendars that close times for it: DE-BY, office."
    )
    on_closed = forms.ChoiceField(
        label="A run at a closed time",
        choices=Job.OnClosed.choices,
        required=False,
        initial=Job.OnClosed.SKIP,
    )
    every = DelayField(required=False, help_text="For type interval: 15m, 1h30m, 1d.")
    spread = DelayField(
        required=False,
        help_text="Random delay of every run, below this and always the same for the job: 20m. Empty for none.",
    )
    backoff = DelayField(
        label="First retry after",
        initial=Job().backoff,
        help_text="Like 10s or 5m; doubles each time, unless fixed.",
    )
    timeout = DelayField(initial=Job().timeout, help_text="How long one attempt may take: 30s, 10m, 1h.")
    timezone = forms.CharField(max_length=64, help_text="A city or a name like Europe/Berlin.")
    seen_revision = forms.IntegerField(required=False, widget=forms.HiddenInput)
    seen_zone = forms.CharField(required=False, widget=forms.HiddenInput)

    class Meta:
        model = Job
        fields = EDITABLE
        help_texts = {
            "run_at": "For type once, in your own time zone.",
            "anchor_at": "Interval start, in your own time zone. Leave empty to start one interval from now.",
            "cron": "For type cron, five fields: 30 8 * * 1-5.",
            "ends_at": "No run after this time, in your own time zone.",
        }
        widgets = dict.fromkeys(MOMENTS, LocalDateTimeInput)
        field_classes = dict.fromkeys(MOMENTS, MomentField)

    def clean_on_closed(self) -> str:
        return self.cleaned_data["on_closed"] or Job.OnClosed.SKIP

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["seen_revision"].initial = self.instance.revision
        self.fields["seen_zone"].initial = timezone.get_current_timezone_name()
        for name, field in self.fields.items():
            if isinstance(field, MomentField):
                field.shown = getattr(self.instance, name)
        self.typed: dict[str, Any] = {}
        if self.instance.pk:
            self._show_arguments()
            if registry.get(self.instance.task) is None:
                missing = (self.instance.task, f"{self.instance.task} (not installed)")
                self.fields["task"].choices = [*_task_choices(), missing]  # type: ignore[attr-defined]

    def _show_arguments(self) -> None:
        self.initial["args"], self.initial["kwargs"] = shown_arguments(self.instance)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        return self._with_arguments(cleaned)

    def clean_seen_zone(self) -> str:
        zone: str = self.cleaned_data["seen_zone"]
        if zone and zone != timezone.get_current_timezone_name():
            self.add_error(None, "Your time zone has changed since you opened this form: load it again.")
        return zone

    def clean_spread(self) -> timedelta:
        return self.cleaned_data["spread"] or timedelta(0)

    def clean_timezone(self) -> str:
        return zone_named(self.cleaned_data["timezone"])

    def columns(self) -> dict[str, Any]:
        """Return the columns of the job, with the arguments as typed."""
        values = self.cleaned_data | self.typed
        return {name: values[name] for name in EDITABLE if name in values}

    def changed_columns(self) -> set[str]:
        """Return the changed columns, and for a changed `every` also the unit and start, which the service resets."""
        changed = {name for name in self.changed_data if name in EDITABLE}
        is_interval = self.cleaned_data["trigger_type"] == Job.TriggerType.INTERVAL
        return changed | {"calendar_unit", "anchor_at"} if is_interval and "every" in changed else changed

    def _with_arguments(self, cleaned: dict[str, Any]) -> dict[str, Any]:
        """Validate the arguments with their masks replaced by the secrets, but keep what was typed for the service."""
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

    def _update_errors(self, errors: ValidationError) -> None:
        # Drop model errors of an unchanged call, and of fields with form errors: the model saw another value there.
        ignored = {*self.errors, *(["kwargs"] if "args" in self.errors else [])}
        if CALL.isdisjoint(self.changed_data):
            ignored |= CALL
        remaining = {name: messages for name, messages in errors.error_dict.items() if name not in ignored}
        if remaining:
            super()._update_errors(ValidationError(remaining))  # type: ignore[misc]

    def _get_validation_exclusions(self) -> set[str]:
        # The service sets the anchor of an interval; until then, the constraint on the trigger fails.
        return super()._get_validation_exclusions() | {"anchor_at"}  # type: ignore[misc, no-any-return]


class TaskJobForm(JobAdminForm):
    """The form of a job with a registered task: one field per argument instead of JSON."""

    arguments: Arguments

    def _show_arguments(self) -> None:
        if self.instance.task == self.arguments.task.name:
            self.initial.update(self.arguments.initial(self.instance.args, self.instance.kwargs))
            self.arguments.fit(self.fields, self.initial)

    def _with_arguments(self, cleaned: dict[str, Any]) -> dict[str, Any]:
        if "task" not in cleaned:
            return cleaned
        job = self.instance
        is_stored = not job._state.adding and job.task == self.arguments.task.name
        stored = self.arguments.stored(job.args, job.kwargs) if is_stored else None
        collected = self.arguments.collect(self, stored)
        if collected is None or (is_stored and not self.arguments.is_changed(self)):
            return cleaned
        args, kwargs = collected
        self.typed = {"args": args, "kwargs": kwargs}
        match fill_in(self.instance if self.instance.pk else None, {"task": cleaned["task"], **self.typed}):
            case Ok(filled):
                problems = self.arguments.problems(filled["args"], filled["kwargs"])
                self.instance.args, self.instance.kwargs = filled["args"], filled["kwargs"]
            case refusal:
                problems = self.arguments.secret_problems(refusal)
        for key, messages in problems.items():
            self.add_error(key, messages)
        return cleaned

    def changed_columns(self) -> set[str]:
        changed = super().changed_columns()
        return changed | {"args", "kwargs"} if self.arguments.is_changed(self) else changed

    def _update_errors(self, errors: ValidationError) -> None:
        # The fields of the single arguments already show these.
        remaining = {
            name: messages for name, messages in errors.error_dict.items() if name not in ("args", "kwargs")
        }
        if remaining:
            super()._update_errors(ValidationError(remaining))


def job_form(task_name: str) -> type[JobAdminForm]:
    """Return the form for jobs of a task; without a registered task, the arguments are JSON."""
    task = registry.get(task_name)
    if task is None:
        return JobAdminForm
    arguments = Arguments(task)
    # None removes the fields of the base class.
    attributes = {"arguments": arguments, "args": None, "kwargs": None, **arguments.fields()}
    return type("TaskJobForm", (TaskJobForm,), attributes)


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
        help_text="Tool groups (none selected = all).",
    )
    confirm = forms.ChoiceField(
        choices=Token.Confirm.choices,
        required=False,
        help_text="Which of the jobs that it makes wait until a person confirms them.",
    )
    expires_in = DelayField(required=False, help_text="e.g. 365d; leave empty for no expiry.")

    def clean_confirm(self) -> str:
        return self.cleaned_data["confirm"] or Token.Confirm.NEVER.value

    class Meta:
        model = Token
        fields = ["owner", "name", "kind", "scopes", "families", "confirm"]


class ProfileForm(forms.ModelForm[Profile]):
    class Meta:
        model = Profile
        fields = ["timezone", "topic", "failure_topic", "runner", "alert_rules", "quiet_hours", "alert_every"]
        help_texts = {
            "topic": "A topic or the name of a channel, where notifications go by default.",
            "failure_topic": "A topic or the name of a channel, where alerts go.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("topic", "failure_topic"):
            self.initial[name] = preference(self.instance, name)
        # Whoever may only view a profile gets a form without fields.
        if every := self.fields.get("alert_every"):
            every.required = False
        # With hidden initial values, only changes are saved, and do not overwrite those that the owner made meanwhile.
        for field in self.fields.values():
            field.show_hidden_initial = True


def delay_text(delay: timedelta) -> str:
    """Format a duration as people type it: 1d2h30m10s; fractions of a second and zero in Django's format."""
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
        # Recognized, but too large: Django's own field reports it.
        return True
