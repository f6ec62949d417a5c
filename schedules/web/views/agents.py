"""The page of agents: runners with what is left of their limits, their last runs, and the kill switch."""

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
from schedules.services.people.profiles import find_active
from schedules.services.runs.agent_stops import (
    Stopped,
    let_agents_work,
    may_stop_everybody,
    read_stop,
    stop_agents,
)
from schedules.services.runs.runner_list import list_runners
from schedules.tasks.stop_links import read_token
from schedules.web.messages import message_of
from schedules.web.views.live import LivePageMixin
from schedules.web.views.page import actor_of, finish

FROM_ALERT = "Link in an alert"


class AgentsPage(LivePageMixin, TemplateView):
    template_name = "schedules/agents.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        stop = read_stop(self.actor)
        may_stop_all = may_stop_everybody(self.actor)
        return super().get_context_data(
            runners=list_runners(self.actor, self.page.now),
            stop=stop,
            is_for_everybody=stop is not None and stop.scope == AgentStop.EVERYBODY,
            may_stop_all=may_stop_all,
            **kwargs,
        )


@require_POST
def switch(request: HttpRequest) -> HttpResponse:
    """Stop the agents of a person or of everybody, or let them work again."""
    actor, default = actor_of(request), reverse("schedules:agents")
    everybody = request.POST.get("whose") == "everybody"
    if request.POST.get("then") == "start":
        return finish(request, let_agents_work(actor, everybody=everybody), "Agents work again.", default)
    result = stop_agents(actor, everybody=everybody)
    said = "" if isinstance(result, Err) else stopped_words(result.value)
    return finish(request, result, said, default)


def stopped_words(stopped: Stopped) -> str:
    """Say what a stop has ended."""
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
    """Show what the link of an alert does; only a POST stops agents, so that previews of links are harmless."""
    user = find_active(read_token(token))
    context: dict[str, Any] = {"is_known": user is not None}
    if user is not None:
        actor = Actor(user, Event.Door.LINK, FROM_ALERT)
        if request.method == "POST":
            result = stop_agents(actor)
            said = message_of(result) if isinstance(result, Err) else stopped_words(result.value)
            context["said"] = said
        context["stop"] = read_stop(actor)
    response = render(request, "schedules/stop_agents.html", context, status=200 if user else 404)
    response["Referrer-Policy"] = "no-referrer"
    response["Cache-Control"] = "no-store"
    response["X-Robots-Tag"] = "noindex"
    return response
