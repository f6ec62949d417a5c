"""The notifications page: the ntfy server, the topics in use, and a test message."""

from dataclasses import dataclass
from typing import Any

from asgiref.sync import async_to_sync
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe
from django.views.generic import TemplateView

from schedules import limits, services
from schedules.models import Execution, Job
from schedules.result import Err
from schedules.services import Actor
from schedules.services.jobs.notifications import last_deliveries, soonest_notifications
from schedules.services.people.channels import list_channels
from schedules.services.people.incidents import described, list_incidents, snooze_incident
from schedules.services.runs.pushes import run_of
from schedules.tasks import registry
from schedules.tasks.interface import Final, RetryLater
from schedules.web.messages import message_of
from schedules.web.middleware import take_draft
from schedules.web.views.live import LivePageMixin
from schedules.web.views.page import finish, is_number, render_page

MAX_JOBS = 200
MAX_INCIDENTS = 20
SNOOZES = {"1 hour": "an hour", "1 day": "a day", "1 week": "a week"}


@dataclass
class Topic:
    """A topic that jobs send to, with its last delivery, which may still be in progress."""

    name: str
    jobs: int = 0
    last: Execution | None = None

    @property
    def link(self) -> str:
        return topic_link(self.name)


class NotificationsPage(LivePageMixin, TemplateView):
    template_name = "schedules/notifications.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        chosen = self.request.GET.get("topic", "")
        draft = take_draft(self.request)
        kwargs.setdefault("typed", draft.get("topic") if draft else None)
        jobs = soonest_notifications(self.actor, MAX_JOBS + 1)
        return super().get_context_data(
            channels=list_channels(self.actor),
            incidents=described(list_incidents(self.actor, most=MAX_INCIDENTS), self.page.zone),
            snoozes=SNOOZES,
            server=settings.NTFY_URL,
            has_token=bool(settings.NTFY_TOKEN),
            topics=topics_of(jobs[:MAX_JOBS]),
            most_jobs=MAX_JOBS if len(jobs) > MAX_JOBS else None,
            topic=chosen,
            qr_link=link_to_show(chosen),
            **kwargs,
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        """Snooze an alert, or send a test message directly, without a worker, and show the server's answer."""
        if is_number(number := request.POST.get("incident", "")):
            result = snooze_incident(self.actor, int(number), request.POST.get("until", ""))
            return finish(request, result, "Snoozed the alert.", reverse("schedules:notifications"))
        topic = request.POST.get("topic", "").strip()
        if problem := limits.topic_problem(topic):
            context = self.get_context_data(typed=topic, topic_error=problem)
            return self.render_to_response(context, status=422)
        is_sent, answer = send_test(topic, self.actor)
        return self.render_to_response(self.get_context_data(typed=topic, is_sent=is_sent, answer=answer))


def topic_link(topic: str) -> str:
    """Return the address of a topic on the ntfy server."""
    return f"{settings.NTFY_URL.rstrip('/')}/{topic}"


def link_to_show(topic: str) -> str:
    """Return the address of a topic, or an empty text if its name is invalid."""
    return "" if limits.topic_problem(topic) else topic_link(topic)


@require_safe
def qr(request: HttpRequest) -> HttpResponse:
    """Render the QR code of a topic, which the welcome page requests while the topic is typed."""
    topic = request.GET.get("failure_topic", "").strip()
    return render_page(request, "schedules/parts/qr.html", {"topic": topic, "qr_link": link_to_show(topic)})


def _notify() -> registry.Task:
    task = registry.get("notify")
    assert task is not None
    return task


def topics_of(jobs: list[Job]) -> list[Topic]:
    """Return the topics that these jobs send to, each with its last delivery."""
    topic_by_job = {job.pk: str(job.argument("topic") or "") for job in jobs}
    topics: dict[str, Topic] = {}
    for name in topic_by_job.values():
        if name:
            topics.setdefault(name, Topic(name)).jobs += 1
    for run in last_deliveries(jobs):
        if topic := topics.get(topic_by_job.get(run.job_id or 0, "")):
            topic.last = run
    return sorted(topics.values(), key=lambda topic: topic.name)


def send_test(topic: str, actor: Actor) -> tuple[bool, str]:
    arguments = {
        "topic": topic,
        "title": "Cronty",
        "message": "Test notification. Cronty can reach you here.",
    }
    begun = services.begin_push(actor, arguments)
    if isinstance(begun, Err):
        return False, message_of(begun)
    push = begun.value

    async def send() -> Any:
        return await _notify().call(run_of(push), [], arguments)

    try:
        receipt = async_to_sync(send)()
    except (Final, RetryLater) as error:
        services.end_push(push, error=str(error))
        return False, str(error)
    except Exception as error:
        services.end_push(push, error=f"Unexpected error: {type(error).__name__}.")
        raise
    services.end_push(push, result=receipt)
    message = f" (message {receipt['id']})" if receipt["id"] else ""
    return True, f"Sent. ntfy accepted it{message}."
