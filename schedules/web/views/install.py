"""What a phone needs to install the pages: the manifest, the service worker and the page shown without a connection.

None of it contains anything private: a browser keeps these answers, also after a log-out.
"""

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.urls import reverse
from django.views.decorators.http import require_safe

_FRESH = "private, no-cache"


@login_not_required
@require_safe
def manifest(request: HttpRequest) -> HttpResponse:
    """Return the web manifest, with which a text that a phone shares opens the form of a new job."""
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
    return JsonResponse(content, content_type="application/manifest+json", headers={"Cache-Control": _FRESH})


@login_not_required
@require_safe
def worker(request: HttpRequest) -> HttpResponse:
    """Return the service worker, which keeps only static files and the page for when there is no connection."""
    context = {
        "offline": reverse("schedules:offline"),
        "static_files": request.build_absolute_uri(settings.STATIC_URL),
        "icon": static("schedules/icon.png"),
        "start": reverse("schedules:jobs"),
        "kept": [static("schedules/app.css"), static("schedules/favicon.svg")],
    }
    answer = render(request, "schedules/worker.js", context, content_type="text/javascript")
    answer["Cache-Control"] = _FRESH
    return answer


@login_not_required
@require_safe
def offline(request: HttpRequest) -> HttpResponse:
    """Return the page that the service worker shows without a connection."""
    answer = render(request, "schedules/offline.html")
    answer["Cache-Control"] = _FRESH
    return answer
