"""Is it alive, is it ready, and how much is going on: answers for machines."""

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError
from django.db.models import Count, Sum
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from schedules import clock, engine
from schedules.models import Cluster, Execution, Job


@login_not_required
@require_safe
def alive(request: HttpRequest) -> HttpResponse:
    """The process answers; nothing else is asked."""
    return HttpResponse("ok\n", content_type="text/plain")


@login_not_required
@require_safe
def ready(request: HttpRequest) -> JsonResponse:
    """The database answers, a worker is alive, and nothing is overdue."""
    now = clock.now()
    try:
        facts = {
            "database": True,
            "worker": engine.is_any_worker_running(now),
            "on_time": not Job.objects.late(now).exists(),
        }
    except DatabaseError:
        facts = {"database": False, "worker": False, "on_time": False}
    return JsonResponse(facts, status=200 if all(facts.values()) else 503)


@login_not_required
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus text; counts of live rows only, so that it never grows with the history."""
    now = clock.now()
    fresh = Cluster.objects.fresh(now)
    gauges: list[tuple[str, str, float]] = [
        ("cronty_workers", "Clusters alive.", fresh.count()),
        ("cronty_jobs_late", "Jobs more than two minutes overdue.", Job.objects.late(now).count()),
        ("cronty_claimed_total", "Executions claimed by live clusters.", _claimed(fresh)),
    ]
    lines = [f"# HELP {name} {words}\n# TYPE {name} gauge\n{name} {value:g}" for name, words, value in gauges]
    live = (
        Execution.objects.live().values("status").annotate(count=Count("pk")).values_list("status", "count")
    )
    lines.append("# HELP cronty_executions Executions under way.\n# TYPE cronty_executions gauge")
    lines += [f'cronty_executions{{status="{status}"}} {count}' for status, count in live]
    return HttpResponse("\n".join(lines) + "\n", content_type="text/plain; version=0.0.4")


def _claimed(workers: object) -> float:
    return workers.aggregate(total=Sum("claimed_count"))["total"] or 0  # type: ignore[attr-defined]
