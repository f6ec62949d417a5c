"""Base classes of the admin pages: declared filters, long lists, saving through services."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, TypeVar, cast

import django_stubs_ext
from django import forms
from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import BadRequest
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.safestring import SafeString

from schedules.models import Event
from schedules.models.counting import count_up_to
from schedules.result import Ok, Result
from schedules.services import Actor
from schedules.web.messages import add_errors

# Makes Django's classes accept type arguments, as in `ModelAdmin[Job]`.
django_stubs_ext.monkeypatch()

Row = TypeVar("Row", bound=Model)
USERNAME = get_user_model().USERNAME_FIELD
MAX_SEARCH_LENGTH = 100
# The lookups that Django's own filters append to the name of a field.
_FILTER_LOOKUPS = ("exact", "isnull", "isempty", "gte", "lt")


class DeclaredLookups(admin.ModelAdmin[Row]):
    """Allows only the filters that a page declares and short searches.

    Django lets staff filter by any column and lookup: they could read hidden columns one character at a time, or keep
    the process busy with a regular expression.
    """

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        if lookup in {f"{self.date_hierarchy}__{part}" for part in ("year", "month", "day")}:
            # Django crashes on longer numbers, and on the year 9999.
            return re.fullmatch("(?!9999)[0-9]{1,4}", value) is not None
        return lookup in self._declared_lookups(request)

    def _declared_lookups(self, request: Any) -> set[str]:
        allowed: set[str] = set()
        for declared in self.get_list_filter(request):
            if isinstance(declared, type):
                allowed.add(getattr(declared, "parameter_name", ""))
                continue
            path = str(declared[0] if isinstance(declared, list | tuple) else declared)
            allowed |= {path, *(f"{path}__{lookup}" for lookup in _FILTER_LOOKUPS)}
            target = getattr(self.opts.get_field(path), "target_field", None)
            allowed |= {f"{path}__{target.name}__exact"} if target else set()
        return allowed

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        try:
            return super().get_changelist_instance(request)
        except OverflowError as error:
            raise BadRequest("A number or a date in this filter is out of range.") from error

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Row], search_term: str
    ) -> tuple[QuerySet[Row], bool]:
        if len(search_term) > MAX_SEARCH_LENGTH:
            message = f"Only the first {MAX_SEARCH_LENGTH} characters were searched for."
            self.message_user(request, message, messages.WARNING)
        return super().get_search_results(request, queryset, search_term[:MAX_SEARCH_LENGTH])


class CountUpTo(Paginator[Any]):
    """Counts the rows of a long list only up to a limit."""

    @cached_property
    def count(self) -> int:
        return count_up_to(cast(QuerySet[Any], self.object_list))


class LongList(DeclaredLookups[Row]):
    """A list of any number of rows, the newest first."""

    list_per_page = 50
    ordering = ("-pk",)
    paginator = CountUpTo
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ()


class ServiceAdmin(LongList[Row]):
    """Saves through a service, and shows its errors at the fields, with the input intact."""

    # Which field of the form shows the errors of a column.
    field_of_column: dict[str, str] = {}

    def get_form(
        self, request: HttpRequest, obj: Row | None = None, change: bool = False, **kwargs: Any
    ) -> type[forms.ModelForm[Row]]:
        base: Any = super().get_form(request, obj, change=change, **kwargs)
        page = self

        class FormOfService(base):  # type: ignore[misc]
            instance: Any

            def _post_clean(self) -> None:
                """Let the service check and save the values, instead of the model; the page has begun a transaction."""
                if self.errors:
                    return
                match page.save_by_service(request, self.instance, self):
                    case Ok(saved):
                        self.instance = saved
                    case refusal:
                        add_errors(self, refusal, fields=page.field_of_column)

        return FormOfService

    def save_model(self, request: HttpRequest, obj: Row, form: Any, change: bool) -> None:
        """Do nothing: the form has saved it."""

    def save_by_service(self, request: HttpRequest, obj: Row, form: Any) -> Result[Row]:
        """Create or change the row with the values of the form, and return it or a refusal."""
        raise NotImplementedError


def user_of(request: HttpRequest) -> AbstractBaseUser:
    assert isinstance(request.user, AbstractBaseUser)
    return request.user


def actor_of(request: HttpRequest) -> Actor:
    return Actor(user_of(request), Event.Door.ADMIN)


def as_json(value: Any) -> SafeString:
    return format_html("<pre>{}</pre>", json.dumps(value, indent=2, ensure_ascii=False))


def moment(field: str, read: Callable[[Any], datetime | None] | None = None) -> Any:
    """Return a column of moments like "Sun 15 Nov 2026 19:18 UTC"."""
    read = read or attrgetter(field)

    @admin.display(description=field.removesuffix("_at").replace("_", " "), ordering=field)
    def column(row: Model) -> str | None:
        at = read(row)
        return f"{at.astimezone(UTC):%a %-d %b %Y %H:%M} UTC" if at else None

    return column
