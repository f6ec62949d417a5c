"""Health checks for monitoring."""

from datetime import datetime

from django.contrib.auth.decorators import login_not_required
from django.db import Error, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from schedules import clock, engine
from schedules.agents.catalog import catalog as runner_catalog
from schedules.engine import sqlite_file
from schedules.models import Cluster
from schedules.services.installation.workload import is_any_job_late
from schedules.tasks.commands.catalog import catalog

ALIVE = "ok\n"


@login_not_required
@require_safe
def alive(request: HttpRequest) -> HttpResponse:
    """Report that the process is alive; checks nothing else."""
    return HttpResponse(ALIVE, content_type="text/plain")


@login_not_required
@require_safe
def ready(request: HttpRequest) -> JsonResponse:
    """Report whether the database answers, a cluster is alive, no job is overdue, no lock delays the clusters, and
    commands can run.

    Without the database, the other facts are null. A broken commands file is only a warning while its last good
    version is in use, and so is a broken runners file.
    """
    facts: dict[str, bool | None]
    reason = ""
    can_run_commands = catalog.is_usable
    try:
        sqlite_file.refuse_replaced()
        now = database_time()
        facts = {
            "database": True,
            "worker": engine.is_any_cluster_running(now),
            "on_time": not is_any_job_late(now),
            "unblocked": not Cluster.objects.blocked(now).exists(),
            "commands": can_run_commands,
        }
        if not can_run_commands:
            reason = catalog.short_problem
        if not facts["unblocked"]:
            reason = (
                "Another session has locked rows or tables of the database that a cluster is waiting for."
            )
    # Wider than DatabaseError, because drivers may report a lost connection as InterfaceError.
    except Error:
        facts = {
            "database": False,
            "worker": None,
            "on_time": None,
            "unblocked": None,
            "commands": can_run_commands,
        }
        reason = (
            sqlite_file.REPLACED
            if sqlite_file.is_replaced()
            else "The database cannot be read, so the rest is unknown."
        )
    answer: dict[str, bool | str | None] = {**facts}
    if reason:
        answer["reason"] = reason
    warnings = [catalog.short_problem] if can_run_commands and catalog.problem else []
    # Only a warning even without a last good version: prompts without a runner wait, and nothing is lost.
    warnings += [runner_catalog.short_problem] if runner_catalog.current_problem() else []
    if warnings:
        answer["warning"] = " ".join(warnings)
    return JsonResponse(answer, status=200 if all(facts.values()) else 503)


def database_time() -> datetime:
    """Return the current time; connecting first reads the database's clock, in case this is the first request."""
    connection.ensure_connection()
    return clock.now()
