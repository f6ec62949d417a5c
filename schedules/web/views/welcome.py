"""The first steps of a new user, and the demo jobs."""

import secrets
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST
from django.views.generic import TemplateView

from schedules import clock, services
from schedules.form_errors import add_errors
from schedules.models import Job
from schedules.models.counting import counted
from schedules.result import Err, Ok, Result
from schedules.services import Actor, Scheduled
from schedules.services.quotas import wait_for_turn
from schedules.templatetags.cronty_times import clock_words, local
from schedules.web.forms import WelcomeForm
from schedules.web.views.delivery import delivery_of
from schedules.web.views.notifications import link_to_show
from schedules.web.views.page import FormPageMixin, actor_of, back, find_job, problem_text

FIRST_REMINDER_IN = timedelta(seconds=20)
DEMO_TAG = "demo"
# Demo jobs are found by their id, because anybody may use the tag.
DEMO_PREFIX = "demo"


class WelcomePage(FormPageMixin, TemplateView):
    """A form with three questions, which sends a first reminder, and then the delivery of that reminder."""

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
        return self.render_to_response(self.get_context_data(form=form), status=422)


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


@require_POST
def demo(request: HttpRequest) -> HttpResponse:
    """Add three demo jobs, or remove them again."""
    actor = actor_of(request)
    demo_ids = (
        actor.jobs()
        .owned_by(actor.user)
        .filter(public_id__startswith=f"{DEMO_PREFIX}_")
        .values_list("public_id", flat=True)
    )
    if request.POST.get("verb") == "remove":
        removed = [isinstance(services.delete(actor, job_id), Ok) for job_id in demo_ids]
        if removed:
            messages.success(request, f"{counted(sum(removed), 'demo job')} moved to the trash.")
        else:
            messages.warning(request, "There are no demo jobs to remove.")
        return back(request, reverse("schedules:jobs"))
    with transaction.atomic():
        wait_for_turn(actor.read_profile())
        if demo_ids.exists():
            messages.warning(request, f"You already have demo jobs, tagged {DEMO_TAG}.")
            return back(request, reverse("schedules:jobs"))
        results = [
            services.schedule(actor, prefix=DEMO_PREFIX, tags=[DEMO_TAG], **fields)
            for fields in demo_jobs(actor)
        ]
    problems = [problem_text(result) for result in results if isinstance(result, Err)]
    if problems:
        messages.error(request, problems[0])
    else:
        messages.success(request, f"{len(results)} demo jobs added, tagged {DEMO_TAG}.")
    return back(request, reverse("schedules:jobs"))


def demo_jobs(actor: Actor) -> list[dict[str, Any]]:
    """Describe one job of each kind; those that send something to other hosts start paused."""
    topic = services.profile_of(actor.user).default_topic or f"cronty-demo-{secrets.token_hex(4)}"
    cron = Job.TriggerType.CRON
    return [
        {
            "name": "Stand-up reminder",
            "task": "notify",
            "kwargs": {"topic": topic, "message": "Stand-up in five minutes."},
            "trigger_type": cron,
            "cron": "55 9 * * 1-5",
            "paused": True,
        },
        {
            "name": "Morning briefing",
            "task": "prompt",
            "kwargs": {"prompt": "Summarise my unread mail and today's calendar in five lines."},
            "trigger_type": cron,
            "cron": "0 8 * * 1-5",
        },
        {
            "name": "Uptime ping",
            "task": "webhook",
            "kwargs": {"url": "https://example.com/", "method": "GET"},
            "trigger_type": Job.TriggerType.INTERVAL,
            "every": timedelta(minutes=45),
            "paused": True,
        },
    ]
