"""Base classes of the admin pages: long lists, saving through services, read-only pages, and their filters."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.views.main import ALL_VAR, PAGE_VAR, ChangeList
from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import BadRequest, ValidationError
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.safestring import SafeString

from schedules.admin.local_times import LocalTimes
from schedules.models import Event, counting
from schedules.models.counting import count_up_to, count_words, has_key
from schedules.models.keysets import WALKED
from schedules.result import Err, Ok, Result
from schedules.services import Actor
from schedules.services.job_list import key_of
from schedules.services.people.profiles import MAX_OWNERS
from schedules.tasks import registry
from schedules.templatetags.cronty_statuses import STATUSES
from schedules.web.messages import add_errors, message_of

Row = TypeVar("Row", bound=Model)
USERNAME = get_user_model().USERNAME_FIELD
# The most rows named in a message about an action.
MAX_NAMED = 50
MAX_SEARCH_LENGTH = 100
SEARCH_HELP = f"The id of a job, or a part of a text. Searches {count_words(WALKED)} rows at a time."
# The lookups that Django's own filters append to the name of a field.
_FILTER_LOOKUPS = ("exact", "isnull", "isempty", "gte", "lt")


class ChangeRefused(Exception):  # noqa: N818  (an answer, not an error)
    """A service refused the input: nothing was saved, and the page shows the reason."""

    def __init__(self, refusal: Err) -> None:
        super().__init__(message_of(refusal))
        self.refusal = refusal


class DeclaredLookups(LocalTimes[Row]):
    """Allows only the filters that a page declares, and searches of limited length.

    Django lets staff filter by any column and lookup: they could read hidden columns one character at a time, or keep
    the process busy with a regular expression.
    """

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        if lookup in {f"{self.date_hierarchy}__{part}" for part in ("year", "month", "day")}:
            # Django crashes on longer numbers, and on the year 9999.
            return re.fullmatch("(?!9999)[0-9]{1,4}", value) is not None
        return lookup in self._declared_lookups(request)

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        try:
            return super().get_changelist_instance(request)
        except OverflowError as error:
            raise BadRequest("A number or a date in this filter is out of range.") from error

    def _declared_lookups(self, request: Any) -> set[str]:
        allowed: set[str] = set()
        for declared in self.get_list_filter(request):
            if isinstance(declared, type):
                allowed.add(getattr(declared, "parameter_name", ""))
            else:
                path = str(declared[0] if isinstance(declared, list | tuple) else declared)
                allowed |= {path, *(f"{path}__{lookup}" for lookup in _FILTER_LOOKUPS)}
                target = getattr(self.opts.get_field(path), "target_field", None)
                allowed |= {f"{path}__{target.name}__exact"} if target else set()
        return allowed

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Row], search_term: str
    ) -> tuple[QuerySet[Row], bool]:
        if len(search_term) > MAX_SEARCH_LENGTH:
            message = f"Only the first {MAX_SEARCH_LENGTH} characters were searched for."
            self.message_user(request, message, messages.WARNING)
        return self.search(request, queryset, search_term[:MAX_SEARCH_LENGTH])

    def search(self, request: HttpRequest, queryset: QuerySet[Row], text: str) -> tuple[QuerySet[Row], bool]:
        return super().get_search_results(request, queryset, text)


class CountUpTo(Paginator[Any]):
    """Counts rows only up to a limit; filters lead to the rows beyond it."""

    @cached_property
    def count(self) -> int:
        return count_up_to(cast(QuerySet[Any], self.object_list))


class SkippedRows(admin.SimpleListFilter):
    """The parameter that skips the newest rows in a search of a long list; a link below the list sets it."""

    title = parameter_name = "skip"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset


class OwnerFilter(admin.SimpleListFilter):
    """Filters by owner; if there are too many users to list, the owner names in the rows link to it instead."""

    title = parameter_name = "owner"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        users: list[Any] = list(get_user_model()._default_manager.order_by(USERNAME)[: MAX_OWNERS + 1])
        if len(users) > MAX_OWNERS:
            selected = user_with(self.value())
            users = [selected] if selected else []
        return [(str(user.pk), user.get_username()) for user in users]

    def has_output(self) -> bool:
        return True

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        owner = user_with(self.value())
        return queryset.filter(owner=owner.pk) if owner else queryset.none()


def user_with(key: str | None) -> AbstractBaseUser | None:
    """Return the user with this key from a query string, or None."""
    users: Any = get_user_model()._default_manager
    try:
        return users.filter(pk=key).first() if key else None
    except (ValueError, ValidationError):
        return None


def owner_in(query: Mapping[str, str]) -> AbstractBaseUser | None:
    """Return the owner that a query string filters by."""
    return user_with(query.get(OwnerFilter.parameter_name))


class LongChangeList(ChangeList):
    """A list of any length: a filter without an index searches a limited number of rows, newest first."""

    older: int | None = None
    """How many rows the link to older ones skips, if there are more rows to search."""

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        self.walked = WALKED
        super().__init__(request, *args, **kwargs)
        # The search form repeats the other parameters, but a new search starts at the top.
        self.params.pop(SkippedRows.parameter_name, None)

    def get_query_string(
        self, new_params: dict[str, Any] | None = None, remove: Iterable[str] | None = None
    ) -> str:
        """Drop the skipped rows from links to other filters, which start at the top, but not from links to pages."""
        is_page = not {PAGE_VAR, ALL_VAR}.isdisjoint(new_params or {})
        removed = [] if is_page else [SkippedRows.parameter_name]
        return super().get_query_string(new_params, [*(remove or []), *removed])

    def get_queryset(
        self, request: HttpRequest, exclude_parameters: list[str | None] | None = None
    ) -> QuerySet[Any]:
        rows = super().get_queryset(request, exclude_parameters)
        if self._is_found_by_index(request):
            return rows
        skipped = request.GET.get(SkippedRows.parameter_name, "")
        start = int(skipped) if skipped.isdecimal() and len(skipped) < 10 else 0
        # A filter that is given twice matches either value, and no index covers both.
        values = {name: values[0] for name, values in self.filter_params.items() if len(values) == 1}
        newest = self._page.newest(owner_in(self.params), values).values_list("pk", flat=True)
        keys = list(newest[start : start + WALKED + 1])
        if len(keys) > WALKED:
            self.older = start + WALKED
        # By keys, because otherwise the rows would be searched twice: for the page, and for the count.
        return rows.filter(
            has_key(rows.filter(has_key(keys[:WALKED])).order_by().values_list("pk", flat=True))
        )

    def _is_found_by_index(self, request: HttpRequest) -> bool:
        if self.query:
            return getattr(request, "has_found_job", False)
        return self.filter_params.keys() <= self._page.indexed

    @property
    def _page(self) -> "LongListAdmin[Any]":
        return cast("LongListAdmin[Any]", self.model_admin)

    @property
    def older_link(self) -> str:
        return self.get_query_string({SkippedRows.parameter_name: self.older}, [PAGE_VAR])

    @property
    def is_too_long(self) -> bool:
        """Return whether there are more rows than are counted, so that not all of them can be selected."""
        return self.result_count > counting.COUNTED


class LongListAdmin(DeclaredLookups[Row]):
    """A page for any number of rows, without orders and counts that would read all of them."""

    list_per_page = 50
    list_select_related = ["owner"]
    paginator = CountUpTo
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ()
    # Filters that have an index.
    indexed = frozenset({"owner", "skip"})
    job_path = "job"

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return LongChangeList

    def get_list_filter(self, request: HttpRequest) -> Any:
        return [SkippedRows, *super().get_list_filter(request)]

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        """Refuse an action on more rows than the page can count."""
        if request.POST.get("select_across") == "1" and count_up_to(queryset) > counting.COUNTED:
            message = f"More than {counting.COUNTED:,} rows are selected. Filter the list first."
            self.message_user(request, message, messages.ERROR)
            return None
        return super().response_action(request, queryset, *args, **kwargs)

    def newest(self, owner: AbstractBaseUser | None, filters: Mapping[str, str]) -> QuerySet[Row]:
        """Return the rows of an owner, or of everybody, in the order of an index, which is that of the list."""
        raise NotImplementedError

    def get_ordering(self, request: HttpRequest) -> Any:
        return self.newest(owner_in(request.GET), request.GET.dict()).query.order_by

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Row], search_term: str
    ) -> tuple[QuerySet[Row], bool]:
        """Find the rows of the job with this id, or search for the text if it is not an id."""
        job_key = key_of(search_term.strip()[:MAX_SEARCH_LENGTH])
        if job_key is None:
            return super().get_search_results(request, queryset, search_term)
        request.has_found_job = True  # type: ignore[attr-defined]
        return queryset.filter(**{self.job_path: job_key}), False


class ServiceAdmin(DeclaredLookups[Row]):
    """Saves through a service, and shows its errors at the fields, with the input intact."""

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except ChangeRefused as refused:
            request.refusal = refused.refusal  # type: ignore[attr-defined]
            return super().changeform_view(request, object_id, form_url, extra_context)

    def get_form(
        self, request: HttpRequest, obj: Row | None = None, change: bool = False, **kwargs: Any
    ) -> type[forms.ModelForm[Row]]:
        base = super().get_form(request, obj, change=change, **kwargs)
        refusal: Err | None = getattr(request, "refusal", None)
        return _form_with_errors(base, refusal) if refusal else base

    def save_model(self, request: HttpRequest, obj: Row, form: Any, change: bool) -> None:
        result = self.save_by_service(request, obj, form)
        if isinstance(result, Err):
            raise ChangeRefused(result)
        obj.pk = result.value.pk
        obj.refresh_from_db()

    def save_by_service(self, request: HttpRequest, obj: Row, form: Any) -> Result[Row]:
        """Create or change the row with the values of the form, and return it or a refusal."""
        raise NotImplementedError


def _form_with_errors(base: Any, refusal: Err) -> type[forms.ModelForm[Any]]:
    class FormWithErrors(base):  # type: ignore[misc]
        def full_clean(self) -> None:
            super().full_clean()
            add_errors(self, refusal)

    return FormWithErrors


class ReadOnlyAdmin(DeclaredLookups[Row]):
    """Shows rows that cannot be changed in the admin."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:
        return False


