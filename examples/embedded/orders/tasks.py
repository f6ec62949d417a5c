"""Tasks of the shop; Cronty imports the module `tasks` of every installed app."""

from django.utils import timezone

from orders.models import Order
from schedules.tasks import task


@task("orders.remind")
def remind(order_id: int) -> str:
    """Remind a customer of an order that is not paid."""
    unpaid = Order.objects.filter(pk=order_id, paid_at=None)
    return "reminded" if unpaid.update(reminded_at=timezone.now()) else "paid already"
