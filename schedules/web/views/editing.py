"""The pages that create and edit a job, with a live preview of its schedule."""

from abc import abstractmethod
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html_join
from django.views.decorators.http import require_safe
from django.views.generic import TemplateView

from schedules import services
from schedules.models import Event, Job
from schedules.result import Err, Kind, Ok
from schedules.services import Preview, Scheduled
from schedules.services.event_list import events_of
from schedules.services.jobs.calendars import attach_calendars
from schedules.services.jobs.creation import SimilarJob
from schedules.services.jobs.forecasts import next_runs_of, preview_of
from schedules.services.jobs.validation import no_runs_left, usable_tasks
from schedules.services.people.holidays import calendar_titles
from schedules.services.people.stored_secrets import secret_warnings
from schedules.services.permissions import forbidden
from schedules.tasks import registry
from schedules.templatetags.cronty_times import day_and_clock
from schedules.web.forms.jobs import JobForm, new_key
from schedules.web.forms.when import EXAMPLES, WhenForm
from schedules.web.messages import message_of
from schedules.web.views.page import (
    FormPageMixin,
    Page,
    actor_of,
    find_job,
    job_address,
    page_of,
    render_page,
    run_address,
    show_problem,
)
from schedules.when.grammar import PhraseError
from schedules.when.sentences import parse_sentence
from schedules.when.triggers import Interval

PREVIEWED_RUNS = 6
SHOWN_CHANGES = 5
ALREADY_CREATED = "You have already created a job with this form. Send it again to create another."


def preview_form(form: WhenForm, page: Page, job: Job | None = None) -> Preview | None:
    """Preview the schedule in a form, for this job or a new one, or return None if the schedule is invalid."""
    if not form.is_bound:
        offered = form.offered
        form = WhenForm({"when": "phrase", **form.initial}, calendars=lambda: offered)
    form.is_valid()
    if form.trigger is None:
        return None
    planned = Job(**form.trigger_columns(), slot_count=job.slot_count if job else 0)
    if job:
        # The random delay depends on the id.
        planned.public_id = job.public_id
    planned.skips = " ".join(day.isoformat() for day in form.skipped_days) or (job.skips if job else "")
    if (
        job
        and isinstance(form.trigger, Interval)
        and not form.has_start
        and (job.every, job.calendar_unit) == (planned.every, "")
    ):
        # A job that keeps its interval also keeps its anchor.
        planned.anchor_at = job.anchor_at
    # The preview of a form without this field, and a form for no job yet, may be about a notification.
    planned.task = form.data.get("task") or (job.task if job else "")
    planned.owner_id = job.owner_id if job else page.actor.user.pk
    problem = attach_calendars(planned) if planned.follows_calendars else None
    planned.next_run_at = planned.next_slot(page.now)
    preview = preview_of(planned, page.now, PREVIEWED_RUNS)
    if problem:
        preview.warnings.append(message_of(problem))
    if not preview.next_runs and not preview.waits_for:
        preview.warnings.append(form.past_problem(page.now) or message_of(no_runs_left(planned, page.now)))
    return preview


@login_not_required
@require_safe
def preview(request: HttpRequest) -> HttpResponse:
    """Render the preview and the suggested times, which the page requests every minute and after changes."""
    if not request.user.is_authenticated:
        # Not a redirect to the login, which would replace the form: the page says that the session has ended.
        return HttpResponse(status=401)
    page, job_id = page_of(request), request.GET.get("job")
    job = find_job(page.actor, job_id) if job_id else None
    owner_id = job.owner_id if job else page.actor.user.pk
    form = WhenForm(request.GET, calendars=lambda: calendar_titles(owner_id))
    context = {
        "form": form,
        "preview": preview_form(form, page, job),
        "moments": form.moments_ahead(page.now),
    }
    return render_page(request, "schedules/parts/preview_with_moments.html", context)


@require_safe
def zones(request: HttpRequest) -> HttpResponse:
    """Render the suggestions of the time zone field."""
    options = format_html_join("", "<option>{}</option>", ((name,) for name in WhenForm.zones()))
    return HttpResponse(options, headers={"Cache-Control": "private, max-age=86400"})


_FINISHED = "has finished and can't be edited. Duplicate it to make changes."
_NOT_EDITABLE: dict[str, str] = {
    Job.Status.RUNNING: "is in its last run and can't be edited. Duplicate it to make changes.",
    Job.Status.CANCELLED: "was stopped and can't be edited. Restore it first, or duplicate it.",
}


