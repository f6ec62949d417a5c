"""The page of the shop."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse

from orders.models import Order
from orders.services import place_order


@login_required
def orders(request: HttpRequest) -> HttpResponse:
    """List the customer's orders; a POST places one."""
    if request.method == "POST":
        order = place_order(request.user, request.POST["item"])
        return JsonResponse({"order": order.pk}, status=201)
    return JsonResponse(
        {"orders": list(Order.objects.filter(customer=request.user).values("pk", "item", "reminded_at"))}
    )
