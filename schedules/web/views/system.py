"""The system page: clusters, queue, limits, versions and settings."""

import platform
from typing import Any

import django
from django.conf import settings
from django.db import connection
from django.views.generic import TemplateView

from schedules import __version__, engine
from schedules.agents.catalog import catalog as runner_catalog
from schedules.channels.operator_services import catalog as operator_services
from schedules.models import Cluster
from schedules.models.counting import COUNTED
from schedules.services.installation import workload
from schedules.services.installation.secret_key import secret_key_warning
from schedules.services.installation.storage import database_size
from schedules.services.quotas import active_jobs
from schedules.tasks.commands.catalog import catalog
from schedules.web.views.job_facts import percentile
from schedules.web.views.live import LivePageMixin
from schedules.when import zones

SETTINGS = (
    "CRONTY_URL",
    "CRONTY_TIME_ZONE",
    "CRONTY_ZONE_DATA",
    "CRONTY_WORKERS",
    "NTFY_URL",
    "NTFY_TOKEN",
    "CRONTY_METRICS_TOKEN",
    "CRONTY_HEARTBEAT_URL",
    "CRONTY_AGENT_COMMAND",
    "CRONTY_AGENT_USERS",
    "CRONTY_COMMANDS_FILE",
    "CRONTY_RUNNERS_FILE",
    "CRONTY_APPRISE_FILE",
    "CRONTY_COMMANDS_AT_ONCE",
    "CRONTY_OUTBOUND_ALLOW",
    "CRONTY_OUTBOUND_TIMEOUT",
    "CRONTY_MAX_ACTIVE_JOBS",
    "CRONTY_MAX_CREATES_PER_MINUTE",
    "CRONTY_MAX_RUNS_PER_MINUTE",
    "CRONTY_MAX_TOKENS",
    "CRONTY_MAX_RUNS_BY_HAND_PER_MINUTE",
    "CRONTY_MAX_FAILURE_NOTICES_PER_HOUR",
    "CRONTY_AGENT_MIN_INTERVAL",
    "CRONTY_CATCH_UP_HOURS",
    "CRONTY_HISTORY_DAYS",
    "CRONTY_HISTORY_PER_JOB",
    "CRONTY_HISTORY_PER_PERSON",
    "CRONTY_INBOX_HOURS",
)
MEASURED_RUNS = 500


class SystemPage(LivePageMixin, TemplateView):
    """Health for everybody; database and settings for staff only."""

    template_name = "schedules/system.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        now = self.page.now
        newest = workload.read_recent_runs(MEASURED_RUNS)
        jobs, planned = active_jobs(self.actor.user.pk, COUNTED + 1)
        return super().get_context_data(
            clusters=Cluster.objects.order_by("-last_seen_at")[:10],
            warnings=[
                *engine.host_warnings(now),
                *filter(None, [secret_key_warning()]),
                *self._warnings_of_files(),
            ],
            fresh={cluster.pk for cluster in Cluster.objects.fresh(now)},
            live=workload.live_runs_by_status(),
            due=workload.due_jobs(now),
            lateness=(percentile(newest.lateness, 50), percentile(newest.lateness, 95)),
            measured=len(newest.lateness),
            planned=planned,
            has_more_jobs=jobs > COUNTED,
            most_planned=settings.CRONTY_MAX_RUNS_PER_MINUTE,
            kept=workload.kept_runs(self.actor.user.pk),
            most_kept=settings.CRONTY_HISTORY_PER_PERSON,
            last_finished_at=newest.last_finished_at,
            versions={
                "Cronty": __version__,
                "Django": django.get_version(),
                "Python": platform.python_version(),
                "Zone data": zones.data_version(),
            },
            **(self._staff_context() if self.actor.sees_all else {}),
            **kwargs,
        )

    def _warnings_of_files(self) -> list[str]:
        """Say what is wrong with the operator's files, with details only for staff, because they name programs."""
        return [
            problem if self.actor.sees_all else f"{file.short_problem} Tell your operator."
            for file in (catalog, runner_catalog, operator_services)
            if (problem := file.current_problem())
        ]

    def _staff_context(self) -> dict[str, Any]:
        return {
            "settings": [(name, setting_text(name)) for name in SETTINGS if hasattr(settings, name)],
            "database": database_text(),
        }


def setting_text(name: str) -> str:
    """Format the value of a setting; for a secret, say only whether it is set."""
    value = getattr(settings, name)
    if name.endswith(("_TOKEN", "_PASSWORD", "_KEY", "_HEARTBEAT_URL")):
        return "set" if value else "not set"
    if isinstance(value, list):
        return " ".join(map(str, value)) or "—"
    return str(value)


def database_text() -> str:
    if connection.vendor != "sqlite":
        return connection.display_name
    return f"SQLite, {connection.settings_dict['NAME']} ({database_size() / 1_000_000:,.1f} MB)"
