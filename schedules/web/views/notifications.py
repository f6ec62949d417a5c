"""The notifications page: the ntfy server, the topics in use, and a test message."""

from dataclasses import dataclass
from typing import Any

from asgiref.sync import async_to_sync
from django.conf import settings
from django.db.models import OuterRef, Q, Subquery
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from django.views.generic import TemplateView

from schedules import limits, services
from schedules.models import Execution, Job
from schedules.models.job_table import IS_UNSENT_NOTIFICATION
from schedules.models.jobs import JobQuerySet
from schedules.models.keysets import WALKED
from schedules.result import Err
from schedules.services import Actor
from schedules.services.runs.pushes import run_of
from schedules.tasks import registry
from schedules.tasks.interface import Final, RetryLater
from schedules.web import drafts
from schedules.web.views.delivery import topic_link
from schedules.web.views.live import LivePageMixin
from schedules.web.views.page import problem_text, render_page

MOST_JOBS = 200


@dataclass
class Topic:
    """A topic that jobs send to, with its last delivery, which may still be under way."""

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
        draft = drafts.take(self.request)
        kwargs.setdefault("typed", draft.get("topic") if draft else None)
        jobs = _notifications(self.actor)
        return super().get_context_data(
            server=settings.NTFY_URL,
            has_token=bool(settings.NTFY_TOKEN),
            topics=topics_of(jobs[:MOST_JOBS]),
            most_jobs=MOST_JOBS if len(jobs) > MOST_JOBS else None,
            topic=chosen,
            qr_link=link_to_show(chosen),
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


def link_to_show(topic: str) -> str:
    """Return the address of a topic, or an empty text if this cannot be one."""
    return "" if limits.topic_problem(topic) else topic_link(topic)


@require_safe
def qr(request: HttpRequest) -> HttpResponse:
    """Render the QR code of a topic, which the welcome page asks for while the topic is typed."""
    topic = request.GET.get("failure_topic", "").strip()
    return render_page(request, "schedules/parts/qr.html", {"topic": topic, "qr_link": link_to_show(topic)})


def _notify() -> registry.Task:
    task = registry.get("notify")
    assert task is not None
    return task


def topics_of(jobs: list[Job]) -> list[Topic]:
    """Collect the topics that these jobs send to, each with its last delivery."""
    topic_by_job = {job.pk: str(job.argument("topic") or "") for job in jobs}
    topics: dict[str, Topic] = {}
    for name in topic_by_job.values():
        if name:
            topics.setdefault(name, Topic(name)).jobs += 1
    # Those that wait for their first start have not been sent yet.
    sent = Execution.objects.filter(~Q(status=Execution.Status.QUEUED, attempt=0), job=OuterRef("pk"))
    newest = Subquery(sent.order_by("-scheduled_for").values("pk")[:1])
    keys = (
        Job.objects.filter(pk__in=list(topic_by_job)).annotate(newest=newest).values_list("newest", flat=True)
    )
    for run in Execution.objects.filter(pk__in=list(keys)).order_by("scheduled_for"):
        if topic := topics.get(topic_by_job.get(run.job_id or 0, "")):
            topic.last = run
    return sorted(topics.values(), key=lambda topic: topic.name)


def _notifications(actor: Actor) -> list[Job]:
    """Return notifications, those that are sent next first, with one more than the page counts."""
    if actor.sees_all:
        # No index has the notifications of everybody: look through the jobs that run next, and the newest.
        soon = actor.jobs().armed().order_by("next_run_at", "-pk").values_list("pk", "task")[:WALKED]
        newest = actor.jobs().order_by("-pk").values_list("pk", "task")[:WALKED]
        keys = list(dict.fromkeys(pk for pk, task in (*soon, *newest) if task == "notify"))[: MOST_JOBS + 1]
        return sorted(_read(Job.objects.filter(pk__in=keys)), key=lambda job: keys.index(job.pk))
    # Without the status, for the sake of the index; only pending jobs have a next run.
    armed = actor.jobs().filter(IS_UNSENT_NOTIFICATION, next_run_at__isnull=False)
    found = _read(armed.order_by("next_run_at", "-pk")[: MOST_JOBS + 1])
    others = actor.jobs().filter(task="notify", next_run_at=None)
    return found + _read(others[: MOST_JOBS + 1 - len(found)])


def _read(jobs: JobQuerySet) -> list[Job]:
    return list(jobs.only("pk", "task", "kwargs", "args"))


def send_test(topic: str, actor: Actor) -> tuple[bool, str]:
    words = {"topic": topic, "title": "Cronty", "message": "Test notification. Cronty can reach you here."}
    begun = services.begin_push(actor, words)
    if isinstance(begun, Err):
        return False, problem_text(begun)
    push = begun.value

    async def send() -> Any:
        return await _notify().call(run_of(push), [], words)

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
