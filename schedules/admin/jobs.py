"""The admin pages of jobs: the fields of `spec`, read and saved by the services."""

import json
from datetime import datetime, timedelta
from types import NoneType
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from schedules import clock, services
from schedules.admin.bases import (
    USERNAME,
    ServiceAdmin,
    actor_of,
    as_json,
    moment,
    user_of,
)
from schedules.models import Job
from schedules.models.counting import COUNTED
from schedules.models.triggers import TRIGGER_COLUMNS
from schedules.result import Code, Err, Ok, Result
from schedules.services import profile_of
from schedules.services.jobs.forecasts import shown_next_run, words_of
from schedules.services.jobs.masked_arguments import shown_arguments
from schedules.services.jobs.schedule_texts import columns_of
from schedules.spec.job import JobSpec
from schedules.tasks import registry
from schedules.tasks.forms.fields import Json
from schedules.web.forms.when import field_of
from schedules.web.messages import message_of
from schedules.when import durations
from schedules.when.phrase_writer import phrase_of
from schedules.when.triggers import TriggerError


class JobAdminForm(forms.ModelForm[Job]):
    """The texts that describe a job; nothing is read here, and what is unchanged is not sent to the services."""

    name = forms.CharField(max_length=200)
    task = forms.ChoiceField()
    schedule = forms.CharField(
        widget=forms.TextInput(attrs={"class": "vTextField"}),
        help_text='When it runs, like "every weekday at 9:00", "0 9 * * 1-5" or "in 20 minutes".',
    )
    args = Json(expected_type=list, required=False, help_text="A JSON list of positional arguments.")
    kwargs = Json(expected_type=dict, required=False, help_text="A JSON object of named arguments.")
    seen_revision = forms.IntegerField(required=False, widget=forms.HiddenInput)

    class Meta:
        model = Job
        fields = ("name",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        job = self.instance
        choices = {task.name: f"{task.title} ({task.name})" for task in registry.all_tasks()}
        if job.pk:
            choices.setdefault(job.task, f"{job.task} (not installed)")
            self.initial.update(task=job.task, seen_revision=job.revision, schedule=_schedule_of(job))
            for name, value in zip(("args", "kwargs"), shown_arguments(job), strict=True):
                self.initial[name] = json.dumps(value, ensure_ascii=False) if value else ""
            for name in JobSpec.of_columns():
                value = getattr(job, name)
                self.initial[name] = _shown(value, job.timezone)
                # These have no value that stands for none.
                if name in self.fields and not isinstance(value, bool | str | list | datetime | NoneType):
                    self.fields[name].required = True
        if "task" in self.fields:
            self.fields["task"].choices = [("", "---------"), *choices.items()]  # type: ignore[attr-defined]

    def columns(self, owner: Any) -> Result[dict[str, Any]]:
        """Return the columns of what was changed."""
        changed = {name: self.cleaned_data[name] for name in self.changed_data}
        options = {name: changed[name] for name in JobSpec.of_columns() if name in changed}
        options = {name: 0 if value is None else value for name, value in options.items()}
        zone = self.instance.timezone if self.instance.pk else profile_of(owner).zone
        try:
            spec = JobSpec.model_validate(options)
        except ValueError:
            # Says which fields are wrong.
            return JobSpec.read(options, now=clock.now(), zone=zone)
        read = columns_of(changed.get("schedule"), spec, owner_id=owner.pk, now=clock.now(), zone=zone)
        if isinstance(read, Err):
            return read
        empty: dict[str, Any] = {"args": [], "kwargs": {}}
        call = {name: changed[name] for name in ("name", "task", "args", "kwargs") if name in changed}
        return Ok({name: value or empty.get(name, value) for name, value in call.items()} | read.value)


for fields in (JobAdminForm.declared_fields, JobAdminForm.base_fields):
    fields.update({name: field_of(name, spec) for name, spec in JobSpec.of_columns().items()})
PLANNED = (moment("next_run_at", shown_next_run), moment("last_run_at"))
STATE = (
    *(
        "owner",
        "public_id",
        "made_by",
        "status",
        *PLANNED,
        "run_count",
        "last_error",
        "pause_reason",
        moment("paused_until"),
        moment("created_at"),
    ),
)
SHOWN = ("name", "task", "arguments", "words", "timezone", "tags", *STATE)


def _shown(value: Any, zone: str) -> Any:
    if isinstance(value, timedelta):
        return durations.typed(value)
    return value.astimezone(ZoneInfo(zone)).isoformat() if isinstance(value, datetime) else value


def _schedule_of(job: Job) -> str:
    try:
        return phrase_of(job.undelayed_trigger)
    except TriggerError:
        return job.cron


@admin.register(Job)
class JobAdmin(ServiceAdmin[Job]):
    form = JobAdminForm
    list_display = ("name", "owner", "task", "status", "words", *PLANNED)
    list_filter = ("status",)
    list_select_related = ("owner",)
    search_fields = ("name", "public_id", f"owner__{USERNAME}")
    field_of_column = dict.fromkeys((*TRIGGER_COLUMNS, "every", "run_at", "cron", "interval"), "schedule")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        return Job.objects.filter(deleted_at=None)

    def get_fields(self, request: HttpRequest, obj: Job | None = None) -> Any:
        if obj and not self.has_change_permission(request, obj):
            return SHOWN
        return (*JobAdminForm.base_fields, *(STATE if obj else ()))

    def get_readonly_fields(self, request: HttpRequest, obj: Job | None = None) -> Any:
        return ("arguments", "words", *STATE)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"timezone": profile_of(request.user).zone}

    def has_change_permission(self, request: HttpRequest, obj: Job | None = None) -> bool:
        """Make jobs read-only that ended, are Cronty's own, or belong to somebody with more rights."""
        if obj is None:
            return super().has_change_permission(request, obj)
        is_open = obj.status in (Job.Status.PENDING, Job.Status.PAUSED)
        # Accept a sent form even if the job has ended meanwhile: the service reports it, and no input is lost.
        is_sent = "seen_revision" in request.POST
        may_change = actor_of(request).may_change(obj) and not services.is_protected(obj)
        return (is_open or is_sent) and may_change and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Job | None = None) -> bool:
        may_delete = obj is None or (actor_of(request).may_delete(obj) and not services.is_protected(obj))
        may_view = self.has_view_or_change_permission(request, obj)
        return may_delete and may_view and super().has_delete_permission(request, obj)

    def save_by_service(self, request: HttpRequest, obj: Job, form: Any) -> Result[Job]:
        actor = actor_of(request)
        columns = form.columns(obj.owner if obj.pk else user_of(request))
        if isinstance(columns, Err):
            return columns
        fields = columns.value
        if obj.pk:
            return services.edit(actor, obj.public_id, revision=form.cleaned_data["seen_revision"], **fields)
        profile = actor.read_profile()
        call = {"args": [], "kwargs": {}} | fields
        call["kwargs"] = profile.with_default_place(call["task"], call["args"], call["kwargs"])
        created = services.schedule(actor, profile=profile, **call)
        return Ok(created.value.job) if isinstance(created, Ok) else created

    def delete_model(self, request: HttpRequest, obj: Job) -> None:
        services.delete(actor_of(request), obj.public_id)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        for job in queryset:
            self.delete_model(request, job)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Report that deleting jobs deletes no other rows, and which jobs this person may not delete."""
        jobs = list(objs[: COUNTED + 1])
        refused = [str(job) for job in jobs if not self.has_delete_permission(request, job)]
        if len(jobs) > COUNTED:
            refused = [message_of(Err(Code.TOO_MANY_MATCHES, limit=COUNTED))]
        return [f"{job.name} (moved to the trash; it can be restored)" for job in jobs], {}, set(), refused

    @admin.display(description="schedule")
    def words(self, job: Job) -> str:
        return f"{words_of(job)} ({job.timezone})"

    @admin.display(description="arguments")
    def arguments(self, job: Job) -> SafeString:
        args, kwargs = shown_arguments(job)
        return as_json([args, kwargs] if args else kwargs)
