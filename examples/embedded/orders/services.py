"""The business logic of the shop."""

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from orders.models import Customer, Order
from schedules.result import Err
from schedules.services import Actor, schedule


@transaction.atomic
def place_order(customer: Customer, item: str) -> Order:
    """Store an order together with a job that reminds its customer, in one transaction."""
    order = Order.objects.create(customer=customer, item=item)
    answer = schedule(
        Actor(customer),
        name=f"Remind of order {order.pk}",
        task="orders.remind",
        kwargs={"order_id": order.pk},
        trigger_type="once",
        run_at=timezone.now() + settings.ORDER_REMINDER_AFTER,
    )
    if isinstance(answer, Err):
        # The exception also rolls back the order.
        raise ValueError(f"No reminder for this order: {answer.code.name}")
    return order
