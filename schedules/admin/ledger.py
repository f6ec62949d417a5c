"""Admin pages of what Cronty records: runs, agent runs, approvals, events, questions, incidents, clusters and pinged jobs."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

from django.contrib import admin
from django.contrib.auth.base_user import AbstractBaseUser
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from schedules import clock
from schedules.admin.bases import (
    SEARCH_HELP,
    USERNAME,
    LongListAdmin,
    OwnerFilter,
    ReadOnlyAdmin,
    StatusFilter,
    TaskFilter,
    as_json,
    coloured,
    owned_by,
    report,
    user_of,
)
from schedules.admin.local_times import moment
from schedules.models import AgentRun, Approval, Cluster, Event, Execution, Heartbeat, Incident, Question
from schedules.models.executions import ExecutionQuerySet
from schedules.result import Code, Err
from schedules.secrets import masking
from schedules.services import Actor, event_list, run_list
from schedules.services.jobs.masked_arguments import shown_arguments
from schedules.services.people import incidents
from schedules.services.people.profiles import is_above
from schedules.services.run_list import mentioning
from schedules.services.runs import agent_runs, approvals
from schedules.services.runs.outputs import output_since
from schedules.templatetags.cronty_statuses import CAUSES, STATUSES
from schedules.templatetags.cronty_text import VERBS
from schedules.when import durations


class RunStatusFilter(StatusFilter):
    """Filters by status, using the indexes of rare statuses."""

    labels = MappingProxyType({status.value: STATUSES[status][0] for status in Execution.Status})

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        runs = cast(ExecutionQuerySet, super().queryset(request, queryset))
        match request.GET.getlist("status__exact"):
            case [status]:
                return runs.indexed_for(status)
        return runs


class TriggerFilter(StatusFilter):
    """Filters by what started a run, with the labels of the column."""

    labels = MappingProxyType(CAUSES)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = "trigger"


@admin.register(Execution)
class ExecutionAdmin(LongListAdmin[Execution], ReadOnlyAdmin[Execution]):
    list_display = [
        "job_name",
        owned_by,
        "task",
        moment("scheduled_for"),
        "trigger",
        "state",
        "attempt",
        "duration",
        "reason",
    ]
    list_filter = [
        ("status", RunStatusFilter),
        ("cause", TriggerFilter),
        "scheduled_for",
        TaskFilter,
        OwnerFilter,
    ]
    # Makes Django show a search box; `search` decides which columns are searched.
    search_fields = ["job_name"]
    search_help_text = SEARCH_HELP
    indexed = LongListAdmin.indexed | {"scheduled_for__gte", "scheduled_for__lt"}
    fields = [
        *("job", "owner", "task", "positional", "arguments"),
        *(moment("scheduled_for"), moment("last_slot"), "slots", "trigger", "state", "reason", "attempt"),
        *("cluster", moment("lease_until"), "leased_to", moment("started_at"), moment("finished_at")),
        *("duration", "delay"),
        *("answer", "console", "error", "traceback"),
    ]

    def newest(self, owner: AbstractBaseUser | None, filters: Mapping[str, str]) -> QuerySet[Execution]:
        return run_list.newest_of_owner(owner and owner.pk, filters.get("status__exact"))

    def search(
        self, request: HttpRequest, queryset: QuerySet[Execution], text: str
    ) -> tuple[QuerySet[Execution], bool]:
        # The owner's name is a column of this list.
        return mentioning(cast(ExecutionQuerySet, queryset), text, f"owner__{USERNAME}"), False

    @admin.display(description="status", ordering="status")
    def state(self, execution: Execution) -> SafeString:
        return coloured(execution.shown_status)

    @admin.display(description="trigger", ordering="cause")
    def trigger(self, execution: Execution) -> str:
        return CAUSES[execution.cause]

    @admin.display(description="took")
    def duration(self, execution: Execution) -> str:
        return "-" if execution.took is None else durations.short(execution.took)

    @admin.display(description="start delay")
    def delay(self, execution: Execution) -> str:
        return "-" if execution.lateness is None else durations.short(execution.lateness)

    @admin.display(description="args")
    def positional(self, execution: Execution) -> SafeString | str:
        return as_json(shown_arguments(execution.job)[0]) if execution.job else "-"

    @admin.display(description="kwargs")
    def arguments(self, execution: Execution) -> SafeString | str:
        return as_json(shown_arguments(execution.job)[1]) if execution.job else "-"

    @admin.display(description="result")
    def answer(self, execution: Execution) -> SafeString:
        return as_json(masking.masked(execution.result))

    @admin.display(description="output")
    def console(self, execution: Execution) -> SafeString | str:
        text = output_since(execution).text
        return format_html("<pre>{}</pre>", text) if text else "-"


@admin.register(AgentRun)
class AgentRunAdmin(LongListAdmin[AgentRun], ReadOnlyAdmin[AgentRun]):
    list_display = [
        *("execution_id", owned_by, "runner", "verdict", moment("started_at"), moment("ended_at")),
        *("turns", "tokens_in", "tokens_out", "cost"),
    ]
    list_filter = ["verdict", OwnerFilter]
    fields = [
        *("execution_id", "owner", "attempt", "runner", "kind", "program_version", "session_id", "verdict"),
        *("words", moment("started_at"), moment("ended_at"), "turns", "tokens_in", "tokens_out", "cost"),
        *("tool_calls", "tools", "denials", "cap", "answer"),
    ]

    def newest(self, owner: AbstractBaseUser | None, filters: Mapping[str, str]) -> QuerySet[AgentRun]:
        return agent_runs.newest_of_owner(owner and owner.pk)


@admin.register(Approval)
class ApprovalAdmin(LongListAdmin[Approval], ReadOnlyAdmin[Approval]):
    list_display = [
        *(
            "execution_id",
            owned_by,
            "tool",
            "status",
            moment("asked_at"),
            moment("answered_at"),
            "answered_by",
        )
    ]
    list_filter = ["status", OwnerFilter]
    fields = [
        *(
            "execution_id",
            "owner",
            "attempt",
            "status",
            "runner",
            "session_id",
            "folder",
            "tool",
            "asked_for",
        ),
        *(
            "why",
            "grant",
            "is_always",
            "reply",
            moment("asked_at"),
            moment("expires_at"),
            moment("answered_at"),
        ),
        *("answered_by", moment("used_at")),
    ]

    def newest(self, owner: AbstractBaseUser | None, filters: Mapping[str, str]) -> QuerySet[Approval]:
        return approvals.newest_of_owner(owner and owner.pk)

    @admin.display(description="arguments")
    def asked_for(self, approval: Approval) -> SafeString:
        return format_html_join("", "<p>{}</p><pre>{}</pre>", approval.shown_arguments)


class VerbFilter(admin.SimpleListFilter):
    """Filters by verb from a fixed list, because collecting the verbs of a long log would be slow."""

    title = parameter_name = "verb"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(verb, verb) for verb in VERBS]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(verb=self.value()) if self.value() else queryset


@admin.register(Event)
class EventAdmin(LongListAdmin[Event], ReadOnlyAdmin[Event]):
    list_display = [moment("at"), "actor", "verb", "subject", "door", owned_by]
    list_filter = ["door", VerbFilter, OwnerFilter]
    search_fields = ["subject", "actor", "verb"]
    search_help_text = SEARCH_HELP
    fields = [moment("at"), "actor", "door", "verb", "job", "subject", "owner", "was", "became"]

    def newest(self, owner: AbstractBaseUser | None, filters: Mapping[str, str]) -> QuerySet[Event]:
        return event_list.newest_of_owner(owner and owner.pk)

    @admin.display(description="before")
    def was(self, event: Event) -> SafeString:
        return as_json(event.before)

    @admin.display(description="after")
    def became(self, event: Event) -> SafeString:
        return as_json(event.after)


@admin.register(Question)
class QuestionAdmin(ReadOnlyAdmin[Question]):
    """Questions of notifications, with their reminders and answers."""

    list_display = [
        "job",
        "status",
        moment("asked_at"),
        "reminders",
        moment("due_at"),
        "answered_by",
        "after",
    ]
    list_filter = ["status"]
    list_select_related = ["job"]
    search_fields = ["job__name", "answered_by"]
    fields = [
        *("job", "run", "status", "reason", moment("asked_at"), moment("due_at"), "reminders"),
        *(moment("answered_at"), "answered_by", "after", "given"),
    ]
    ordering = ["-execution"]

    @admin.display(description="run")
    def run(self, question: Question) -> int:
        return int(question.pk)

    @admin.display(description="after")
    def after(self, question: Question) -> str:
        return durations.short(question.took) if question.took is not None else "-"

    @admin.display(description="answers")
    def given(self, question: Question) -> SafeString:
        return as_json(question.answers)


@admin.register(Incident)
class IncidentAdmin(LongListAdmin[Incident], ReadOnlyAdmin[Incident]):
    """Incidents, and which notifications were sent about them."""

    list_display = [
        *("name", owned_by, "kind", moment("opened_at"), moment("ended_at"), "ending", "told"),
        *(moment("told_at"), moment("snoozed_until")),
    ]
    list_filter = ["kind", OwnerFilter]
    actions = ["snooze"]
    fields = [
        *("name", "owner", "job", "kind", "subject", "details", moment("opened_at"), moment("ended_at")),
        *("ending", "told", moment("told_at"), "messages", "notice", moment("due_at")),
        *(moment("snoozed_until"), "snoozed_by"),
    ]

    def newest(self, owner: AbstractBaseUser | None, filters: Mapping[str, str]) -> QuerySet[Incident]:
        return incidents.newest_of_owner(owner and owner.pk)

    @admin.display(description="messages")
    def messages(self, incident: Incident) -> SafeString:
        return as_json(incident.sent)

    def has_snooze_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("schedules.change_incident")

    @admin.action(description="Snooze for a day", permissions=["snooze"])
    def snooze(self, request: HttpRequest, rows: QuerySet[Incident]) -> None:
        by = user_of(request)
        results = [
            (
                incident.name,
                Err(Code.USER_IS_SUPERIOR)
                if is_above(incident.owner, by)
                else incidents.snooze_incident(
                    Actor(incident.owner, Event.Door.ADMIN, name=by.get_username()), incident.pk
                ),
            )
            for incident in rows.select_related("owner")
        ]
        report(self, request, results, "Snoozed:")


@admin.register(Cluster)
class ClusterAdmin(ReadOnlyAdmin[Cluster]):
    list_display = [
        "__str__",
        "alive",
        moment("started_at"),
        moment("last_seen_at"),
        moment("stopped_at"),
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


@admin.register(Heartbeat)
class HeartbeatAdmin(ReadOnlyAdmin[Heartbeat]):
    """Jobs that run elsewhere, without their ping addresses, which only owners may see."""

    list_display = ["job", owned_by, "slug", "pings", "last_kind", moment("last_ping_at")]
    list_filter = [OwnerFilter]
    list_select_related = ["job", "owner"]
    ordering = ["-pk"]
    fields = [
        *("job", "owner", "slug", "pings", "last_kind", moment("last_ping_at")),
        *(moment("last_success_at"), "last_duration"),
    ]
