"""The admin pages of jobs; every change goes through the services."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import SEARCH_VAR
from django.contrib.auth.base_user import AbstractBaseUser
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from schedules import clock, services
from schedules.admin.bases import (
    SEARCH_HELP,
    USERNAME,
    ChangeRefused,
    LongListAdmin,
    OwnerFilter,
    ServiceAdmin,
    TaskFilter,
    actor_of,
    as_json,
    coloured,
    owned_by,
    report,
)
from schedules.admin.forms import JobAdminForm, TaskJobForm, job_form
from schedules.admin.local_times import moment, moment_words
from schedules.models import Event, Job
from schedules.models.jobs import JobQuerySet
from schedules.models.standings import ORDER, STANDINGS, with_rank
from schedules.result import Err, Ok, Result
from schedules.services.job_list import mentioning, newest_of_owner
from schedules.services.jobs.bulk import change_each
from schedules.services.jobs.forecasts import preview_of, shown_next_run, words_of
from schedules.services.jobs.masked_arguments import shown_arguments
from schedules.tasks import registry

NEXT_RUN, LAST_RUN = moment("next_run_at", shown_next_run), moment("last_run_at")


def _task_of(request: HttpRequest, job: Job | None) -> str:
    """Return the task whose arguments the form shows: the chosen one, else that of the job or of the link."""
    return request.POST.get("task") or (job.task if job else request.GET.get("task", ""))


class TrashFilter(admin.SimpleListFilter):
    """Hides jobs in the trash by default."""

    title = "trash"
    parameter_name = "trash"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "In the trash"), ("all", "All jobs")]

    def choices(self, changelist: Any) -> Any:
        first, *others = super().choices(changelist)
        return [{**first, "display": "Active"}, *others]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        match self.value():
            case "yes":
                return queryset.filter(deleted_at__isnull=False)
            case "all":
                return queryset
        return queryset.filter(deleted_at=None)


class StateFilter(admin.SimpleListFilter):
    """Filters by the standing of a job, as the column of the list shows it."""

    title = parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(STANDINGS.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not (name := self.value()):
            return queryset
        return queryset.filter(rank=ORDER.index(name)) if name in STANDINGS else queryset.none()


@admin.register(Job)
class JobAdmin(LongListAdmin[Job], ServiceAdmin[Job]):
    form = JobAdminForm
    list_display = [
        "name",
        owned_by,
        "task",
        "state",
        "schedule",
        NEXT_RUN,
        LAST_RUN,
    ]
    list_filter = [
        TrashFilter,
        StateFilter,
        "trigger_type",
        TaskFilter,
        OwnerFilter,
    ]
    # Makes Django show a search box; `search` decides which columns are searched.
    search_fields = ["name"]
    search_help_text = SEARCH_HELP
    indexed = LongListAdmin.indexed | {"trash"}
    job_path = "pk"
    actions = ["run_now", "pause", "resume", "cancel", "delete_selected", "restore"]
    readonly_fields = [
        "preview",
        "positional",
        "arguments",
        "owner",
        "public_id",
        "made_by",
        "state",
        NEXT_RUN,
        LAST_RUN,
        "run_count",
        "recent",
        "last_error",
        "pause_reason",
        moment("paused_until"),
        "skips",
        moment("created_at"),
        moment("updated_at"),
        moment("deleted_at"),
    ]
    when = [*Job.TRIGGER_FIELDS, "seen_revision", "seen_zone"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        return with_rank(Job.objects.all(), clock.now())

    def search(self, request: HttpRequest, queryset: QuerySet[Job], text: str) -> tuple[QuerySet[Job], bool]:
        # The owner's name is a column of this list.
        return mentioning(cast(JobQuerySet, queryset), text, f"owner__{USERNAME}"), False

    def newest(self, owner: AbstractBaseUser | None, filters: Mapping[str, str]) -> QuerySet[Job]:
        return newest_of_owner(owner and owner.pk, in_trash=filters.get("trash") == "yes")

    def get_fieldsets(self, request: HttpRequest, obj: Job | None = None) -> Any:
        arguments, when = self._argument_fields(request, obj), self.when
        if obj and not self.has_change_permission(request, obj):
            arguments, when = ["positional", "arguments"], list(Job.TRIGGER_FIELDS)
        fieldsets = [
            ("Job", {"fields": ["name", "task", *arguments, "grants", "label", "tags"]}),
            ("Schedule", {"fields": when}),
            ("If something goes wrong", {"fields": Job.POLICY_FIELDS}),
        ]
        if obj is None:
            return fieldsets
        shown_elsewhere = ("preview", "positional", "arguments")
        state = [name for name in self.readonly_fields if name not in shown_elsewhere]
        return [("Next runs", {"fields": ["preview"]}), *fieldsets, ("State", {"fields": state})]

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Ask for the task first, because the form has a field for each of its arguments."""
        is_chosen = request.method == "POST" or _task_of(request, None) in registry.names()
        if is_chosen or not self.has_add_permission(request):
            return super().add_view(request, form_url, extra_context)
        context = {"title": "What should the job do?", "tasks": registry.all_tasks()}
        context |= self.admin_site.each_context(request)
        return TemplateResponse(request, "admin/schedules/choose_task.html", context)

    def get_form(
        self, request: HttpRequest, obj: Job | None = None, change: bool = False, **kwargs: Any
    ) -> type[forms.ModelForm[Job]]:
        return super().get_form(
            request, obj, change=change, **kwargs | {"form": job_form(_task_of(request, obj))}
        )

    def _argument_fields(self, request: HttpRequest, obj: Job | None) -> list[str]:
        form = job_form(_task_of(request, obj))
        if issubclass(form, TaskJobForm):
            return [argument.key for argument in form.arguments.all]
        return ["args", "kwargs"]

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"timezone": services.profile_of(request.user).zone, "task": _task_of(request, None)}

    def has_change_permission(self, request: HttpRequest, obj: Job | None = None) -> bool:
        """Make jobs read-only that ended, are in the trash or Cronty's own, or belong to somebody with more rights."""
        if obj is None:
            return super().has_change_permission(request, obj)
        is_open = obj.deleted_at is None and obj.status in (Job.Status.PENDING, Job.Status.PAUSED)
        # Accept a sent form even if the job has ended meanwhile: the service reports it, and no input is lost.
        is_sent = "seen_revision" in request.POST
        may_change = actor_of(request).may_change(obj) and not services.is_protected(obj)
        return (is_open or is_sent) and may_change and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Job | None = None) -> bool:
        is_open = obj is None or (
            obj.deleted_at is None and actor_of(request).may_delete(obj) and not services.is_protected(obj)
        )
        may_view = self.has_view_or_change_permission(request, obj)
        return is_open and may_view and super().has_delete_permission(request, obj)

    def save_by_service(self, request: HttpRequest, obj: Job, form: Any) -> Result[Job]:
        fields, revision = form.columns(), form.cleaned_data["seen_revision"]
        if obj._state.adding:
            created = services.schedule(actor_of(request), **fields)
            return Ok(created.value.job) if isinstance(created, Ok) else created
        changes = {name: fields[name] for name in form.changed_columns() if name in fields}
        return services.edit(actor_of(request), obj.public_id, revision=revision, **changes)

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        try:
            return super().delete_view(request, object_id, extra_context)
        except ChangeRefused as refused:
            self.message_user(request, str(refused), messages.ERROR)
            return redirect("admin:schedules_job_changelist")

    def delete_model(self, request: HttpRequest, obj: Job) -> None:
        result = services.delete(actor_of(request), obj.public_id)
        if isinstance(result, Err):
            raise ChangeRefused(result)

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Redirect those who may view events to the job's events, because Django's own log knows only admin changes."""
        job = self.get_object(request, unquote(object_id))
        may_view_events = self.admin_site.get_model_admin(Event).has_view_permission(request)
        if job is None or not (may_view_events and self.has_view_or_change_permission(request, job)):
            return super().history_view(request, object_id, extra_context)
        events = reverse("admin:schedules_event_changelist")
        return redirect(f"{events}?{urlencode({SEARCH_VAR: job.public_id})}")

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Report that deleting jobs deletes no other rows, and that no row prevents it."""
        return (
            [f"{job.name} (moved to the trash; it can be restored)" for job in objs],
            {},
            set(),
            [],
        )

    @admin.display(description="state", ordering="status")
    def state(self, job: Any) -> SafeString:
        name = ORDER[job.rank]
        suffix = "" if job.deleted_at is None else ", in the trash"
        return coloured(name, f"{STANDINGS[name]}{suffix}")

    @admin.display(description="schedule")
    def schedule(self, job: Job) -> str:
        return f"{words_of(job)} ({job.timezone})"

    @admin.display(description="preview")
    def preview(self, job: Job) -> SafeString:
        shown = preview_of(job, clock.now())
        runs = format_html_join("", "<li>{}</li>", ((moment_words(run),) for run in shown.next_runs))
        warnings = format_html_join("", "<li>{}</li>", ((warning,) for warning in shown.warnings))
        return format_html(
            "<p>{} ({})</p><ol>{}</ol><ul>{}</ul>", shown.description, shown.timezone, runs, warnings
        )

    @admin.display(description="args")
    def positional(self, job: Job) -> SafeString:
        return as_json(shown_arguments(job)[0])

    @admin.display(description="kwargs")
    def arguments(self, job: Job) -> SafeString:
        return as_json(shown_arguments(job)[1])

    @admin.action(description="Run now", permissions=["change"])
    def run_now(self, request: HttpRequest, jobs: QuerySet[Job]) -> None:
        self._act(request, jobs, services.run_now, "Run started:")

    @admin.action(description="Pause", permissions=["change"])
    def pause(self, request: HttpRequest, jobs: QuerySet[Job]) -> None:
        self._change(request, jobs, "pause", "Paused:")

    @admin.action(description="Resume", permissions=["change"])
    def resume(self, request: HttpRequest, jobs: QuerySet[Job]) -> None:
        self._change(request, jobs, "resume", "Resumed:")

    @admin.action(description="Stop permanently", permissions=["change"])
    def cancel(self, request: HttpRequest, jobs: QuerySet[Job]) -> HttpResponse | None:
        """Stop jobs permanently, after a confirmation."""
        if "is_sure" not in request.POST:
            is_all = request.POST.get("select_across") == "1"
            context = {"title": "Stop these jobs permanently?", "jobs": list(jobs), "is_all": is_all}
            context |= self.admin_site.each_context(request)
            return TemplateResponse(request, "admin/schedules/cancel_jobs.html", context)
        self._change(request, jobs, "cancel", "Stopped permanently:")
        return None

    @admin.action(description="Delete (move to the trash)", permissions=["delete"])
    def delete_selected(self, request: HttpRequest, jobs: QuerySet[Job]) -> None:
        self._change(request, jobs, "delete", "Moved to the trash:")

    @admin.action(description="Restore from the trash", permissions=["change"])
    def restore(self, request: HttpRequest, jobs: QuerySet[Job]) -> None:
        self._act(request, jobs, partial(services.restore, is_deleted=True), "Restored:")

    def _change(self, request: HttpRequest, jobs: QuerySet[Job], action: str, done: str) -> None:
        names = dict(jobs.values_list("public_id", "name"))
        if "listed" in request.POST:
            # Leave out jobs that began to match after the page asked for confirmation.
            listed = set(request.POST["listed"].split())
            names = {job_id: name for job_id, name in names.items() if job_id in listed}
        results = change_each(actor_of(request), action, [*names])
        report(self, request, [(names[job_id], result) for job_id, result in results.items()], done)

    def _act(
        self, request: HttpRequest, jobs: QuerySet[Job], verb: Callable[..., Result[Any]], done: str
    ) -> None:
        actor = actor_of(request)
        report(self, request, [(job.name, verb(actor, job.public_id)) for job in jobs], done)
