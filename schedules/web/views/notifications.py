"""The page of channels and alerts, and the QR code of a topic."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe
from django.views.generic import TemplateView

from schedules import limits
from schedules.services.people.channels import list_channels
from schedules.services.people.incidents import described, list_incidents, snooze_incident
from schedules.web.views.live import LivePageMixin
from schedules.web.views.page import finish, is_number, render_page

MAX_INCIDENTS = 20
SNOOZES = {"1 hour": "an hour", "1 day": "a day", "1 week": "a week"}


class NotificationsPage(LivePageMixin, TemplateView):
    template_name = "schedules/notifications.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(
            channels=list_channels(self.actor),
            incidents=described(list_incidents(self.actor, most=MAX_INCIDENTS), self.page.zone),
            snoozes=SNOOZES,
            server=settings.NTFY_URL,
            has_token=bool(settings.NTFY_TOKEN),
            **kwargs,
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        """Snooze an alert."""
        number = request.POST.get("incident", "")
        if not is_number(number):
            return HttpResponse("Which alert?", status=422)
        result = snooze_incident(self.actor, int(number), request.POST.get("until", ""))
        return finish(request, result, "Snoozed the alert.", reverse("schedules:notifications"))


def link_to_show(topic: str) -> str:
    """Return the address of a topic on the ntfy server, or an empty text if its name is invalid."""
    return "" if limits.topic_problem(topic) else f"{settings.NTFY_URL.rstrip('/')}/{topic}"


@require_safe
def qr(request: HttpRequest) -> HttpResponse:
    """Render the QR code of a topic, which the welcome page requests while the topic is typed."""
    topic = request.GET.get("failure_topic", "").strip()
    return render_page(request, "schedules/parts/qr.html", {"topic": topic, "qr_link": link_to_show(topic)})
