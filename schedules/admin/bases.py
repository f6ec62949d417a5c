"""Base classes and helpers of the admin pages."""

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
# The most rows that a message about an action names.
MAX_NAMED = 50
MAX_SEARCH_LENGTH = 100
SEARCH_HELP = f"The id of a job, or a part of a text. Searches {count_words(WALKED)} rows at a time."
# The look-ups that Django's own filters put behind the name of a field.
_FILTER_LOOKUPS = ("exact", "isnull", "isempty", "gte", "lt")


class ChangeRefused(Exception):  # noqa: N818  (an answer, not an error)
    """A service refused the input: nothing was saved, and the page shows the reason."""

    def __init__(self, refusal: Err) -> None:
        super().__init__(message_of(refusal))
        self.refusal = refusal


class DeclaredLookups(LocalTimes[Row]):
    """Answers only the filters that a page declares, and searches of limited length.

    Django itself lets staff filter by any column and look-up: they could read hidden columns one character at a time,
    or keep the process busy with a regular expression.
    """

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        if lookup in {f"{self.date_hierarchy}__{part}" for part in ("year", "month", "day")}:
            # Django fails on longer numbers, and on the last year.
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
    """Pages up to the limit of a count; what is beyond is found by filters."""

    @cached_property
    def count(self) -> int:
        return count_up_to(cast(QuerySet[Any], self.object_list))


class SkippedRows(admin.SimpleListFilter):
    """How many of the newest rows of a long list are not looked through; a link below the list sets it."""

    title = parameter_name = "skip"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset


class OwnerFilter(admin.SimpleListFilter):
    """Filters by owner; if there are many users, the names in the list lead here instead."""

    title = parameter_name = "owner"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        users: list[Any] = list(get_user_model()._default_manager.order_by(USERNAME)[: MAX_OWNERS + 1])
        if len(users) > MAX_OWNERS:
            chosen = user_with(self.value())
            users = [chosen] if chosen else []
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
    """A list of any length: a filter that no index has looks through a limited number of rows, newest first."""

    older: int | None = None
    """How many rows to skip for the link to older ones, if more are left to look through."""

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        self.walked = WALKED
        super().__init__(request, *args, **kwargs)
        # The search form repeats these, and another search starts at the top.
        self.params.pop(SkippedRows.parameter_name, None)

    def get_query_string(
        self, new_params: dict[str, Any] | None = None, remove: Iterable[str] | None = None
    ) -> str:
        """Start another filter at the top of the list; only the pages of this one stay where they are."""
        is_page = not {PAGE_VAR, ALL_VAR}.isdisjoint(new_params or {})
        dropped = [] if is_page else [SkippedRows.parameter_name]
        return super().get_query_string(new_params, [*(remove or []), *dropped])

    def get_queryset(
        self, request: HttpRequest, exclude_parameters: list[str | None] | None = None
    ) -> QuerySet[Any]:
        rows = super().get_queryset(request, exclude_parameters)
        if self._is_found_by_index(request):
            return rows
        skipped = request.GET.get(SkippedRows.parameter_name, "")
        start = int(skipped) if skipped.isdecimal() and len(skipped) < 10 else 0
        # Of a filter that is given twice, either value counts, and no index has both.
        values = {name: values[0] for name, values in self.filter_params.items() if len(values) == 1}
        newest = self._page.newest(owner_in(self.params), values).values_list("pk", flat=True)
        keys = list(newest[start : start + WALKED + 1])
        if len(keys) > WALKED:
            self.older = start + WALKED
        # By keys, because the rows would be looked through twice: for the page, and to count them.
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
        """Return whether there are more rows than are counted, so that nobody can select them all."""
        return self.result_count > counting.COUNTED


