"""Live refresh of pages, and what a phone needs to install the pages as an app.

The manifest, the service worker and the offline page contain nothing private, because a browser keeps them even after a logout.
"""

from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.urls import reverse
from django.views.decorators.http import require_safe

from schedules import clock
from schedules.services.versions import Version, version_of_all
from schedules.web.views.page import Page, PageMixin, actor_of

_REVALIDATE = "private, no-cache"


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


@login_not_required
@require_safe
def manifest(request: HttpRequest) -> HttpResponse:
    """Return the web manifest, which also lets a phone share a text to the form of a new job."""
    start = reverse("schedules:jobs")
    content = {
        "name": "Cronty",
        "short_name": "Cronty",
        "description": "Cron you can talk to.",
        "id": start,
        "start_url": start,
        "scope": start,
        "display": "standalone",
        "background_color": "#f7f8fa",
        "theme_color": "#0f766e",
        "icons": [
            {"src": static("schedules/favicon.svg"), "sizes": "any", "type": "image/svg+xml"},
            {"src": static("schedules/icon.png"), "sizes": "256x256", "type": "image/png"},
        ],
        "shortcuts": [{"name": "New job", "url": reverse("schedules:new")}],
        "share_target": {
            "action": reverse("schedules:new"),
            "method": "GET",
            "params": {"title": "title", "text": "text", "url": "url"},
        },
    }
    return JsonResponse(
        content, content_type="application/manifest+json", headers={"Cache-Control": _REVALIDATE}
    )


@login_not_required
@require_safe
def worker(request: HttpRequest) -> HttpResponse:
    """Return the service worker, which caches only static files and the offline page."""
    context = {
        "offline": reverse("schedules:offline"),
        "static_files": request.build_absolute_uri(settings.STATIC_URL),
        "icon": static("schedules/icon.png"),
        "start": reverse("schedules:jobs"),
        "kept": [static("schedules/app.css"), static("schedules/favicon.svg")],
    }
    answer = render(request, "schedules/worker.js", context, content_type="text/javascript")
    answer["Cache-Control"] = _REVALIDATE
    return answer


@login_not_required
@require_safe
def offline(request: HttpRequest) -> HttpResponse:
    """Return the page that the service worker shows when there is no connection."""
    answer = render(request, "schedules/offline.html")
    answer["Cache-Control"] = _REVALIDATE
    return answer
