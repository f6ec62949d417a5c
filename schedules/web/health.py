"""Health checks and metrics for monitoring."""

from collections.abc import Mapping
from datetime import datetime

from django.contrib.auth.decorators import login_not_required
from django.db import Error, connection
from django.db.models import Count
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from schedules import clock, engine
from schedules.models import Cluster, Execution, Job

ALIVE = "ok\n"


@login_not_required
@require_safe
def alive(request: HttpRequest) -> HttpResponse:
    """Report that the process is alive, without checking anything else."""
    return HttpResponse(ALIVE, content_type="text/plain")


@login_not_required
@require_safe
def ready(request: HttpRequest) -> JsonResponse:
    """Report whether the database answers, a cluster is alive, no job is overdue, and no lock delays the clusters."""
    try:
        now = _database_time()
        facts = {
            "database": True,
            "worker": engine.is_any_cluster_running(now),
            "on_time": not Job.objects.late(now).exists(),
            "unblocked": not Cluster.objects.blocked(now).exists(),
        }
    # Not only DatabaseError: drivers report a lost connection as InterfaceError, too.
    except Error:
        facts = dict.fromkeys(("database", "worker", "on_time", "unblocked"), False)
    answer: dict[str, object] = {**facts}
    if facts["database"] and not facts["unblocked"]:
        answer["reason"] = (
            "Another session has locked rows or tables of the database that a cluster is waiting for."
        )
    return JsonResponse(answer, status=200 if all(facts.values()) else 503)


@login_not_required
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return gauges in the Prometheus text format.

    Only clusters that are alive and runs under way are counted, so that the cost does not grow with the history.
    """
    now = _database_time()
    clusters = list(Cluster.objects.fresh(now))
    live = Execution.objects.live().order_by().values_list("status").annotate(count=Count("pk"))
    text = "".join(
        [
            _gauge("cronty_clusters", "Clusters that are alive.", {"": len(clusters)}),
            _gauge(
                "cronty_jobs_late",
                "Jobs that are more than two minutes overdue.",
                {"": Job.objects.late(now).count()},
            ),
            # A gauge, not a counter: it falls when a cluster stops.
            _gauge(
                "cronty_claimed_executions",
                "Executions claimed by the clusters that are alive, since each started.",
                {"": sum(cluster.claimed_count for cluster in clusters)},
            ),
            _gauge(
                "cronty_clock_ahead_seconds",
                "How far the clock of a cluster's host is ahead of the database's.",
                {f'{{cluster="{cluster}"}}': round(cluster.clock_ahead, 3) for cluster in clusters},
            ),
            _gauge(
                "cronty_executions",
                "Executions that are not finished, by status.",
                {f'{{status="{status}"}}': count for status, count in live},
            ),
        ]
    )
    return HttpResponse(text, content_type="text/plain; version=0.0.4; charset=utf-8")


def _database_time() -> datetime:
    """Return the current time; nothing else has read the database's clock if this is the first request."""
    connection.ensure_connection()
    return clock.now()


def _gauge(name: str, description: str, samples: Mapping[str, float]) -> str:
    lines = [f"# HELP {name} {description}", f"# TYPE {name} gauge"]
    lines += [f"{name}{labels} {value}" for labels, value in samples.items()]
    return "\n".join(lines) + "\n"
