"""What holds for every request before a page reads it, and for every answer?"""

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.core.exceptions import BadRequest
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware


@sync_and_async_middleware
def guard(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Stand before all pages, whichever way the server calls them."""
    if iscoroutinefunction(get_response):

        async def answer_later(request: HttpRequest) -> HttpResponseBase:
            _without_nul(request)
            later: Awaitable[HttpResponseBase] = get_response(request)
            return _kept_private(await later)

        return answer_later

    def answer(request: HttpRequest) -> HttpResponseBase:
        _without_nul(request)
        return _kept_private(get_response(request))

    return answer


def _without_nul(request: HttpRequest) -> None:
    """Let no address hold a NUL: no row can, and PostgreSQL fails over it instead of finding nothing."""
    if "\x00" in request.path:
        raise BadRequest("A NUL in the address")
    request.META["QUERY_STRING"] = request.META.get("QUERY_STRING", "").replace("%00", "%20")


def _kept_private(response: HttpResponseBase) -> HttpResponseBase:
    """Let no cache show a page to the next person, unless the page itself knows better."""
    response.headers.setdefault("Cache-Control", "private, no-cache")
    return response
