"""Receivers of events: list, add, change, switch on and off, test and delete; list and repeat their deliveries."""

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from schedules.api.auth import actor_of
from schedules.api.endpoints import changes, reads
from schedules.api.problems import problem_of
from schedules.api.schemas.event_subscriptions import (
    DeliveriesOut,
    DeliveryOut,
    EventSubscriptionIn,
    EventSubscriptionOut,
    EventSubscriptionsOut,
    NewEventSubscriptionOut,
)
from schedules.result import Code, Err, expect
from schedules.services.documents import delivery_json, event_subscription_json
from schedules.services.people.event_deliveries import list_deliveries, redeliver, send_test_event
from schedules.services.people.event_subscriptions import (
    SubscriptionSecret,
    SubscriptionSpec,
    add_subscription,
    delete_subscription,
    edit_subscription,
    find_subscription,
    list_subscriptions,
    rotate_secret,
    switch_subscription,
)

router = Router(tags=["event subscriptions"])


@reads(router, "", EventSubscriptionsOut)
def list_event_subscriptions(request: HttpRequest) -> Any:
    """List the receivers of events without their secrets. Only a token of the type Program sees them."""
    actor = actor_of(request)
    if actor.is_agent:
        raise problem_of(Err(Code.EVENTS_BY_PEOPLE))
    return {"subscriptions": [event_subscription_json(each) for each in list_subscriptions(actor)]}


@changes(router, "POST", "", {201: NewEventSubscriptionOut}, repeatable=False)
def add_event_subscription(request: HttpRequest, body: EventSubscriptionIn) -> Any:
    """Tell a receiver of events from now on. The answer has its secret, which is not shown again."""
    return Status(201, _with_secret(expect(add_subscription(actor_of(request), _spec(body)))))


@changes(router, "PUT", "/{subscription}", {200: EventSubscriptionOut})
def change_event_subscription(request: HttpRequest, subscription: str, body: EventSubscriptionIn) -> Any:
    """Change everything about a receiver but its secret."""
    return event_subscription_json(expect(edit_subscription(actor_of(request), subscription, _spec(body))))


@changes(router, "POST", "/{subscription}/on", {200: EventSubscriptionOut})
def switch_event_subscription_on(request: HttpRequest, subscription: str) -> Any:
    """Tell a receiver of events again."""
    return event_subscription_json(expect(switch_subscription(actor_of(request), subscription, is_on=True)))


@changes(router, "POST", "/{subscription}/off", {200: EventSubscriptionOut})
def switch_event_subscription_off(request: HttpRequest, subscription: str) -> Any:
    """Switch a receiver off: until it is on again, no events are kept for it."""
    return event_subscription_json(expect(switch_subscription(actor_of(request), subscription, is_on=False)))


@changes(router, "POST", "/{subscription}/secret", {200: NewEventSubscriptionOut}, repeatable=False)
def rotate_event_secret(request: HttpRequest, subscription: str) -> Any:
    """Create a new secret; for a day, requests are signed with both."""
    return _with_secret(expect(rotate_secret(actor_of(request), subscription)))


@changes(router, "POST", "/{subscription}/test", {202: DeliveryOut})
def send_event_test(request: HttpRequest, subscription: str) -> Any:
    """Send an event that says that it is a test."""
    return Status(202, delivery_json(expect(send_test_event(actor_of(request), subscription))))


@reads(router, "/{subscription}/deliveries", DeliveriesOut)
def list_event_deliveries(request: HttpRequest, subscription: str) -> Any:
    """List the last 50 deliveries, newest first."""
    receiver = expect(find_subscription(actor_of(request), subscription))
    return {"deliveries": [delivery_json(each) for each in list_deliveries(receiver)]}


@changes(router, "POST", "/{subscription}/deliveries/{delivery}/send", {202: DeliveryOut})
def send_event_again(request: HttpRequest, subscription: str, delivery: int) -> Any:
    """Send an event again, with the same event id."""
    return Status(202, delivery_json(expect(redeliver(actor_of(request), subscription, delivery))))


@changes(router, "DELETE", "/{subscription}", {204: None})
def delete_event_subscription(request: HttpRequest, subscription: str) -> Any:
    """Delete a receiver; what waits is not sent any more."""
    expect(delete_subscription(actor_of(request), subscription))
    return Status(204, None)


def _spec(body: EventSubscriptionIn) -> SubscriptionSpec:
    return SubscriptionSpec(body.name, body.url, list(body.types), body.tag, body.job)


def _with_secret(opened: SubscriptionSecret) -> dict[str, Any]:
    return {**event_subscription_json(opened.subscription), "secret": opened.secret}
