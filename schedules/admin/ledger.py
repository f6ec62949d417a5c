"""Read-only admin pages for executions, events and clusters."""

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from schedules import clock, limits
from schedules.admin.bases import USERNAME, ReadOnlyAdmin, TaskFilter, as_json, in_utc
from schedules.models import Cluster, Event, Execution


@admin.register(Execution)
class ExecutionAdmin(ReadOnlyAdmin[Execution]):
    list_display = [
        "job_name",
        "owner",
        "task",
        in_utc("scheduled_for"),
        "cause",
        "status",
        "attempt",
        "took",
        "reason",
    ]
    list_filter = ["status", "cause", TaskFilter, "owner"]
    list_select_related = ["owner"]
    list_per_page = 50
    show_full_result_count = False
    search_fields = ["job_name", "job__public_id", f"owner__{USERNAME}"]
    date_hierarchy = "scheduled_for"
    fields = [
        *("job", "owner", "task", "arguments"),
        *("scheduled_for", "last_slot", "slots", "cause", "status", "reason", "attempt"),
        *("cluster", "lease_until", "leased_to", "started_at", "finished_at", "took", "lateness"),
        *("answer", "error", "traceback"),
    ]

    @admin.display(description="kwargs")
    def arguments(self, execution: Execution) -> SafeString | str:
        return as_json(limits.masked(execution.job.kwargs)) if execution.job else "-"

    @admin.display(description="result")
    def answer(self, execution: Execution) -> SafeString:
        return as_json(limits.masked(execution.result))


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin[Event]):
    list_display = [in_utc("at"), "actor", "verb", "subject", "door", "owner"]
    list_filter = ["door", "verb", "owner"]
    list_select_related = ["owner"]
    list_per_page = 50
    show_full_result_count = False
    search_fields = ["subject", "actor", "verb", "job__public_id"]
    date_hierarchy = "at"
    fields = ["at", "actor", "door", "verb", "job", "subject", "owner", "was", "became"]

    @admin.display(description="before")
    def was(self, event: Event) -> SafeString:
        return as_json(event.before)

    @admin.display(description="after")
    def became(self, event: Event) -> SafeString:
        return as_json(event.after)


@admin.register(Cluster)
class ClusterAdmin(ReadOnlyAdmin[Cluster]):
    list_display = [
        "__str__",
        "alive",
        in_utc("started_at"),
        in_utc("last_seen_at"),
        in_utc("stopped_at"),
        "claimed_count",
        "note",
    ]
    search_fields = ["host"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Cluster]:
        fresh = Cluster.objects.fresh(clock.now()).order_by().values("pk")
        return super().get_queryset(request).annotate(is_fresh=Q(pk__in=fresh))

    @admin.display(boolean=True)
    def alive(self, cluster: Any) -> bool:
        return bool(cluster.is_fresh)