class _JobFormPage(FormPageMixin, TemplateView):
    template_name = "schedules/job_form.html"
    source: Job | None = None
    is_copy = False

    @property
    def _owner_id(self) -> int:
        return self.source.owner_id if self.source and not self.is_copy else self.actor.user.pk

    def make_form(self, data: Any = None) -> JobForm:
        profile = self.page.profile
        return JobForm(
            data,
            zone=profile.zone,
            place=profile.default_place,
            job=self.source,
            is_copy=self.is_copy,
            tasks=usable_tasks(self.actor),
            calendars=lambda: calendar_titles(self._owner_id),
        )

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        form = kwargs.setdefault("form", self.make_form())
        if not form.is_bound:
            if not self.page.profile.timezone and self.source is None:
                form.fields["timezone"].widget.attrs["data-browser-zone"] = True
            form.fields["name"].widget.attrs["autofocus"] = True
        return super().get_context_data(
            preview=preview_form(form, self.page, self.source if kwargs.get("is_edit") else None),
            examples=EXAMPLES,
            moments=form.moments_ahead(self.page.now),
            source=self.source,
            **kwargs,
        )

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        form = self.make_form(request.POST)
        if form.is_valid() and request.POST.get("then") != "preview":
            answer = self.save(form)
            if answer is not None:
                return answer
        return self.refused(form)

    @abstractmethod
    def save(self, form: JobForm) -> HttpResponse | None:
        """Save the job and return the response, or add the errors to the form and return None."""


def _shared_text(query: Mapping[str, str]) -> str:
    """Return the text of a new reminder, from the line on the jobs page or shared by a phone."""
    parts = (query.get(name, "").strip() for name in ("line", "title", "text", "url"))
    return "\n".join(dict.fromkeys(filter(None, parts)))[:4000]


def _values_from_text(text: str, page: Page) -> dict[str, Any]:
    """Return form values for a text, with its schedule if it names one."""
    try:
        parsed = parse_sentence(text, now=page.now, timezone=page.zone)
    except PhraseError:
        return {"name": text.splitlines()[0][:200], "notify-message": text}
    return {
        "name": parsed.what[:200],
        "notify-message": parsed.what,
        "phrase": parsed.when,
        "notify-ask": parsed.ask,
    }


class NewJobPage(_JobFormPage):
    """The form for a new job, empty or filled with a copy of another job."""

    is_copy = True

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        source_id = request.GET.get("copy")
        source = self.actor.job_with_owner(source_id) if source_id else None
        self.source = source if source and self.actor.may_change(source) else None
        return super().dispatch(request, *args, **kwargs)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        # Only for an empty form: one that was filled in can be saved even if the source has since been deleted.
        if (source_id := self.request.GET.get("copy")) and "form" not in kwargs:
            if self.source is None:
                find_job(self.actor, source_id)
                raise PermissionDenied
            form = kwargs["form"] = self.make_form()
            form.initial["name"] = f"{self.source.name} (copy)"[:200]
        elif "form" not in kwargs and (text := _shared_text(self.request.GET)):
            form = kwargs["form"] = self.make_form()
            form.initial.update(_values_from_text(text, self.page))
        return super().get_context_data(title="New job", **kwargs)

    def save(self, form: JobForm) -> HttpResponse | None:
        then = self.request.POST.get("then", "")
        result = services.schedule(
            self.actor,
            paused=then in {"paused", "test"},
            idempotency_key=form.cleaned_data["idempotency_key"] or None,
            profile=self.page.profile,
            # Without the CSRF token, which differs each time the page is shown.
            request={
                name: values for name, values in self.request.POST.lists() if name != "csrfmiddlewaretoken"
            },
            skipped_days=form.skipped_days,
            **form.columns(),
        )
        match result:
            case Err(kind=Kind.CONFLICT):
                return self._offer_another()
            case Err() as problem:
                form.add_service_errors(problem)
                return None
            case Ok(created):
                warn_of_json(self.request, form)
                warn_of_secrets(self.request, created.job)
                return self._answer(created, then)

    def _offer_another(self) -> HttpResponse:
        """Say that this form has already created a job, and show it again with a new key."""
        data = self.request.POST.copy()
        data["idempotency_key"] = new_key()
        form = self.make_form(data)
        form.add_error(None, ALREADY_CREATED)
        return self.render_to_response(self.get_context_data(form=form), status=409)

    def _answer(self, created: Scheduled, then: str) -> HttpResponse:
        job = created.job
        # A form that is sent twice creates one job and starts one run.
        if then == "test" and not created.existing:
            match services.run_now(self.actor, job.public_id):
                case Ok(execution):
                    message = "Saved as paused; test run started."
                    if not self.page.has_live_cluster:
                        message = "Saved as paused. The test run starts when the worker is back."
                    messages.success(self.request, message)
                    return HttpResponseRedirect(run_address(execution))
                case Err() as problem:
                    show_problem(self.request, problem)
        messages.success(
            self.request,
            f'Created "{job.name}". {_first_run_words(job, self.page.now)}'.rstrip(),
        )
        if created.similar:
            messages.warning(self.request, f"{created.similar.name} does the same on the same schedule.")
        warn_of_look_alike(self.request, created.look_alike)
        return HttpResponseRedirect(job_address(job))


