"""The agents page: runners with their remaining limits and last runs, and the switch that stops all agents."""

from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST
from django.views.generic import TemplateView

from schedules.models import AgentStop, Event
from schedules.result import Err
from schedules.services import Actor
from schedules.services.job_list import JobQuery
from schedules.services.jobs.outlook import USUAL_PERIOD, outlook_in_words, read_outlook
from schedules.services.people.profiles import find_active
from schedules.services.runs.agent_stops import (
    Stopped,
    may_stop_everybody,
    read_stop,
    resume_agents,
    stop_agents,
)
from schedules.services.runs.runner_list import list_runners
from schedules.tasks.signed_links import read_stop_token
from schedules.web.messages import message_of
from schedules.web.views.live import LivePageMixin
from schedules.web.views.page import actor_of, finish, is_of_somebody_else, keep_address_private

FROM_ALERT = "Link in an alert"


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
def switch(request: HttpRequest) -> HttpResponse:
    """Stop or restart the agents of one person or of everybody."""
    actor, default = actor_of(request), reverse("schedules:agents")
    everybody = request.POST.get("whose") == "everybody"
    if request.POST.get("then") == "start":
        return finish(request, resume_agents(actor, everybody=everybody), "Agents work again.", default)
    result = stop_agents(actor, everybody=everybody)
    message = "" if isinstance(result, Err) else stopped_message(result.value)
    return finish(request, result, message, default)


def stopped_message(stopped: Stopped) -> str:
    """Say that agents are stopped, and how many runs and prompts this ended."""
    ended = [
        f"{count} {noun}{'' if count == 1 else 's'}"
        for count, noun in ((stopped.runs, "run"), (stopped.leases, "claimed prompt"))
        if count
    ]
    return "Agents are stopped" + (f", with {' and '.join(ended)}." if ended else ".")


@login_not_required
@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
def stop_link(request: HttpRequest, token: str) -> HttpResponse:
    """Show what the link in an alert does; only a POST stops agents, so that link previews are harmless."""
    user = find_active(read_stop_token(token))
    context: dict[str, Any] = {"is_known": user is not None}
    if user is not None:
        actor = Actor(user, Event.Door.LINK, FROM_ALERT)
        if request.method == "POST":
            result = stop_agents(actor)
            context["message"] = (
                message_of(result) if isinstance(result, Err) else stopped_message(result.value)
            )
        context["stop"] = read_stop(actor)
        context["is_of_somebody_else"] = is_of_somebody_else(request, user.pk)
    response = render(request, "schedules/stop_agents.html", context, status=200 if user else 404)
    return keep_address_private(response)
