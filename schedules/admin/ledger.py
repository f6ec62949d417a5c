"""Admin pages of what Cronty records, all read-only: runs, activity, incidents and clusters."""

from typing import Any

from django.contrib import admin
from django.utils.html import format_html
from django.utils.safestring import SafeString

from schedules.admin.bases import as_json, read_only
from schedules.models import Cluster, Event, Execution, Incident
from schedules.secrets import masking
from schedules.services.jobs.masked_arguments import shown_arguments
from schedules.services.runs.outputs import output_since
from schedules.templatetags.cronty_statuses import CAUSES, STATUSES
from schedules.when import durations


@admin.display(description="status")
def state(run: Any) -> str:
    return STATUSES[run.shown_status][0]


@admin.display(description="trigger")
def trigger(run: Any) -> str:
    return CAUSES[run.cause]


@admin.display(description="took")
def duration(run: Any) -> str:
    return "-" if run.took is None else durations.short(run.took)


def arguments(run: Any) -> SafeString | str:
    return as_json(shown_arguments(run.job)) if run.job else "-"


def result(run: Any) -> SafeString:
    return as_json(masking.masked(run.result))


def output(run: Any) -> SafeString:
    return format_html("<pre>{}</pre>", output_since(run).text)


def before(event: Any) -> SafeString:
    return as_json(event.before)


def after(event: Any) -> SafeString:
    return as_json(event.after)


def messages(incident: Any) -> SafeString:
    return as_json(incident.sent)


OF_JOB = {"search_fields": ("job__public_id__exact",), "search_help_text": "The id of a job."}
read_only(
    Execution,
    *("job_name", "owner", "task", "scheduled_for", trigger, state, "attempt", duration, "reason"),
    more=(
        *("job", arguments, "last_slot", "slots", "cluster", "lease_until", "leased_to", "started_at"),
        *("finished_at", result, output, "error", "traceback"),
    ),
    list_filter=("status",),
    **OF_JOB,
)
read_only(
    Event,
    *("at", "actor", "verb", "subject", "door", "owner"),
    more=("job", before, after),
    list_filter=("door",),
    **OF_JOB,
)
read_only(
    Incident,
    *("name", "owner", "kind", "opened_at", "ended_at", "ending", "told", "told_at", "snoozed_until"),
    more=("job", "subject", "details", messages, "notice", "due_at", "snoozed_by"),
    list_filter=("kind",),
)
read_only(Cluster, "__str__", "started_at", "last_seen_at", "stopped_at", "claimed_count", "note")
