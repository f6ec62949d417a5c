"""The notifications page: the ntfy server, the topics in use, and a test message."""

from dataclasses import dataclass
from typing import Any

from asgiref.sync import async_to_sync
from django.conf import settings
from django.db.models import OuterRef, Subquery
from django.http import HttpRequest, HttpResponse
from django.views.generic import TemplateView

from schedules import limits, services
from schedules.models import Execution, Job
from schedules.models.jobs import JobQuerySet
from schedules.models.keysets import WALKED
from schedules.services import Actor
from schedules.services.pushes import run_of
from schedules.tasks import registry
from schedules.tasks.registry import Final, RetryLater
from schedules.web.views.page import PageMixin

MOST_JOBS = 200


@dataclass
class Topic:
    """A topic that jobs send to, with its last delivery."""

    name: str
    jobs: int = 0
    last: Execution | None = None

    @property
    def link(self) -> str:
        return f"{settings.NTFY_URL.rstrip('/')}/{self.name}"


class NotificationsPage(PageMixin, TemplateView):
    template_name = "schedules/notifications.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(
            server=settings.NTFY_URL,
            has_token=bool(settings.NTFY_TOKEN),
            topics=topics_of(self.actor),
            **kwargs,
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        """Send a test message at once, without a worker, and show the server's answer."""
        topic = request.POST.get("topic", "").strip()
        if problem := limits.topic_problem(topic):
            context = self.get_context_data(typed=topic, topic_error=problem)
            return self.render_to_response(context, status=422)
        is_sent, answer = send_test(topic, self.actor)
        return self.render_to_response(self.get_context_data(typed=topic, is_sent=is_sent, answer=answer))


def _notify() -> registry.Task:
    task = registry.get("notify")
    assert task is not None
    return task


def topics_of(actor: Actor) -> list[Topic]:
    """Collect the topics that the next jobs to run send to, each with its last delivery."""
    jobs = list(_notifications(actor).only("pk", "task", "kwargs", "args"))
    topic_by_job = {job.pk: str(job.argument("topic") or "") for job in jobs}
    topics: dict[str, Topic] = {}
    for name in topic_by_job.values():
        if name:
            topics.setdefault(name, Topic(name)).jobs += 1
    ended = Execution.objects.filter(job=OuterRef("pk"), finished_at__isnull=False)
    newest = Subquery(ended.order_by("-scheduled_for").values("pk")[:1])
    keys = (
        Job.objects.filter(pk__in=list(topic_by_job)).annotate(newest=newest).values_list("newest", flat=True)
    )
    for run in Execution.objects.filter(pk__in=list(keys)).order_by("finished_at"):
        if topic := topics.get(topic_by_job.get(run.job_id or 0, "")):
            topic.last = run
    return sorted(topics.values(), key=lambda topic: topic.name)


def _notifications(actor: Actor) -> JobQuerySet:
    if not actor.sees_all:
        return actor.jobs().filter(task="notify")[:MOST_JOBS]
    # No index has the notifications of everybody: look through the jobs that run next.
    soon = actor.jobs().armed().order_by("next_run_at", "-pk").values_list("pk", "task")[:WALKED]
    return Job.objects.filter(pk__in=[pk for pk, task in soon if task == "notify"][:MOST_JOBS])


def send_test(topic: str, actor: Actor) -> tuple[bool, str]:
    words = {"topic": topic, "title": "Cronty", "message": "It works: Cronty can reach you here."}

    push = services.begin_push(actor, words)

    async def send() -> Any:
        return await _notify().call(run_of(push), [], words)

    try:
        receipt = async_to_sync(send)()
    except (Final, RetryLater) as error:
        services.end_push(push, error=str(error))
        return False, str(error)
    services.end_push(push, result=receipt)
    return True, f"{receipt['server']} took it as message {receipt['id']}."
