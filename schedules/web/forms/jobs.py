"""The form of the pages that create and edit a job."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django import forms

from schedules import clock
from schedules.models import Job
from schedules.models.triggers import TRIGGER_COLUMNS
from schedules.result import Err, Ok
from schedules.secrets.masking import has_mask
from schedules.services.jobs.creation import policy_defaults
from schedules.services.jobs.masked_arguments import fill_in
from schedules.services.jobs.moves import TASK as MOVE_JOBS
from schedules.spec.job import JobSpec, ScheduleSpec
from schedules.tasks import registry
from schedules.tasks.forms.arguments import Arguments
from schedules.tasks.forms.fields import Commas, Text
from schedules.web.forms.when import WhenForm, when_of
from schedules.web.messages import add_errors
from schedules.when import durations
from schedules.when.triggers import TriggerError

FIRST_TASKS = ("notify", "webhook", "prompt", "heartbeat")
SCHEDULE_FIELDS = {"when", "phrase", "every_count", "every_unit", "every_start", "run_at", "timezone"}
WHEN_ORDER = ("when", "phrase", "every_count", "every_unit", "every_start", "run_at")
# Which form field shows the errors of a column.
FIELD_OF_COLUMN = {"trigger_type": "when", "cron": "phrase", "every": "every_count"}


class JobForm(WhenForm):
    """The form of a job: task, schedule and policies."""

    spec = JobSpec

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
    tags = Commas(required=False, help_text="To find and group jobs; separate them with commas.")
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
        calendars: Callable[[], Mapping[str, str]] = dict,
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

    def policies(self) -> list[list[forms.BoundField]]:
        """Return the fields of the policies: numbers and durations, which are in two columns, and the others."""
        if task := registry.get(self["task"].value() or ""):
            for name, value in policy_defaults(task.name).items():
                if isinstance(value, timedelta | int) and not isinstance(value, bool):
                    shown = durations.typed(value) if isinstance(value, timedelta) else value
                    self.fields[name].widget.attrs["placeholder"] = shown
        short = ("attempts", "backoff", "timeout", "pause_after_failures")
        return [
            [self[name] for name in names]
            for names in (short, [each for each in Job.POLICY_FIELDS if each not in short])
        ]

    def has_policy_errors(self) -> bool:
        return any(name in self.errors for name in Job.POLICY_FIELDS)

    def problems(self) -> list[forms.BoundField]:
        """Return the fields with errors, in page order."""
        chosen = self._chosen_arguments() if self.is_bound else None
        tasks = [argument.key for argument in chosen.all] if chosen else []
        when = (*WHEN_ORDER, *ScheduleSpec.of_columns())
        order = ["name", *when, "task", *tasks, "grants", "label", "tags", *Job.POLICY_FIELDS]
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
        # The field may still hold grants that were typed before another task was chosen.
        grants = cleaned.get("grants", []) if cleaned.get("task") == "prompt" else []
        plain = ("name", "task", "args", "kwargs", "label", "tags")
        typed = {name: cleaned[name] for name in plain if name in cleaned}
        return typed | self.trigger_columns() | policies | {"grants": grants}

    def changes(self) -> dict[str, Any]:
        """Return the columns for `services.edit`, without those whose fields were not changed.

        An unchanged field can differ from its column: the form drops microseconds and fills in default arguments. A
        policy that was emptied gets its default, which the form shows as a placeholder.
        """
        arguments = self._chosen_arguments()
        fields_of_columns: dict[tuple[str, ...], set[str]] = {
            TRIGGER_COLUMNS: SCHEDULE_FIELDS,
            **{(name,): {name} for name in ("name", *JobSpec.of_columns()) if name != "timezone"},
            ("ends_at",): {"ends_at", "timezone"},
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
        untouched -= self.clauses.keys()
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
    names = ("name", "task", "revision", "label", "tags", "grants", *Job.POLICY_FIELDS)
    stored = {name: getattr(job, name) for name in names}
    values = {
        name: durations.typed(each) if isinstance(each, timedelta) else each for name, each in stored.items()
    }
    try:
        values |= when_of(job)
    except TriggerError:
        values |= {"timezone": job.timezone, "phrase": job.cron}
    if task := registry.get(job.task):
        values |= Arguments(task).initial(job.args, job.kwargs)
    return values
