"""Metrics in the Prometheus text format.

Every query is bounded: it reads unfinished work, changes since the last scrape, or a limited number of rows.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import accumulate

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import Error
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.http import require_safe

from schedules import __version__
from schedules.models import Cluster, Execution
from schedules.models.counting import COUNTED
from schedules.services.installation.storage import database_size
from schedules.services.installation.workload import monitored_jobs, read_backlog
from schedules.services.people.hourly_limits import address_of
from schedules.services.runs.counters import BUCKETS, RunCounters
from schedules.tasks import registry
from schedules.web.health import database_time
from schedules.worker.database_errors import TRY_AGAIN, TRY_AGAIN_SECONDS, is_outage

# Keep the cost of a scrape and the number of time series independent of the number of jobs.
MAX_JOBS, MAX_STOPPED_JOBS = 400, 100

counters = RunCounters()


@login_not_required
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return all metrics; counters start at zero with each web process."""
    if problem := _refusal(request):
        return HttpResponse(f"{problem}\n", "text/plain", 403)
    try:
        now = database_time()
        text = "".join([*_clusters(now), *_work(now), *_runs(), *_jobs(), *_installation()])
    except Error as error:
        if not is_outage(error):
            raise
        return HttpResponse(
            f"{TRY_AGAIN}.\n", "text/plain", 503, headers={"Retry-After": str(TRY_AGAIN_SECONDS)}
        )
    return HttpResponse(text, content_type="text/plain; version=0.0.4; charset=utf-8")


def _refusal(request: HttpRequest) -> str:
    """Return why this client may not read metrics: it needs the token, or is on another machine and there is none."""
    if token := settings.CRONTY_METRICS_TOKEN:
        is_given = constant_time_compare(request.headers.get("Authorization", ""), f"Bearer {token}")
        return (
            ""
            if is_given
            else "Send the header Authorization: Bearer with the value of CRONTY_METRICS_TOKEN."
        )
    client = address_of(request.META.get("REMOTE_ADDR", ""))
    is_here = client is not None and client.is_loopback
    return "" if is_here else "Metrics are read on this machine only, unless CRONTY_METRICS_TOKEN is set."


def _clusters(now: datetime) -> Iterator[str]:
    clusters = list(Cluster.objects.fresh(now))
    yield _gauge("cronty_clusters", "Clusters that are alive.", {"": len(clusters)})
    # A gauge, not a counter: it falls when a cluster stops.
    yield _gauge(
        "cronty_claimed_executions",
        "Executions claimed by the clusters that are alive, since each started.",
        {"": sum(cluster.claimed_count for cluster in clusters)},
    )
    yield _gauge(
        "cronty_clock_ahead_seconds",
        "How far the clock of a cluster's host is ahead of the database's.",
        {_labels(cluster=str(cluster)): round(cluster.clock_ahead, 3) for cluster in clusters},
    )
    yield _gauge(
        "cronty_cluster_heartbeat_age_seconds",
        "How long ago a cluster was last seen.",
        {_labels(cluster=str(cluster)): _age(cluster.last_seen_at, now) for cluster in clusters},
    )
    yield _gauge(
        "cronty_clusters_blocked",
        "Clusters that wait for rows or tables that another session has locked.",
        {"": Cluster.objects.blocked(now).count()},
    )


def _work(now: datetime) -> Iterator[str]:
    backlog = read_backlog(now)
    yield _gauge(
        "cronty_jobs_late",
        f"Jobs that are more than two minutes overdue, counted up to {COUNTED}.",
        {"": backlog.late},
    )
    yield _gauge(
        "cronty_due_age_seconds",
        "How long the job that is due longest has been due.",
        {"": _age(backlog.due_since, now)},
    )
    yield _gauge(
        "cronty_queue_age_seconds",
        "How long the run that is ready longest has waited for a worker.",
        {"": _age(backlog.ready_since, now)},
    )
    yield _gauge(
        "cronty_executions",
        f"Executions that are not finished, by status, counted up to {COUNTED} in all.",
        {_labels(status=status): backlog.live[status] for status in Execution.LIVE},
    )


def _runs() -> Iterator[str]:
    counts = counters.update()
    tasks = {task.name for task in registry.all_tasks(include_system=True)}
    runs: Counter[tuple[str, str]] = Counter()
    for (task, status), count in counts.runs.items():
        # Tasks that are no longer registered share one label, so that the number of labels stays small.
        runs[task if task in tasks else "unknown", status] += count
    yield _metric(
        "cronty_runs_total",
        "counter",
        "Runs that have ended since this web process was first asked, by task and outcome.",
        {_labels(task=task, outcome=status): count for (task, status), count in sorted(runs.items())},
    )
    buckets = [*map(str, BUCKETS), "+Inf"]
    cumulative = list(accumulate(counts.late_runs))
    name = "cronty_run_lateness_seconds"
    samples = {f"_bucket{_labels(le=limit)}": count for limit, count in zip(buckets, cumulative, strict=True)}
    yield _metric(
        name,
        "histogram",
        "The time between the slot of a scheduled run and its first start, of runs that have ended.",
        {**samples, "_sum": round(counts.lateness, 3), "_count": cumulative[-1]},
    )


def _jobs() -> Iterator[str]:
    """Yield metrics for each of the jobs that are due next, and of those that were stopped by their failures.

    Jobs are labelled by id, because names are private and this page is not. Only job rows are read, no runs.
    """
    columns = ("public_id", "task", "last_success_at", "last_duration")
    # Keyed by job: one that stops between the two queries is returned by both.
    rows = {
        job: (_labels(job=job, task=task), *values)
        for job, task, *values in monitored_jobs(columns, MAX_JOBS, MAX_STOPPED_JOBS)
    }
    sorted_rows = [rows[job] for job in sorted(rows)]
    yield _gauge(
        "cronty_job_last_success_timestamp_seconds",
        f"When a job last succeeded, of the {MAX_JOBS} jobs that are due next and {MAX_STOPPED_JOBS} that stopped failing.",
        {labels: round(success.timestamp(), 3) for labels, success, _ in sorted_rows if success},
    )
    yield _gauge(
        "cronty_job_last_duration_seconds",
        "How long the last attempt of such a job took.",
        {
            labels: round(duration.total_seconds(), 3)
            for labels, _, duration in sorted_rows
            if duration is not None
        },
    )


def _installation() -> Iterator[str]:
    yield _gauge("cronty_database_bytes", "The size of the database.", {"": database_size()})
    yield _gauge("cronty_info", "The version of Cronty.", {_labels(version=__version__): 1})


def _age(moment: datetime | None, now: datetime) -> float:
    return round(max((now - moment).total_seconds(), 0.0), 3) if moment else 0.0


def _labels(**values: str) -> str:
    pairs = (f'{name}="{_escaped(value)}"' for name, value in values.items())
    return f"{{{','.join(pairs)}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _gauge(name: str, description: str, samples: Mapping[str, float]) -> str:
    return _metric(name, "gauge", description, samples)


def _metric(name: str, kind: str, description: str, samples: Mapping[str, float]) -> str:
    lines = [f"# HELP {name} {description}", f"# TYPE {name} {kind}"]
    lines += [f"{name}{suffix} {value}" for suffix, value in samples.items()]
    return "\n".join(lines) + "\n"
