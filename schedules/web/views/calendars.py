"""The page of the user's calendars: list, preview, add, change and delete."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.functional import cached_property
from django.views.decorators.http import require_POST
from django.views.generic import TemplateView

from schedules.result import Ok
from schedules.services.people.calendars import (
    ShownCalendar,
    delete_calendar,
    list_calendars,
    preview_calendar,
    set_calendar,
)
from schedules.web.forms.calendars import CalendarForm
from schedules.web.messages import add_errors
from schedules.web.views.page import FormPageMixin, actor_of, finish


class CalendarsPage(FormPageMixin, TemplateView):
    template_name = "schedules/calendars.html"

    @cached_property
    def calendars(self) -> list[ShownCalendar]:
        return list_calendars(self.actor)

    def make_form(self, data: Any = None, files: Any = None) -> CalendarForm:
        return CalendarForm(data, files, initial=self._initial_values())

    def _initial_values(self) -> dict[str, Any]:
        """Return the form values of the calendar to change, or the defaults for a new one."""
        number = self.request.GET.get("calendar", "")
        calendar = next((each for each in self.calendars if str(each.number) == number), None)
        if calendar is None:
            return {"closes": "yes"}
        return {
            "name": calendar.name,
            "kind": calendar.kind,
            "place": calendar.place,
            "categories": ", ".join(calendar.categories),
            "lines": "\n".join(calendar.lines),
            "closes": "yes" if calendar.closes else "",
            "timezone": calendar.timezone,
        }

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        kwargs.setdefault("form", self.make_form())
        return super().get_context_data(calendars=self.calendars, **kwargs)

    def post(self, request: HttpRequest) -> HttpResponse:
        form = self.make_form(request.POST, request.FILES)
        if form.is_valid():
            is_preview = request.POST.get("then") == "preview"
            change = preview_calendar if is_preview else set_calendar
            answer = change(self.actor, form.spec())
            if isinstance(answer, Ok) and is_preview:
                return self.render_to_response(self.get_context_data(form=form, shown=answer.value))
            if isinstance(answer, Ok):
                messages.success(request, f"Saved {answer.value.name}.")
                return HttpResponseRedirect(reverse("schedules:calendars"))
            add_errors(form, answer)
        return self.render_to_response(self.get_context_data(form=form), status=422)


@require_POST
def delete(request: HttpRequest, calendar_id: int) -> HttpResponse:
    actor = actor_of(request)
    calendar = next((each for each in list_calendars(actor) if each.number == calendar_id), None)
    if calendar is None and (name := request.POST.get("shown")):
        messages.warning(request, f"{name[:64]} was deleted already.")
        return HttpResponseRedirect(reverse("schedules:calendars"), status=303)
    if calendar is None:
        raise Http404("calendar")
    return finish(
        request, delete_calendar(actor, calendar.name), "Deleted {0}.", reverse("schedules:calendars")
    )
