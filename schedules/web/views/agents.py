"""The agents page: runners with their remaining limits and last runs, and the switch that stops all agents."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST
from django.views.generic import TemplateView

from schedules.models import AgentStop
from schedules.services.job_list import JobQuery
from schedules.services.jobs.outlook import USUAL_PERIOD, outlook_in_words, read_outlook
from schedules.services.runs.agent_stops import (
    Stopped,
    may_stop_everybody,
    read_stop,
    resume_agents,
    stop_agents,
)
from schedules.services.runs.runner_list import list_runners
from schedules.web.views.live import LivePageMixin
from schedules.web.views.page import actor_of, finish


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
    return finish(request, stop_agents(actor, everybody=everybody), stopped_message, default)


def stopped_message(stopped: Stopped) -> str:
    """Say that agents are stopped, and how many runs and prompts this ended."""
    ended = [
        f"{count} {noun}{'' if count == 1 else 's'}"
        for count, noun in ((stopped.runs, "run"), (stopped.leases, "claimed prompt"))
        if count
    ]
    return "Agents are stopped" + (f", with {' and '.join(ended)}." if ended else ".")
