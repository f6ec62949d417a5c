"""Times in the admin: on the 24-hour clock, in the zone of the person who is logged in."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from operator import attrgetter
from typing import Any, TypeVar

from django.contrib import admin
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.template.response import SimpleTemplateResponse
from django.utils import timezone

from schedules.services import profile_of

Row = TypeVar("Row", bound=models.Model)


class LocalTimes(admin.ModelAdmin[Row]):
    """Shows and reads times in the zone of the person who is logged in."""

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        with _zone_of(request):
            return _rendered(super().changelist_view(request, extra_context))

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with _zone_of(request):
            return _rendered(super().changeform_view(request, *args, **kwargs))

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        with _zone_of(request):
            return _rendered(super().history_view(request, object_id, extra_context))


def _zone_of(request: HttpRequest) -> AbstractContextManager[None]:
    return timezone.override(profile_of(request.user).zone)


def _rendered(response: HttpResponse) -> HttpResponse:
    """Render a template response now, while the person's zone is active."""
    if isinstance(response, SimpleTemplateResponse):
        response.render()
    return response


def moment(field: str, read: Callable[[Any], datetime | None] | None = None) -> Any:
    """Return a list column of moments, sorted by a field: "Sun 15 Nov 2026 20:18 CET"."""
    read = read or attrgetter(field)

    @admin.display(description=field.removesuffix("_at").replace("_", " "), ordering=field)
    def column(row: models.Model) -> str | None:
        at = read(row)
        return moment_words(at) if at else None

    return column


def moment_words(at: datetime) -> str:
    """Format a moment in the person's zone, on the 24-hour clock, with the name of the zone."""
    local = timezone.localtime(at)
    return f"{local:%a} {local.day} {local:%b %Y %H:%M} {local.tzname()}"
