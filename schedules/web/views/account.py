"""The settings page with its ping key and sign-out, the welcome page of a new user, and the choice between light and dark."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST
from django.views.generic import TemplateView

from schedules import clock, services
from schedules.models import Execution, Job
from schedules.result import Err, Ok, Result
from schedules.services import Actor, Scheduled
from schedules.services.jobs.addresses import PING_PATH, change_ping_key
from schedules.services.people.channels import channel_names
from schedules.services.people.preferences import preference, quiet_words, runner_names
from schedules.services.run_list import last_run
from schedules.templatetags.cronty_times import clock_words
from schedules.web.forms.people import SettingsForm, WelcomeForm
from schedules.web.messages import add_errors
from schedules.web.views.notifications import link_to_show
from schedules.web.views.page import FormPageMixin, back, find_job, show_problem
from schedules.when.zone_names import zone_note
from schedules.when.zones import local

YEAR_SECONDS = 365 * 86_400
Status = Execution.Status
FIRST_REMINDER_IN = timedelta(seconds=20)


class SettingsPage(FormPageMixin, TemplateView):
    """The person's time zone, places, alerts, display of times, and ping key."""

    template_name = "schedules/settings.html"

    def make_form(self, data: Any = None) -> SettingsForm:
        actor = self.page.actor
        return SettingsForm(
            data,
            initial={name: preference(self.page.profile, name) for name in SettingsForm.base_fields},
            shows_initial=True,
            channels=channel_names(actor),
            runners=runner_names(actor),
        )

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(
            ends_sessions=services.ends_sessions(),
            ping_key=self.page.profile.ping_key,
            ping_base=f"{settings.CRONTY_URL}{PING_PATH}",
            **kwargs,
        )

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> HttpResponse:
        # The page shows the ping key, which is a secret.
        response = super().render_to_response(context, **kwargs)
        response["Cache-Control"] = "no-store"
        return response

    def post(self, request: HttpRequest) -> HttpResponse:
        form = self.make_form(request.POST)
        if form.is_valid():
            match services.update_profile(request.user, **form.changes()):
                case Ok(profile):
                    note = zone_note(request.POST.get("timezone", ""), form.cleaned_data["timezone"])
                    quiet = quiet_words(profile.quiet_hours) if "quiet_hours" in form.changes() else ""
                    messages.success(request, " ".join(filter(None, ["Saved.", note, quiet])))
                    return HttpResponseRedirect(reverse("schedules:settings"))
                case Err() as problem:
                    add_errors(form, problem)
        return self.refused(form)


@require_POST
def ping_key(request: HttpRequest) -> HttpResponse:
    """Create or replace the ping key, unless another tab has just done so."""
    match change_ping_key(request.user, shown=request.POST.get("shown", "")):
        case Ok():
            messages.success(request, "You have a new ping key.")
        case Err() as problem:
            show_problem(request, problem)
    return HttpResponseRedirect(f"{reverse('schedules:settings')}#ping-key", status=303)


@require_POST
def end_access(request: HttpRequest) -> HttpResponse:
    """End every session and token of the user, this session included."""
    match services.end_access(request.user, by=request.user):
        case Ok(tokens):
            logout(request)
            messages.success(
                request, f"Signed out everywhere; {tokens} token{'' if tokens == 1 else 's'} revoked."
            )
        case Err() as problem:
            show_problem(request, problem)
    return back(request, reverse("schedules:settings"))


@require_POST
@login_not_required
def theme(request: HttpRequest) -> HttpResponse:
    """Set the theme for browsers without JavaScript: light, dark, or that of the system."""
    response = back(request, reverse("schedules:jobs"))
    chosen = request.POST.get("theme")
    if chosen in ("light", "dark"):
        response.set_cookie("theme", chosen, max_age=YEAR_SECONDS, samesite="Lax")
    else:
        response.delete_cookie("theme", samesite="Lax")
    return response


class WelcomePage(FormPageMixin, TemplateView):
    """A form with three fields that sends a first reminder, and then the state of its delivery."""

    template_name = "schedules/welcome.html"

    def make_form(self, data: Any = None) -> WelcomeForm:
        return WelcomeForm(data)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        profile = self.page.profile
        topic = profile.default_topic or f"cronty-{secrets.token_hex(4)}"
        if job_id := self.request.GET.get("job"):
            kwargs |= self._delivery(find_job(self.actor, job_id))
        initial = {
            "timezone": profile.timezone or profile.zone,
            "failure_topic": topic,
            "message": "Cronty says hello.",
        }
        form = kwargs.setdefault("form", WelcomeForm(initial=initial))
        if not profile.timezone and not form.is_bound:
            form.fields["timezone"].widget.attrs["data-browser-zone"] = True
        kwargs.setdefault("topic", form["failure_topic"].value() or topic)
        return super().get_context_data(
            server=settings.NTFY_URL,
            qr_link=link_to_show(kwargs["topic"]),
            **kwargs,
        )

    def _delivery(self, job: Job) -> dict[str, Any]:
        delivery = delivery_of(job, self.page.now, has_cluster=self.page.has_live_cluster)
        return {"delivery": delivery, "topic": str(job.argument("topic") or "")}

    def post(self, request: HttpRequest) -> HttpResponse:
        form = WelcomeForm(request.POST)
        if form.is_valid():
            match greet(self.actor, **form.cleaned_data):
                case Ok(scheduled):
                    job = scheduled.job
                    at = clock_words(local(job.next_run_at or self.page.now, job.timezone), exact=True)
                    messages.success(request, f"Reminder scheduled for {at}.")
                    query = {"job": job.public_id}
                    return HttpResponseRedirect(reverse("schedules:welcome", query=query), status=303)
                case Err() as problem:
                    add_errors(form, problem)
        return self.refused(form)


@dataclass(frozen=True)
class Delivery:
    """The delivery of a notification; `step` is scheduled, waiting, sending, retrying, delivered or failed."""

    step: str
    job: Job
    run: Execution | None = None

    @property
    def is_over(self) -> bool:
        return self.step in ("delivered", "failed")

    @property
    def error(self) -> str:
        return (self.run.error or self.run.reason) if self.run else ""

    @property
    def message_id(self) -> str:
        result = self.run.result if self.run else None
        return str(result.get("id") or "") if isinstance(result, dict) else ""

    @property
    def next_attempt(self) -> int:
        return self.run.attempt + 1 if self.run else 1


def delivery_of(job: Job, now: datetime, *, has_cluster: bool) -> Delivery:
    """Return the state of the newest notification of a job."""
    run = last_run(job)
    if run is None:
        if job.next_run_at and job.next_run_at > now:
            return Delivery("scheduled", job)
        return Delivery("sending" if has_cluster else "waiting", job)
    match run.status:
        case Status.SUCCEEDED:
            step = "delivered"
        case Status.QUEUED if run.attempt:
            step = "retrying"
        case Status.QUEUED | Status.CLAIMED | Status.RUNNING:
            step = "sending" if has_cluster else "waiting"
        case _:
            step = "failed"
    return Delivery(step, job, run)


def greet(actor: Actor, *, timezone: str, failure_topic: str, message: str) -> Result[Scheduled]:
    """Save a new user's zone and topic, and schedule a first reminder."""
    saved = services.update_profile(actor.user, timezone=timezone, failure_topic=failure_topic)
    if isinstance(saved, Err):
        return saved
    return services.schedule(
        actor,
        name="My first reminder",
        task="notify",
        kwargs={"topic": failure_topic, "message": message},
        trigger_type=Job.TriggerType.ONCE,
        run_at=clock.now() + FIRST_REMINDER_IN,
        timezone=timezone,
    )