class TaskFilter(admin.SimpleListFilter):
    """Filters by registered task, because collecting the tasks of a long ledger would be slow."""

    title = parameter_name = "task"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(task.name, task.name) for task in registry.all_tasks(include_system=True)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(task=self.value()) if self.value() else queryset


@admin.display(description="owner")
def owned_by(row: Any) -> SafeString:
    """Show the owner of a row in a list as a link to all their rows."""
    return format_html('<a href="?owner={}">{}</a>', row.owner_id, row.owner)


class StatusFilter(admin.ChoicesFieldListFilter):
    """Filters by status, with the labels of the column."""

    labels: Mapping[str, str]

    def choices(self, changelist: Any) -> Iterator[Any]:
        labels = {label: self.labels.get(value, label) for value, label in self.field.flatchoices}
        for choice in super().choices(changelist):
            yield {**choice, "display": labels.get(choice["display"], choice["display"])}


def user_of(request: HttpRequest) -> AbstractBaseUser:
    assert isinstance(request.user, AbstractBaseUser)
    return request.user


def actor_of(request: HttpRequest) -> Actor:
    return Actor(user_of(request), Event.Door.ADMIN)


def report(
    page: admin.ModelAdmin[Any],
    request: HttpRequest,
    results: Sequence[tuple[str, Result[Any]]],
    done: str,
) -> None:
    """Show the results of an action: one message for all successes, and one for each refusal."""
    succeeded = [name for name, result in results if isinstance(result, Ok)]
    if succeeded:
        more = f", and {len(succeeded) - MAX_NAMED:,} more" if len(succeeded) > MAX_NAMED else ""
        message = f"{done} {', '.join(succeeded[:MAX_NAMED])}{more}."
        page.message_user(request, message, messages.SUCCESS)
    refused = [(name, result) for name, result in results if isinstance(result, Err)]
    for name, refusal in refused[:MAX_NAMED]:
        page.message_user(request, f"{name}: {message_of(refusal)}", messages.ERROR)
    if len(refused) > MAX_NAMED:
        message = f"{len(refused) - MAX_NAMED:,} more left unchanged."
        page.message_user(request, message, messages.ERROR)


def as_json(value: Any) -> SafeString:
    return format_html("<pre>{}</pre>", json.dumps(value, indent=2, ensure_ascii=False))


def coloured(status: str, text: str = "") -> SafeString:
    """Show a status in its colour, without the icon, whose styles another project's admin may not load."""
    word, colour, _ = STATUSES[status]
    return format_html('<span class="st {}">{}</span>', colour, text or word)
