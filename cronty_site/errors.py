"""The page for a request that failed."""

import sys

from django.http import HttpRequest, HttpResponse
from django.template import loader

from schedules.worker.database_errors import TRY_AGAIN, TRY_AGAIN_SECONDS, outage_in


def server_error(request: HttpRequest) -> HttpResponse:
    """Say that something went wrong, or that the database is away: then the same request may succeed later."""
    # Django calls this while it handles the error; the page is rendered without the request, which may need the database.
    if outage_in(sys.exception()):
        page = loader.render_to_string("500.html", {"outage": TRY_AGAIN})
        return HttpResponse(page, status=503, headers={"Retry-After": str(TRY_AGAIN_SECONDS)})
    return HttpResponse(loader.render_to_string("500.html"), status=500)
