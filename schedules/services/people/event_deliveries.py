"""Deliveries of events to a subscription: list them, repeat one, and send a test event."""

from collections.abc import Callable
from datetime import datetime

from django.db import transaction

from schedules import clock, engine
from schedules.channels.event_delivery import TEST
from schedules.models import EventSubscription, Execution
from schedules.result import Code, Err, Ok, Result
from schedules.services.people.event_subscriptions import locked_subscription
from schedules.services.permissions import Actor

MAX_DELIVERIES = 50
# How many deliveries may wait before tests and repeated ones are refused.
MAX_WAITING = 20


def send_test_event(actor: Actor, reference: str) -> Result[Execution]:
    """Queue a test event."""
    return _queue(actor, reference, _test_of)


def redeliver(actor: Actor, reference: str, run_id: int) -> Result[Execution]:
    """Queue a delivery again, with the same event id, so that the receiver can recognize the event."""

    def again(row: EventSubscription, now: datetime) -> Execution | Err:
        earlier = Execution.objects.filter(pk=run_id, job=row.job_id).first()
        if earlier is None or not (earlier.given or {}).get("event"):
            return Err(Code.DELIVERY_NOT_FOUND, run_id)
        if earlier.finished_at is None:
            return Err(Code.DELIVERY_UNDER_WAY, run_id)
        return engine.delivery_of(row, earlier.given or {}, now, origin=earlier.pk)

    return _queue(actor, reference, again)


def list_deliveries(subscription: EventSubscription, most: int = MAX_DELIVERIES) -> list[Execution]:
    """Return the last deliveries of a subscription, newest first."""
    runs = Execution.objects.filter(job=subscription.job_id)
    return list(runs.defer("traceback").order_by("-scheduled_for", "-pk")[:most])


def _queue(
    actor: Actor, reference: str, build: Callable[[EventSubscription, datetime], Execution | Err]
) -> Result[Execution]:
    now = clock.now()
    with transaction.atomic():
        row = locked_subscription(actor, reference)
        if isinstance(row, Err):
            return row
        if not row.is_on:
            return Err(Code.EVENT_SUBSCRIPTION_OFF, row.name)
        if engine.waiting_deliveries([row.job_id]).get(row.job_id, 0) >= MAX_WAITING:
            return Err(Code.TOO_MANY_WAITING_RUNS, limit=MAX_WAITING)
        delivery: Execution | Err = build(row, now)
        if isinstance(delivery, Err):
            return delivery
        delivery.save(force_insert=True)
    return Ok(delivery)


def _test_of(row: EventSubscription, now: datetime) -> Execution:
    data = {"subscription": {"id": row.public_id, "name": row.name}, "types": row.types}
    return engine.delivery_of(row, {"event": engine.new_event(TEST, data, now)}, now)
