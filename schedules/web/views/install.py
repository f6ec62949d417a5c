"""What a phone needs to install the pages as an app: the manifest, the service worker and the offline page.

They contain nothing private, because a browser keeps them even after a logout.
"""

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.urls import reverse
from django.views.decorators.http import require_safe

_REVALIDATE = "private, no-cache"


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
