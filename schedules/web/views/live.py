"""Live refresh: a version of everything a person sees, which pages poll, and the icon that shows broken jobs."""

import re
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from schedules import clock
from schedules.services.jobs_by_standing import MAX_IN_ALARM
from schedules.services.versions import Version, version_of_all
from schedules.web.views.page import Page, PageMixin, actor_of

# favicon.svg in red, with a number.
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#c0262d"/>'
    '<text x="16" y="23" fill="#fff" font-family="system-ui, sans-serif" font-size="{size}" font-weight="700"'
    ' text-anchor="middle">{text}</text></svg>'
)


@require_safe
def icon(request: HttpRequest) -> HttpResponse:
    """Draw the page icon with the number of broken and late jobs in the query, which alone determines it."""
    count = request.GET.get("count", "")
    # Only digits, because the SVG is not escaped.
    text = count if re.fullmatch("[0-9]{1,2}", count) else f"{MAX_IN_ALARM - 1}+"
    svg = ICON.format(text=text, size={1: 22, 2: 20}.get(len(text), 15))
    headers = {"Cache-Control": "private, max-age=31536000, immutable"}
    return HttpResponse(svg, content_type="image/svg+xml", headers=headers)


def version_of(page: Page) -> Version:
    """Return the version of what the user of this page sees."""
    return version_of_all(page.actor, page.now, has_cluster=page.has_live_cluster)


class LivePageMixin(PageMixin):
    """Base of pages that refresh themselves when the version changes."""

    version = ""

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        """Read the version before the data of the page, so that a change in between triggers a refresh."""
        super().setup(request, *args, **kwargs)
        # A partial refresh belongs to a page that already has a version.
        if "HX-Request" not in request.headers:
            self.version = version_of(self.page).digest


@require_safe
def version(request: HttpRequest) -> JsonResponse:
    """Return the version, which every page polls."""
    current = version_of(Page(request, actor_of(request), clock.now()))
    return JsonResponse({"version": current.digest, "soon": current.is_soon})
