"""Forecasts of stored jobs: which ones fire soon, their runs per day, and the next 24 hours for the jobs page."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from schedules import engine
from schedules.models import Job
from schedules.models.jobs import JobQuerySet, skips_of, trigger_of_job
from schedules.services.jobs.forecasts import has_more_than, soonest_jobs
from schedules.when import forecast
from schedules.when.forecast import Bucket, PendingJob, fill
from schedules.when.slot_batches import Batch
from schedules.when.triggers import TriggerError

MAX_JOBS = 500
COLUMNS = (
    *("pk", "public_id", "name", "task", *Job.SLOT_FIELDS),
    *("next_run_at", "ends_at", "max_runs", "slot_count", "failure_streak"),
)


def soonest(jobs: JobQuerySet, until: datetime) -> list[Any]:
    """Read the armed jobs that fire before a moment, soonest first, with the columns that a forecast needs."""
    return soonest_jobs(jobs, COLUMNS, until, MAX_JOBS)


def has_more(jobs: JobQuerySet) -> bool:
    """Return whether there are more armed jobs than `soonest` reads."""
    return has_more_than(jobs, MAX_JOBS)


def runs_of(job: Any, now: datetime, end: datetime, *, start: datetime | None = None) -> Iterator[Batch]:
    """Yield the runs of a job from now, or a later start, until before the end; none if its schedule is broken."""
    armed = _armed(job)
    return forecast.runs_ahead(armed, now, end, start=start) if armed else iter(())


def days_of(
    job: Any, now: datetime, end: datetime, zone: str, *, start: datetime | None = None
) -> dict[date, tuple[datetime, int]]:
    """Return a job's first run and number of runs on each day in a time zone."""
    armed = _armed(job)
    return forecast.per_day(armed, now, end, zone, start=start) if armed else {}


def _armed(job: Any) -> PendingJob | None:
    remaining = None if job.max_runs is None else job.max_runs - job.slot_count
    try:
        if not job.next_run_at:
            return None
        return PendingJob(trigger_of_job(job), job.next_run_at, job.ends_at, remaining, skips_of(job))
    except TriggerError:
        return None


def _with_shown_run(job: Any, runs: list[Batch]) -> Any | None:
    """Return the row with its next run set to the first that is not skipped, or None if all are."""
    armed = _armed(job) if job.skips or job.closed_by else None
    if not (armed and armed.skips and armed.skips.reason(job.next_run_at)):
        return job
    return job._replace(next_run_at=runs[0].first) if runs else None


@dataclass(frozen=True)
class Ahead:
    """The next 24 hours in quarters of an hour; frequent jobs are counted separately."""

    start: datetime
    zone: str
    buckets: list[Bucket]
    dense: dict[str, int]
    soon: list[Any]
    late: int
    is_capped: bool
    failing: frozenset[str] = frozenset()
    """The names of the jobs whose last run failed."""

    QUARTER = timedelta(minutes=15)
    QUARTERS = 96
    # A job with more runs than this would hide all others in the chart.
    DENSE = 48

    @classmethod
    def of(cls, jobs: JobQuerySet, now: datetime, zone: str) -> "Ahead":
        end = now + cls.QUARTERS * cls.QUARTER
        rows = soonest(jobs, end)
        dense: dict[str, int] = {}
        buckets = [Bucket(now + index * cls.QUARTER) for index in range(cls.QUARTERS)]
        soon: list[Any] = []
        late = 0
        for row in rows:
            runs = list(runs_of(row, now, end))
            job = _with_shown_run(row, runs)
            if job is None:
                continue
            soon.append(job)
            count = sum(map(len, runs))
            if count > cls.DENSE:
                dense[job.name] = dense.get(job.name, 0) + count
            else:
                fill(buckets, job.name, runs, cls.QUARTER)
                late += bool(job.next_run_at and job.next_run_at < now)
        soon.sort(key=lambda job: job.next_run_at)
        return cls(
            now,
            zone,
            buckets,
            dense,
            soon[:5],
            late,
            len(rows) == MAX_JOBS,
            frozenset(row.name for row in rows if row.failure_streak),
        )

    @property
    def soonest(self) -> list[tuple[Any, str]]:
        """The next jobs, each with until when quiet hours hold its message."""
        jobs = self.soon[:3]
        quiet = engine.quiet_hours_ahead(jobs)
        return [
            (job, quiet[job.pk].held_words(job.next_run_at, self.zone) if job.pk in quiet else "")
            for job in jobs
        ]

    @property
    def total(self) -> int:
        return sum(bucket.count for bucket in self.buckets) + sum(self.dense.values())

    @property
    def summary(self) -> str:
        """How many runs are planned, and how many of them belong to frequent jobs."""
        total = f"{self.total:,}{'+' if self.is_capped else ''} run{'' if self.total == 1 else 's'}"
        if not self.dense:
            return total
        [name, *others] = self.dense
        subject = f"{len(self.dense)} jobs account" if others else f"{name} accounts"
        return f"{total} · {subject} for {sum(self.dense.values()):,}"
