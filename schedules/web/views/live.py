"""The version of what a person sees, which pages contain and poll, and the icon of a page with broken jobs."""

import re
from datetime import timedelta
from hashlib import blake2s
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from schedules import clock
from schedules.models import Event, Execution
from schedules.web.views.page import Page, PageMixin, actor_of
from schedules.web.views.states import MOST_IN_ALARM, MOVING

# Runs that may have changed since the last poll: the newest, and those that have not ended.
NEWEST = 10
MOST_LIVE = 500
# A page polls more often while something is due within this time.
SOON = timedelta(minutes=1)
# As favicon.svg, but red and with a number.
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#c0262d"/>'
    '<text x="16" y="23" fill="#fff" font-family="system-ui, sans-serif" font-size="{size}" font-weight="700"'
    ' text-anchor="middle">{words}</text></svg>'
)


@require_safe
def icon(request: HttpRequest) -> HttpResponse:
    """Draw the icon of a page for the number of broken and late jobs in the query; it never changes."""
    asked = request.GET.get("count", "")
    # Only digits, because the drawing is not escaped.
    words = asked if re.fullmatch("[0-9]{1,2}", asked) else f"{MOST_IN_ALARM - 1}+"
    drawn = ICON.format(words=words, size={1: 22, 2: 20}.get(len(words), 15))
    headers = {"Cache-Control": "private, max-age=31536000, immutable"}
    return HttpResponse(drawn, content_type="image/svg+xml", headers=headers)


class Version(NamedTuple):
    """A short digest that changes with the jobs and runs of a user, and whether to ask again soon."""

    digest: str
    is_soon: bool


def version_of(page: Page) -> Version:
    """Return the version of what the user of this page sees; every query ends after a few rows of an index."""
    now, actor = page.now, page.actor
    columns = ("pk", "status", "attempt", "lease_until")
    newest = list(actor.executions().order_by("-scheduled_for", "-pk").values_list(*columns)[:NEWEST])
    # Of everybody, because no index has the live runs of one owner.
    live = list(Execution.objects.live().order_by().values_list("owner", *columns)[:MOST_LIVE])
    mine = sorted(run for owner, *run in live if actor.sees_all or owner == actor.user.pk)
    # For one owner without the status, which would lead SQLite to another index; only pending jobs have a next run.
    jobs = actor.jobs().armed() if actor.sees_all else actor.jobs()
    armed = jobs.filter(next_run_at__isnull=False).order_by("next_run_at", "-pk")
    due = armed.values_list("next_run_at", flat=True).first()
    events = Event.objects.order_by("-pk") if actor.sees_all else Event.objects.filter(owner=actor.user.pk)
    seen = (
        newest,
        mine,
        due,
        # A job that nobody claims becomes late, which no row says.
        now.minute if due and due < now else None,
        list(events.order_by("-pk").values_list("pk", flat=True)[:1]),
        page.has_live_cluster,
    )
    is_moving = any(status in MOVING for _, status, *_ in [*newest, *mine])
    return Version(
        blake2s(repr(seen).encode(), digest_size=8).hexdigest(),
        is_moving or (due is not None and due <= now + SOON),
    )


class LivePageMixin(PageMixin):
    """Base of the pages that refresh themselves when the version changes."""

    version = ""

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        """Read the version before what the page shows, so that a change in between is noticed."""
        super().setup(request, *args, **kwargs)
        # A part that is read again belongs to a page that has a version already.
        if "HX-Request" not in request.headers:
            self.version = version_of(self.page).digest


@require_safe
def version(request: HttpRequest) -> JsonResponse:
    """Return the version, which every page polls."""
    found = version_of(Page(request, actor_of(request), clock.now()))
    return JsonResponse({"version": found.digest, "soon": found.is_soon})