def _first_run_words(job: Job, now: datetime) -> str:
    if job.status == Job.Status.PAUSED:
        return "It is paused."
    first = next(iter(next_runs_of(job, now, 1)), None)
    return f"First run {day_and_clock(first, job.timezone, now)}." if first else ""


class EditJobPage(_JobFormPage):
    """The form to edit a job; if somebody else has changed it meanwhile, the person chooses which version to keep."""

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        self.source = find_job(self.actor, kwargs["job_id"])
        if not self.actor.may_change(self.source):
            show_problem(request, forbidden(self.source))
            return HttpResponseRedirect(job_address(self.source))
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        assert self.source is not None
        if self.source.status not in (Job.Status.PENDING, Job.Status.PAUSED):
            message = _NOT_EDITABLE.get(self.source.status, _FINISHED)
            messages.warning(request, f"{self.source.name} {message}")
            return HttpResponseRedirect(job_address(self.source))
        return super().get(request, *args, **kwargs)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(title="Edit job", is_edit=True, **kwargs)

    def save(self, form: JobForm) -> HttpResponse | None:
        assert self.source is not None
        revision = form.cleaned_data["revision"]
        edited = services.edit(
            self.actor,
            self.source.public_id,
            revision=revision,
            skipped_days=form.skipped_days,
            **form.changes(),
        )
        match edited:
            case Err(kind=Kind.CONFLICT):
                return self._ask_which(form)
            case Err() as problem:
                form.add_service_errors(problem)
                return None
            case Ok(job):
                messages.success(self.request, f"{job.name} saved.")
                warn_of_json(self.request, form)
                warn_of_secrets(self.request, job)
                if job.name != self.source.name:
                    warn_of_look_alike(self.request, services.look_alike(self.actor, job))
                return HttpResponseRedirect(job_address(job))

    def _ask_which(self, form: JobForm) -> HttpResponse:
        """Show what has changed since the form was opened; sending the form again overwrites those changes."""
        assert self.source is not None
        self.source = find_job(self.actor, self.source.public_id)
        data = self.request.POST.copy()
        data["revision"] = str(self.source.revision)
        changes = changes_since(self.source, form.cleaned_data["opened"])
        context = self.get_context_data(form=self.make_form(data), is_conflict=True, theirs=changes)
        return self.render_to_response(context, status=409)


def changes_since(job: Job, opened: str) -> list[Event]:
    """List the changes of a job since its form was opened, newest first."""
    try:
        since = datetime.fromisoformat(opened)
    except ValueError:
        return []
    if since.tzinfo is None:
        return []
    return events_of(job, SHOWN_CHANGES, since=since)


def warn_of_json(request: HttpRequest, form: JobForm) -> None:
    for message in form.json_hints():
        messages.warning(request, message)


def warn_of_secrets(request: HttpRequest, job: Job) -> None:
    task = registry.get(job.task)
    if task is None or not task.takes_secrets:
        return
    for message in secret_warnings(actor_of(request), job):
        messages.warning(request, message, extra_tags="secrets")


def warn_of_look_alike(request: HttpRequest, job: SimilarJob | None) -> None:
    if job:
        messages.warning(
            request, f"The name looks like that of another job, {job.name}, but isn't the same. Check it."
        )
