"""The inbox of prompts that wait for an agent."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_POST
from django.views.generic import TemplateView

from schedules import services
from schedules.models import Execution, Token
from schedules.models.keysets import WALKED, Segment
from schedules.result import Err, Ok, Result
from schedules.tasks.forms.fields import plain_lines
from schedules.web import drafts
from schedules.web.views.live import LivePageMixin
from schedules.web.views.page import actor_of, back, problem_text, show_problem
from schedules.web.views.paging import read_page


class InboxPage(LivePageMixin, TemplateView):
    """Prompts that no agent has finished yet, oldest first; a person may answer them, too."""

    template_name = "schedules/inbox.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        waiting = self.actor.executions().waiting().filter(job__deleted_at=None).select_related("job__owner")
        listed = read_page([Segment(waiting, ("scheduled_for", "pk"))], self.request, 20)
        typed = drafts.take(self.request) or QueryDict()
        unsent = typed.get("answer", "")
        for run in listed.rows:
            if typed.get("action") == reverse("schedules:answer", args=[run.pk]):
                run.typed, unsent = unsent, ""
            run.prompt = (run.job and run.job.argument("prompt")) or ""
            run.is_held = run.is_held_at(self.page.now)
            run.can_change = bool(run.job and self.actor.may_change(run.job))
        return super().get_context_data(
            listed=listed,
            unsent=unsent,
            most_typed=settings.CRONTY_MAX_JSON_BYTES,
            ended=self._recently_ended(),
            has_agent=Token.objects.usable(self.page.now).filter(owner=self.actor.user.pk).exists(),
            **kwargs,
        )

    def _recently_ended(self) -> list[Execution]:
        """Return the last prompts that ended, among the newest runs: a long history may have none."""
        newest = self.actor.executions().order_by("-scheduled_for", "-pk")
        rows = newest.values_list("pk", "task", "status")[:WALKED]
        ended = [pk for pk, task, status in rows if task == "prompt" and status in Execution.FINAL]
        return list(newest.select_related("job").filter(pk__in=ended[:5]))


def _act(request: HttpRequest, result: Result[Execution], words: str) -> HttpResponse:
    match result:
        case Ok(run):
            messages.success(request, words.format(name=run.job_name))
        case Err() as problem:
            show_problem(request, problem)
    return back(request, reverse("schedules:inbox"))


@require_POST
def answer(request: HttpRequest, run_id: int) -> HttpResponse:
    text = plain_lines(request.POST.get("answer", "").strip())
    if not text:
        messages.error(request, "Write an answer first, or dismiss the prompt.")
        return back(request, reverse("schedules:inbox"))
    actor = actor_of(request)
    result = services.complete_prompt(actor, run_id, result=text)
    # What was written may still be needed, even if the job is in the trash by now.
    if isinstance(result, Err) and actor.executions().filter(pk=run_id).exists():
        problem, sender = problem_text(result), back(request, reverse("schedules:inbox"))
        if why := drafts.keep(request, sender.url, note=""):
            return drafts.not_kept(request, f"{problem} Your answer isn't kept: {why}.", sender.url)
        messages.error(request, problem)
        return sender
    return _act(request, result, "{name} answered.")


@require_POST
def dismiss(request: HttpRequest, run_id: int) -> HttpResponse:
    return _act(request, services.dismiss_prompt(actor_of(request), run_id), "{name} dismissed.")


@require_POST
def release(request: HttpRequest, run_id: int) -> HttpResponse:
    return _act(
        request, services.release_prompt(actor_of(request), run_id), "{name} is available to agents again."
    )
