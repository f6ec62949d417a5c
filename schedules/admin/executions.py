"""The admin page of executions, which is read-only."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from schedules.admin.bases import LongList, as_json, moment
from schedules.models import Execution
from schedules.secrets import masking
from schedules.services.jobs.masked_arguments import shown_arguments
from schedules.services.runs.outputs import output_since
from schedules.templatetags.cronty_statuses import STATUSES

SHOWN = ("job_name", "owner", "task", moment("scheduled_for"), "cause", "state", "attempt", "reason")


@admin.register(Execution)
class ExecutionAdmin(LongList[Execution]):
    list_display = SHOWN
    fields = (
        *(*SHOWN, "job", "arguments", "last_slot", "slots", "cluster", moment("lease_until"), "leased_to"),
        *(moment("started_at"), moment("finished_at"), "shown_result", "output", "error", "traceback"),
    )
    list_filter = ("status",)
    list_select_related = ("owner",)
    search_fields = ("job__public_id__exact",)
    search_help_text = "The id of a job."

    def _never(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    has_add_permission = has_change_permission = has_delete_permission = _never

    @admin.display(description="status")
    def state(self, run: Execution) -> str:
        return STATUSES[run.shown_status][0]

    def arguments(self, run: Execution) -> SafeString | str:
        return as_json(shown_arguments(run.job)) if run.job else "-"

    @admin.display(description="result")
    def shown_result(self, run: Execution) -> SafeString:
        return as_json(masking.masked(run.result))

    def output(self, run: Execution) -> SafeString:
        return format_html("<pre>{}</pre>", output_since(run).text)
