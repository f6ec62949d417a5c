"""The form of the pages that create and edit a job."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from schedules import clock
from schedules.models import Job
from schedules.models.alert_rules import RULES_OF_JOB
from schedules.models.triggers import TRIGGER_COLUMNS
from schedules.result import Err, Ok
from schedules.secrets.masking import has_mask
from schedules.services.jobs.creation import policy_defaults
from schedules.services.jobs.forecasts import policies_of
from schedules.services.jobs.later_moves import TASK as MOVE_JOBS
from schedules.services.jobs.masked_arguments import fill_in
from schedules.tasks import registry
from schedules.tasks.forms.arguments import Arguments
from schedules.tasks.forms.fields import Lines, Text, Whole
from schedules.web.forms.when import Span, WhenForm, when_of
from schedules.web.messages import add_errors
from schedules.when import durations
from schedules.when.triggers import TriggerError

FIRST_TASKS = ("notify", "webhook", "prompt", "heartbeat")
SCHEDULE_FIELDS = {"when", "phrase", "every_count", "every_unit", "every_start", "run_at", "timezone"}
WHEN_ORDER = (
    "when",
    "phrase",
    "every_count",
    "every_unit",
    "every_start",
    "run_at",
    "timezone",
    "ends_at",
    "max_runs",
    "spread",
    "calendars",
    "on_closed",
)
# Which form field shows the errors of a column.
FIELD_OF_COLUMN = {"trigger_type": "when", "cron": "phrase", "every": "every_count"}


class JobForm(WhenForm):
    """The form of a job: task, schedule and policies."""

    name = Text(
        max_length=200,
        error_messages={"required": "Enter a name.", "max_length": "Use at most %(limit_value)d characters."},
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    task = forms.ChoiceField(
        label="What should happen",
        choices=(),
        error_messages={"required": "Choose what should happen.", "invalid_choice": "Choose one of these."},
    )
    tags = Text(required=False, help_text="To find and group jobs; separate them with commas")
    grants = Lines(
        label="Permissions of its agent",
        required=False,
        help_text="What it may use besides the tools of its runner, one for each line: Bash(git push:*)",
    )
    attempts = Whole(
        label="Attempts",
        required=False,
        min_value=1,
        max_value=10,
        help_text="The first one and its retries",
    )
    backoff = Span(
        label="First retry after",
        help_text="Like 10s or 5m; doubles each time, unless fixed",
        placeholder="10s",
    )
    timeout = Span(label="Timeout", help_text="Like 30s, 10m or 1h")
    overlap = forms.ChoiceField(
        label="If the previous run is still running",
        choices=Job.Overlap.choices,
        required=False,
        initial=Job.Overlap.SKIP,
    )
    catch_up = forms.ChoiceField(
        label="If runs were missed during downtime",
        choices=Job.CatchUp.choices,
        required=False,
        initial=Job.CatchUp.ONCE,
    )
    pause_after_failures = Whole(
        label="Pause after this many failures in a row",
        required=False,
        min_value=0,
        max_value=1000,
        help_text="0 = never",
        widget=forms.NumberInput(
            attrs={"placeholder": Job._meta.get_field("pause_after_failures").get_default()}
        ),
    )
    fixed_backoff = forms.BooleanField(label="Wait equally long before each retry", required=False)
    alerts = Text(
        label="Failure alerts",
        required=False,
        max_length=Job._meta.get_field("alerts").max_length,
        help_text=f"{RULES_OF_JOB}; separate them with commas; empty for your settings",
    )
    at_most_once = forms.BooleanField(
        label="Don't retry after a crash",
        required=False,
        help_text="For actions that must not happen twice, e.g. payments",
    )
    revision = forms.IntegerField(widget=forms.HiddenInput, required=False)
    opened = forms.CharField(widget=forms.HiddenInput, required=False, max_length=40)
    idempotency_key = forms.CharField(widget=forms.HiddenInput, required=False, max_length=64)

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        zone: str,
        place: Mapping[str, str] | None = None,
        job: Job | None = None,
        is_copy: bool = False,
        tasks: Sequence[registry.Task] | None = None,
        calendars: Mapping[str, str] | None = None,
    ) -> None:
        initial: dict[str, Any] = {
            "timezone": zone,
            "task": "notify",
            "idempotency_key": new_key(),
            "opened": clock.now().isoformat(),
        }
        initial |= {f"notify-{name}": value for name, value in (place or {}).items()}
        super().__init__(data, initial=initial | (_stored_values(job) if job else {}), calendars=calendars)
        self.source = job
        self.job = None if is_copy else job
        available = {task.name: task for task in (registry.all_tasks() if tasks is None else tasks)}
        # Bulk moves create these jobs; nobody creates one by hand.
        if job is None or job.task != MOVE_JOBS:
            available.pop(MOVE_JOBS, None)
        first = [available.pop(name) for name in FIRST_TASKS if name in available]
        self.arguments = [Arguments(task) for task in (*first, *available.values())]
        for arguments in self.arguments:
            self.fields |= arguments.fields()
            arguments.fit(self.fields, self.initial)
        choices = [(arguments.task.name, arguments.task.title) for arguments in self.arguments]
        if self.job and registry.get(self.job.task) is None:
            choices.append((self.job.task, f"{self.job.task} (not installed)"))
        self.fields["task"].choices = choices  # type: ignore[attr-defined]
        if task := registry.get(self["task"].value() or ""):
            self.fields["attempts"].widget.attrs["placeholder"] = task.attempts
            self.fields["timeout"].widget.attrs["placeholder"] = durations.typed(task.timeout)

    def options(self) -> list[dict[str, Any]]:
        """Return each task with its own fields; the page shows those of the chosen task."""
        chosen = self["task"].value()
        options: list[dict[str, Any]] = [
            {
                "task": arguments.task,
                "description": arguments.description,
                "timeout": durations.typed(arguments.task.timeout),
                "is_chosen": arguments.task.name == chosen,
                "inline": [self[argument.key] for argument in arguments.inline],
                "folded": (
                    folded := [*(self[each.key] for each in arguments.folded), *self._extra(arguments)]
                ),
                "is_unfolded": any(map(_is_set, folded)),
            }
            for arguments in self.arguments
        ]
        registered = {option["task"].name for option in options}
        for name, title in self.fields["task"].choices:  # type: ignore[attr-defined]
            if name not in registered:
                defaults = policy_defaults(name)
                options.append(
                    {
                        "task": {
                            "name": name,
                            "title": title,
                            "attempts": defaults["attempts"],
                            "is_command": False,
                        },
                        "timeout": durations.typed(defaults["timeout"]),
                        "is_chosen": name == chosen,
                    }
                )
        return options

    def _extra(self, arguments: Arguments) -> list[forms.BoundField]:
        """Return the fields for columns of a job that only this task uses."""
        return [self["grants"]] if arguments.task.name == "prompt" else []

    def has_policy_errors(self) -> bool:
        return any(name in self.errors for name in Job.POLICY_FIELDS)

    def problems(self) -> list[forms.BoundField]:
        """Return the fields with errors, in page order."""
        chosen = self._chosen_arguments() if self.is_bound else None
        tasks = [argument.key for argument in chosen.all] if chosen else []
        order = ["name", *WHEN_ORDER, "task", *tasks, "grants", "tags", *Job.POLICY_FIELDS]
        return [self[name] for name in order if name in self.errors]

    def json_hints(self) -> list[str]:
        """Return a hint for each text that looks like JSON but isn't valid."""
        chosen = self._chosen_arguments()
        return chosen.hints(self.cleaned_data) if chosen else []

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        arguments = self._chosen_arguments()
        if arguments:
            self._collect(arguments, cleaned)
        self._drop_errors_of_other_tasks(arguments)
        return cleaned

    def _collect(self, arguments: Arguments, cleaned: dict[str, Any]) -> None:
        """Add the arguments to the cleaned data; unchanged stored ones are not validated again."""
        source = self.source if self.source and self.source.task == arguments.task.name else None
        stored = arguments.stored(source.args, source.kwargs) if source else None
        collected = arguments.collect(self, stored)
        if collected is None:
            return
        cleaned["args"], cleaned["kwargs"] = collected
        if self.job and not arguments.is_changed(self):
            return
        columns = {name: cleaned[name] for name in ("task", "args", "kwargs")}
        match fill_in(self.job, columns) if self.job or has_mask(columns) else Ok(columns):
            case Ok(filled):
                problems = arguments.problems(filled["args"], filled["kwargs"])
            case refusal:
                problems = arguments.secret_problems(refusal)
        for key, message in problems.items():
            self.add_error(key, message)

    def _chosen_arguments(self) -> Arguments | None:
        chosen = self.cleaned_data.get("task")
        return next((arguments for arguments in self.arguments if arguments.task.name == chosen), None)

    def _drop_errors_of_other_tasks(self, chosen: Arguments | None) -> None:
        """Drop the errors of tasks that aren't chosen, but keep their input."""
        for arguments in self.arguments:
            if arguments is not chosen:
                for argument in arguments.all:
                    self._errors.pop(argument.key, None)  # type: ignore[attr-defined]

    def columns(self) -> dict[str, Any]:
        """Return the columns for `services.schedule`, without empty policies."""
        cleaned = self.cleaned_data
        policies = {name: cleaned[name] for name in Job.POLICY_FIELDS if cleaned.get(name) not in (None, "")}
        tags = list(dict.fromkeys(tag.strip() for tag in cleaned["tags"].split(",") if tag.strip()))
        # The field may still hold grants that were typed before another task was chosen.
        grants = cleaned.get("grants", []) if cleaned.get("task") == "prompt" else []
        call = {name: cleaned[name] for name in ("name", "task", "args", "kwargs") if name in cleaned}
        return call | self.trigger_columns() | policies | {"tags": tags, "grants": grants}

    def changes(self) -> dict[str, Any]:
        """Return the columns for `services.edit`, without those whose fields were not changed.

        An unchanged field can differ from its column: the form drops microseconds and fills in default arguments. A
        policy that was emptied gets its default, which the form shows as a placeholder.
        """
        arguments = self._chosen_arguments()
        fields_of_columns: dict[tuple[str, ...], set[str]] = {
            TRIGGER_COLUMNS: SCHEDULE_FIELDS,
            ("ends_at",): {"ends_at", "timezone"},
            ("spread",): {"spread"},
            ("calendars",): {"calendars"},
            ("on_closed",): {"on_closed"},
            **{(name,): {name} for name in ("name", "tags", "grants", *Job.POLICY_FIELDS)},
        }
        untouched = {
            column
            for columns, fields in fields_of_columns.items()
            for column in columns
            if fields.isdisjoint(self.changed_data)
        }
        if arguments and not arguments.is_changed(self):
            untouched |= {"args", "kwargs"}
        if self.calendars_of_phrase:
            untouched.discard("calendars")
        if self._end_of_phrase:
            untouched.discard("ends_at")
        columns = policy_defaults(self.cleaned_data["task"]) | self.columns()
        if (
            self.job
            and not self.has_start
            and (self.job.calendar_unit, self.job.every) == ("", columns["every"])
        ):
            # An unchanged interval keeps its anchor.
            untouched.add("anchor_at")
        return {name: value for name, value in columns.items() if name not in untouched}

    def add_service_errors(self, problem: Err) -> None:
        """Show the errors of a service at the fields they concern."""
        schedule = dict.fromkeys(("run_at", "every", "cron", "interval"), self.when_field())
        add_errors(self, problem, fields=FIELD_OF_COLUMN | schedule)


def new_key() -> str:
    """Return an idempotency key, so that a form sent twice creates one job."""
    return uuid.uuid4().hex


def _is_set(bound: forms.BoundField) -> bool:
    """Return whether a field has an error, or a value that differs from its default."""
    return bool(bound.errors) or bound.field.has_changed(bound.field.initial, bound.value())


def _stored_values(job: Job) -> dict[str, Any]:
    """Return the form values of a stored job."""
    values: dict[str, Any] = {
        "name": job.name,
        "task": job.task,
        "tags": ", ".join(job.tags),
        "grants": job.grants,
        "revision": job.revision,
        **policies_of(job),
    }
    try:
        values |= when_of(job)
    except TriggerError:
        values |= {"timezone": job.timezone, "phrase": job.cron}
    if task := registry.get(job.task):
        values |= Arguments(task).initial(job.args, job.kwargs)
    return values
