"""Pages of event subscriptions: the list, the form, and one subscription with its deliveries."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST
from django.views.generic import TemplateView

from schedules.models import EventSubscription
from schedules.result import Err, Ok, Result
from schedules.services import Actor
from schedules.services.people.event_deliveries import list_deliveries, redeliver, send_test_event
from schedules.services.people.event_subscriptions import (
    SubscriptionSecret,
    add_subscription,
    delete_subscription,
    edit_subscription,
    find_subscription,
    list_subscriptions,
    rotate_secret,
    switch_subscription,
)
from schedules.web.forms.event_subscriptions import EventSubscriptionForm
from schedules.web.messages import add_errors
from schedules.web.views.page import FormPageMixin, PageMixin, actor_of, finish

NEW_SECRET = "cronty_new_event_secret"  # noqa: S105  # nosec B105  (a session key)


class EventsPage(PageMixin, TemplateView):
    """List the receivers of events."""

    template_name = "schedules/events.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(subscriptions=list_subscriptions(self.actor), **kwargs)


class EventSubscriptionFormPage(FormPageMixin, TemplateView):
    """Add a receiver of events, or change one."""

    template_name = "schedules/event_form.html"

    def make_form(self, data: Any = None) -> EventSubscriptionForm:
        existing = self._existing()
        initial = EventSubscriptionForm.values_of(existing) if existing else {}
        return EventSubscriptionForm(data, initial=initial)

    def _existing(self) -> EventSubscription | None:
        key = self.kwargs.get("subscription_id")
        return _find(self.actor, key) if key else None

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        kwargs.setdefault("form", self.make_form())
        return super().get_context_data(subscription=self._existing(), **kwargs)

    def post(self, request: HttpRequest, subscription_id: str = "") -> HttpResponse:
        form = self.make_form(request.POST)
        if form.is_valid():
            match self._save(form, subscription_id):
                case Ok(SubscriptionSecret() as opened):
                    _store_secret(request, opened)
                    messages.success(request, f"Added {opened.subscription.name}.")
                    return _redirect(opened.subscription.public_id)
                case Ok():
                    messages.success(request, "Saved.")
                    return _redirect(subscription_id)
                case Err() as problem:
                    add_errors(form, problem)
        return self.render_to_response(self.get_context_data(form=form), status=422)

    def _save(
        self, form: EventSubscriptionForm, subscription_id: str
    ) -> Result[SubscriptionSecret] | Result[EventSubscription]:
        if subscription_id:
            return edit_subscription(self.actor, subscription_id, form.spec())
        return add_subscription(self.actor, form.spec())


# An address may contain a key.
form_page = sensitive_post_parameters("url")(EventSubscriptionFormPage.as_view())


class EventSubscriptionPage(PageMixin, TemplateView):
    """Show one receiver, its last deliveries, and a new secret the first time."""

    template_name = "schedules/event_subscription.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        subscription = _find(self.actor, self.kwargs["subscription_id"])
        return super().get_context_data(
            subscription=subscription,
            deliveries=list_deliveries(subscription),
            secret=_take_secret(self.request, subscription.public_id),
            **kwargs,
        )


@require_POST
def test(request: HttpRequest, subscription_id: str) -> HttpResponse:
    result = send_test_event(actor_of(request), subscription_id)
    return finish(
        request, result, "A test event is on its way: see the deliveries.", _address(subscription_id)
    )


@require_POST
def switch(request: HttpRequest, subscription_id: str) -> HttpResponse:
    is_on = request.POST.get("on") == "yes"
    result = switch_subscription(actor_of(request), subscription_id, is_on=is_on)
    message = "{0.name} is told of events again." if is_on else "{0.name} is switched off."
    return finish(request, result, message, _address(subscription_id))


@require_POST
def rotate(request: HttpRequest, subscription_id: str) -> HttpResponse:
    result = rotate_secret(actor_of(request), subscription_id)
    if isinstance(result, Ok):
        _store_secret(request, result.value)
    message = "{0.subscription.name} has a new secret. For a day, requests are signed with both."
    return finish(request, result, message, _address(subscription_id))


@require_POST
def delete(request: HttpRequest, subscription_id: str) -> HttpResponse:
    result = delete_subscription(actor_of(request), subscription_id)
    return finish(request, result, "Deleted {0}.", reverse("schedules:events"))


@require_POST
def send_again(request: HttpRequest, subscription_id: str, delivery_id: int) -> HttpResponse:
    result = redeliver(actor_of(request), subscription_id, delivery_id)
    return finish(request, result, "The event is sent again.", _address(subscription_id))


def _find(actor: Actor, subscription_id: str) -> EventSubscription:
    match find_subscription(actor, subscription_id):
        case Ok(subscription) if subscription.public_id == subscription_id:
            return subscription
    raise Http404("subscription")


def _address(subscription_id: str) -> str:
    return reverse("schedules:event-subscription", args=[subscription_id])


def _redirect(subscription_id: str) -> HttpResponse:
    return HttpResponseRedirect(_address(subscription_id), status=303)


def _store_secret(request: HttpRequest, opened: SubscriptionSecret) -> None:
    """Keep a new secret in the session, so that the next page can show it once."""
    request.session[NEW_SECRET] = {"id": opened.subscription.public_id, "secret": opened.secret}


def _take_secret(request: HttpRequest, subscription_id: str) -> str:
    """Return and forget the secret that was just created for a subscription."""
    stored = request.session.get(NEW_SECRET)
    if not stored or stored["id"] != subscription_id:
        return ""
    del request.session[NEW_SECRET]
    return str(stored["secret"])
