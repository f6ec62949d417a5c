"""The page of a webhook: what it is told, the events it was sent, and actions on it; its form is that of channels."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST
from django.views.generic import TemplateView

from schedules.result import Err, Ok
from schedules.services.people.webhooks import (
    find_webhook,
    list_deliveries,
    only_job_of,
    redeliver,
    rotate_secret,
    switch_webhook,
)
from schedules.web.views.page import PageMixin, actor_of, finish
from schedules.web.views.stored import NEW_SECRET, find_channel, keep_secret


class WebhookPage(PageMixin, TemplateView):
    """Show one webhook, the events it was sent, and a new secret the first time."""

    template_name = "schedules/webhook.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        channel = find_channel(self.actor, self.kwargs["channel_id"])
        found = find_webhook(self.actor, channel.name)
        if isinstance(found, Err):
            raise Http404("webhook")
        webhook = found.value
        return super().get_context_data(
            channel=channel,
            webhook=webhook,
            deliveries=list_deliveries(webhook),
            only_job=only_job_of(self.actor, webhook),
            secret=_take_secret(self.request, channel.number),
            **kwargs,
        )


@require_POST
def change_webhook(request: HttpRequest, channel_id: int, verb: str) -> HttpResponse:
    """Switch the events of a webhook on or off, or give it a new secret."""
    actor = actor_of(request)
    name, address = find_channel(actor, channel_id).name, reverse("schedules:webhook", args=[channel_id])
    if verb == "switch":
        is_on = request.POST.get("on") == "yes"
        message = "{0.name} is told of events again." if is_on else "{0.name} is switched off."
        return finish(request, switch_webhook(actor, name, is_on=is_on), message, address)
    result = rotate_secret(actor, name)
    if isinstance(result, Ok):
        keep_secret(request, channel_id, result.value[1])
    message = "{0[0].name} has a new secret. For a day, requests are signed with both."
    return finish(request, result, message, address)


@require_POST
def send_again(request: HttpRequest, channel_id: int, delivery_id: int) -> HttpResponse:
    actor = actor_of(request)
    result = redeliver(actor, find_channel(actor, channel_id).name, delivery_id)
    return finish(
        request, result, "The event is sent again.", reverse("schedules:webhook", args=[channel_id])
    )


def _take_secret(request: HttpRequest, channel_id: int) -> str:
    """Return and forget the secret that was just created for a webhook."""
    stored = request.session.get(NEW_SECRET)
    if not stored or stored["id"] != channel_id:
        return ""
    del request.session[NEW_SECRET]
    return str(stored["secret"])