class LongListAdmin(DeclaredLookups[Row]):
    """A page for rows of any number; orders and counts that would read all of them are left out."""

    list_per_page = 50
    list_select_related = ["owner"]
    paginator = CountUpTo
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ()
    # The filters that an index finds.
    indexed = frozenset({"owner", "skip"})
    job_path = "job"

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return LongChangeList

    def get_list_filter(self, request: HttpRequest) -> Any:
        return [SkippedRows, *super().get_list_filter(request)]

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        """Refuse an action on more rows than the page could say."""
        if request.POST.get("select_across") == "1" and count_up_to(queryset) > counting.COUNTED:
            message = f"More than {counting.COUNTED:,} rows are selected. Filter the list first."
            self.message_user(request, message, messages.ERROR)
            return None
        return super().response_action(request, queryset, *args, **kwargs)

    def newest(self, owner: AbstractBaseUser | None, filters: Mapping[str, str]) -> QuerySet[Row]:
        """Return the rows of an owner or of everybody that an index finds, in its order, which is that of the list."""
        raise NotImplementedError

    def get_ordering(self, request: HttpRequest) -> Any:
        return self.newest(owner_in(request.GET), request.GET.dict()).query.order_by

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Row], search_term: str
    ) -> tuple[QuerySet[Row], bool]:
        """Find everything of the job with this id, else look for the text."""
        job_key = key_of(search_term.strip()[:MAX_SEARCH_LENGTH])
        if job_key is None:
            return super().get_search_results(request, queryset, search_term)
        request.has_found_job = True  # type: ignore[attr-defined]
        return queryset.filter(**{self.job_path: job_key}), False


class ServiceAdmin(DeclaredLookups[Row]):
    """Saves through a service, and shows its errors at the fields without losing the input."""

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
        return _refused(base, refusal) if refusal else base

    def save_model(self, request: HttpRequest, obj: Row, form: Any, change: bool) -> None:
        answer = self.save_by_service(request, obj, form)
        if isinstance(answer, Err):
            raise ChangeRefused(answer)
        obj.pk = answer.value.pk
        obj.refresh_from_db()

    def save_by_service(self, request: HttpRequest, obj: Row, form: Any) -> Result[Row]:
        """Create or change the row with what was typed, and return it, or what is wrong with it."""
        raise NotImplementedError


def _refused(base: Any, refusal: Err) -> type[forms.ModelForm[Any]]:
    class RefusedForm(base):  # type: ignore[misc]
        def full_clean(self) -> None:
            super().full_clean()
            add_errors(self, refusal)

    return RefusedForm


class ReadOnlyAdmin(DeclaredLookups[Row]):
    """Shows rows that nobody can change here."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:
        return False


class TaskFilter(admin.SimpleListFilter):
    """Filters by registered task, because finding the tasks of a long ledger would be slow."""

    title = "task"
    parameter_name = "task"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(task.name, task.name) for task in registry.all_tasks(include_system=True)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(task=self.value()) if self.value() else queryset


@admin.display(description="owner")
def owned_by(row: Any) -> SafeString:
    """Show the owner of a row in a list as a link to all their rows."""
    return format_html('<a href="?owner={}">{}</a>', row.owner_id, row.owner)


class StatusFilter(admin.ChoicesFieldListFilter):
    """Filters by status, in the words of the column."""

    words: Mapping[str, str]

    def choices(self, changelist: Any) -> Iterator[Any]:
        words = {label: self.words.get(value, label) for value, label in self.field.flatchoices}
        for choice in super().choices(changelist):
            yield {**choice, "display": words.get(choice["display"], choice["display"])}


def user_of(request: HttpRequest) -> AbstractBaseUser:
    assert isinstance(request.user, AbstractBaseUser)
    return request.user


def actor_of(request: HttpRequest) -> Actor:
    return Actor(user_of(request), Event.Door.ADMIN)


def report(
    page: admin.ModelAdmin[Any],
    request: HttpRequest,
    answers: Sequence[tuple[str, Result[Any]]],
    done: str,
) -> None:
    """Show the results of an action: one message for all successes, and one for each refusal."""
    succeeded = [name for name, answer in answers if isinstance(answer, Ok)]
    if succeeded:
        more = f", and {len(succeeded) - MAX_NAMED:,} more" if len(succeeded) > MAX_NAMED else ""
        message = f"{done} {', '.join(succeeded[:MAX_NAMED])}{more}."
        page.message_user(request, message, messages.SUCCESS)
    refused = [(name, answer) for name, answer in answers if isinstance(answer, Err)]
    for name, answer in refused[:MAX_NAMED]:
        page.message_user(request, f"{name}: {message_of(answer)}", messages.ERROR)
    if len(refused) > MAX_NAMED:
        message = f"{len(refused) - MAX_NAMED:,} more left unchanged."
        page.message_user(request, message, messages.ERROR)


def as_json(value: Any) -> SafeString:
    return format_html("<pre>{}</pre>", json.dumps(value, indent=2, ensure_ascii=False))


def coloured(status: str, text: str = "") -> SafeString:
    """Show a status in its colour, without the icon: a project may not load the style of its size."""
    word, colour, _ = STATUSES[status]
    return format_html('<span class="st {}">{}</span>', colour, text or word)
