"""What waits for a person or an agent, with its answers, and the page of agents: runners, and the switch that stops all."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST
from django.views.generic import TemplateView

from schedules import services
from schedules.models import AgentStop, Execution, Job, Token
from schedules.models.counting import counted
from schedules.result import Err, Ok, Result
from schedules.services.job_list import JobQuery
from schedules.services.jobs.outlook import USUAL_PERIOD, outlook_in_words, read_outlook
from schedules.services.run_list import find_run
from schedules.services.runs.agent_stops import (
    Stopped,
    may_stop_everybody,
    read_stop,
    resume_agents,
    stop_agents,
)
from schedules.services.runs.approvals import (
    ALWAYS,
    DENY,
    ONCE,
    REPLY,
    AnsweredApproval,
    answer_approval,
    describe,
    list_waiting,
)
from schedules.services.runs.prompts import read_waiting, recently_ended
from schedules.services.runs.runner_list import list_runners
from schedules.tasks.forms.fields import plain_lines
from schedules.web.messages import message_of
from schedules.web.views.live import LivePageMixin
from schedules.web.views.page import actor_of, back, finish, is_number

# The first line of a prompt is cut at this length in the list.
LINE_LENGTH = 200
# How much of an answer that was refused is shown.
SHOWN_ANSWER = 2_000
# The most prompts that one action can dismiss.
MAX_SELECTED = 100
DENIED_IN_RUN = "Denied. The run goes on without it."
CONFIRMATIONS = {
    ONCE: "Allowed once. The run goes on.",
    ALWAYS: "Allowed, now and in later runs of this job. The run goes on.",
    DENY: "Denied. The run has ended.",
    REPLY: "Your answer was sent. The run goes on.",
}


class InboxPage(LivePageMixin, TemplateView):
    """Prompts that no agent has finished yet, oldest first; a person may also answer them."""

    template_name = "schedules/inbox.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        listed = read_waiting(self.actor, self.request.GET, 20)
        groups = by_job(listed.rows)
        rows: list[Any] = [run for group in groups for run in group]
        requested = self.request.GET.get("run", "")
        chosen = next((run for run in rows if str(run.pk) == requested), rows[0] if rows else None)
        for run in rows:
            self._describe(run)
        following = rows[rows.index(chosen) + 1 :][:1] or rows[:-1][-1:] if chosen else []
        return super().get_context_data(
            listed=listed,
            groups=groups,
            chosen=chosen,
            can_dismiss=any(run.can_change for run in rows),
            list_address=self._address(None),
            following_address=self._address(following[0] if following else None),
            most_typed=settings.CRONTY_MAX_JSON_BYTES,
            approvals=describe(self.actor, list_waiting(self.actor)),
            zone=self.page.zone,
            ended=recently_ended(self.actor, 5),
            has_agent=Token.objects.usable(self.page.now).filter(owner=self.actor.user.pk).exists(),
            **kwargs,
        )

    def _describe(self, run: Any) -> None:
        """Set the attributes that the templates show of a prompt."""
        run.prompt = run.argument("prompt") or ""
        run.first_line = next((line for line in run.prompt.splitlines() if line.strip()), "")[:LINE_LENGTH]
        run.is_held = run.is_held_at(self.page.now)
        # The job may have been deleted for good.
        is_paused = run.job is not None and run.job.status == Job.Status.PAUSED
        run.is_paused = is_paused and run.cause != Execution.Cause.MANUAL
        run.can_change = run.job is not None and self.actor.may_change(run.job)

    def _address(self, run: Execution | None) -> str:
        """Return the address of this page with another prompt selected, or with none."""
        query = self.request.GET.copy()
        query.pop("run", None)
        if run:
            query["run"] = str(run.pk)
        return f"{self.request.path}?{query.urlencode()}" if query else self.request.path


def by_job(runs: Sequence[Execution]) -> list[list[Execution]]:
    """Group prompts by job, in the order of the first prompt of each."""
    groups: dict[int | None, list[Execution]] = {}
    for run in runs:
        groups.setdefault(run.job_id, []).append(run)
    return list(groups.values())


@require_POST
def answer(request: HttpRequest, run_id: int) -> HttpResponse:
    text = plain_lines(request.POST.get("answer", "").strip())
    if not text:
        messages.error(request, "Write an answer first, or dismiss the prompt.")
        return back(request, reverse("schedules:inbox"))
    actor = actor_of(request)
    result = services.complete_prompt(actor, run_id, result=text)
    # What was typed may still be needed, even if the job is in the trash by now.
    if isinstance(result, Err) and find_run(actor, run_id):
        messages.error(request, f"{message_of(result)} Your answer wasn't sent: “{text[:SHOWN_ANSWER]}”")
        return back(request, reverse("schedules:inbox"))
    return finish(request, result, "{0.job_name} answered.", reverse("schedules:inbox"))


@require_POST
def dismiss(request: HttpRequest, run_id: int) -> HttpResponse:
    result = services.dismiss_prompt(actor_of(request), run_id)
    return finish(request, result, "{0.job_name} dismissed.", reverse("schedules:inbox"))


@require_POST
def dismiss_several(request: HttpRequest) -> HttpResponse:
    """Dismiss the selected prompts, and say which could not be dismissed."""
    actor, default = actor_of(request), reverse("schedules:inbox")
    ids = [int(text) for text in request.POST.getlist("run")[:MAX_SELECTED] if is_number(text)]
    if not ids:
        messages.warning(request, "Select at least one prompt first.")
        return back(request, default)
    results = [services.dismiss_prompt(actor, run_id) for run_id in ids]
    dismissed = [result.value for result in results if isinstance(result, Ok)]
    problems = [result for result in results if isinstance(result, Err)]
    if dismissed:
        messages.success(request, f"{counted(len(dismissed), 'prompt')} dismissed.")
    if problems:
        messages.warning(
            request, f"{counted(len(problems), 'prompt')} left as before. {message_of(problems[0])}"
        )
    return back(request, default)


@require_POST
def release(request: HttpRequest, run_id: int) -> HttpResponse:
    result = services.release_prompt(actor_of(request), run_id)
    return finish(request, result, "{0.job_name} is available to agents again.", reverse("schedules:inbox"))


@require_POST
def answer_agent(request: HttpRequest, approval_id: int) -> HttpResponse:
    """Answer what an agent asks, from the inbox or the page of a run."""
    chosen, arguments = read_answer(request)
    result = answer_approval(actor_of(request), approval_id, chosen, **arguments)
    return finish(request, result, confirmation_of_approval(chosen, result), reverse("schedules:inbox"))


def confirmation_of_approval(answer: str, result: Result[AnsweredApproval]) -> str:
    """Say what an answer has done."""
    if answer == DENY and isinstance(result, Ok) and result.value.approval.in_run:
        return DENIED_IN_RUN
    return CONFIRMATIONS.get(answer, "")


def read_answer(request: HttpRequest) -> tuple[str, dict[str, str]]:
    """Return the answer, and the other arguments of `answer_approval`; a reply is the text of a button or typed."""
    choice = request.POST.get("choice", "")
    answer = REPLY if choice else request.POST.get("answer", "")
    text = (choice or request.POST.get("text", "")) if answer == REPLY else ""
    return answer, {"seen": request.POST.get("seen", ""), "text": text}


class AgentsPage(LivePageMixin, TemplateView):
    template_name = "schedules/agents.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        runners = list_runners(self.actor, self.page.now)
        stop = read_stop(self.actor)
        may_stop_all = may_stop_everybody(self.actor)
        return super().get_context_data(
            runners=runners,
            outlook=self._outlook() if runners else [],
            stop=stop,
            is_for_everybody=stop is not None and stop.scope == AgentStop.EVERYBODY,
            may_stop_all=may_stop_all,
            **kwargs,
        )

    def _outlook(self) -> list[str]:
        """Describe what the prompts of the coming days will use."""
        now, query = self.page.now, JobQuery(task="prompt")
        return outlook_in_words(read_outlook(self.actor, query, now, until=now + USUAL_PERIOD))


@require_POST
def switch_agents(request: HttpRequest) -> HttpResponse:
    """Stop or restart the agents of one person or of everybody."""
    actor, default = actor_of(request), reverse("schedules:agents")
    everybody = request.POST.get("whose") == "everybody"
    if request.POST.get("then") == "start":
        return finish(request, resume_agents(actor, everybody=everybody), "Agents work again.", default)
    return finish(request, stop_agents(actor, everybody=everybody), stopped_message, default)


def stopped_message(stopped: Stopped) -> str:
    """Say that agents are stopped, and how many runs and prompts this ended."""
    ended = [
        f"{count} {noun}{'' if count == 1 else 's'}"
        for count, noun in ((stopped.runs, "run"), (stopped.leases, "claimed prompt"))
        if count
    ]
    return "Agents are stopped" + (f", with {' and '.join(ended)}." if ended else ".")
