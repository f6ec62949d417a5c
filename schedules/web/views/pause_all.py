"""The page that pauses all jobs of a person until a date, and resumes them."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.generic import TemplateView

from schedules.models.counting import counted
from schedules.result import sentence
from schedules.services.jobs.pause_all import (
    pause_everything,
    read_state,
    resume_everything,
)
from schedules.web.messages import message_of
from schedules.web.views.job import read_until
from schedules.web.views.page import PageMixin
from schedules.when.phrases import PhraseError


class PauseAllPage(PageMixin, TemplateView):
    """Shows what would be paused and what is paused, and does either."""

    template_name = "schedules/pause_all.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(state=read_state(self.actor), **kwargs)

    def post(self, request: HttpRequest) -> HttpResponse:
        is_pause, typed = request.POST.get("verb") != "resume", request.POST.get("until", "").strip()
        try:
            until = read_until(typed, self.page) if is_pause else None
        except PhraseError as error:
            context = self.get_context_data(typed=typed, problem=sentence(str(error)))
            return self.render_to_response(context, status=422)
        changed = pause_everything(self.actor, until) if is_pause else resume_everything(self.actor)
        participle = "paused" if is_pause else "resumed"
        messages.success(request, f"{counted(len(changed.jobs), 'job')} {participle}.")
        if changed.refused:
            unchanged = counted(len(changed.refused), "job")
            messages.warning(request, f"{unchanged} left unchanged. {message_of(changed.refused[0])}")
        return HttpResponseRedirect(reverse("schedules:pause-all"))
