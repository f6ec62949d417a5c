"""Facts about one job for its page: health, policies, arguments and upcoming runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from schedules.models import Execution, Job
from schedules.models.counting import counted
from schedules.secrets import masking
from schedules.services.activity import label_of_column, plain_text
from schedules.services.jobs.validation import default_of
from schedules.tasks import registry
from schedules.tasks.forms.schema_fields import label_of
from schedules.tasks.heartbeat import HEARTBEAT, grace_of
from schedules.templatetags.cronty_times import duration, is_noticed
from schedules.when import durations
from schedules.when.forecast import start_of_day
from schedules.when.skips import slot_entry
from schedules.when.spread import delay_of

_BAD = (Execution.Status.FAILED, Execution.Status.MISSED, Execution.Status.LOST)

# The policies that are described in words of their own; the others as they are, unless they are as usual.
_IN_WORDS = ("attempts", "backoff", "fixed_backoff", "timeout", "overlap", "catch_up", "pause_after_failures")


@dataclass(frozen=True)
class Health:
    """Statistics of the last runs."""

    runs: list[Execution]

    @property
    def success(self) -> str:
        """The share of runs that succeeded; stopped and skipped runs do not count."""
        good = sum(run.status == Execution.Status.SUCCEEDED for run in self.runs)
        bad = sum(run.status in _BAD for run in self.runs)
        if not good + bad:
            return "—"
        # Never round a failure away.
        return f"{min(round(good * 100 / (good + bad)), 99) if bad else 100}%"

    @property
    def median(self) -> timedelta | None:
        return percentile([run.took for run in self.runs if run.took], 50)

    @property
    def p95(self) -> timedelta | None:
        return percentile([run.took for run in self.runs if run.took], 95)

    @property
    def delay(self) -> timedelta | None:
        """How late runs start, if that is worth mentioning."""
        delay = percentile([run.lateness for run in self.runs if run.lateness], 95)
        return delay if is_noticed(delay) else None


def percentile(values: Sequence[timedelta], percent: int) -> timedelta | None:
    """Return a percentile by the nearest-rank method, or None without values."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else None


def policies(job: Job) -> list[tuple[str, str]]:
    """Describe the policies of a job, as pairs of label and text."""
    growth = "before each retry" if job.fixed_backoff else "before the first retry, doubling each time"
    wait = f"{duration(job.backoff)} {growth}"
    overlap = {
        Job.Overlap.SKIP: "skip a run if the previous one is still running",
        Job.Overlap.QUEUE: "queue a run until the previous one has ended",
        Job.Overlap.ALLOW: "run in parallel",
    }
    described = [
        ("Retries", f"up to {job.attempts} attempts; {wait}" if job.attempts > 1 else "none"),
        ("Timeout", durations.in_words(job.timeout)),
        ("Overlap", overlap[Job.Overlap(job.overlap)]),
        ("After downtime", Job.CatchUp(job.catch_up).label.lower()),
    ]
    if job.task == HEARTBEAT:
        described = [("Grace time", durations.in_words(grace_of(job.args, job.kwargs)))]
    if job.pause_after_failures:
        described.append(
            ("Automatic pause", f"after {counted(job.pause_after_failures, 'failure')} in a row")
        )
    described += [
        (label_of_column(name), plain_text(getattr(job, name)))
        for name in (*Job.POLICY_FIELDS, "grants")
        if name not in _IN_WORDS and getattr(job, name) != default_of(name)
    ]
    if job.spread:
        delays = durations.in_words(job.spread), durations.in_words(delay_of(job.public_id, job.spread))
        described.append(("Random delay", "up to {}; always {} for this job".format(*delays)))
    if job.max_runs:
        described.append(("Ends", f"after {counted(job.max_runs, 'run')} ({job.slot_count:,} so far)"))
    return described


def shown_values(job: Job) -> list[tuple[str, Any]]:
    """List the arguments of a job as pairs of label and value, with positional ones named and secrets masked."""
    task = registry.get(job.task)
    named: dict[str, Any] = {}
    try:
        if task:
            named = dict(task.signature.bind_partial(*job.args).arguments)
    except TypeError:
        task = None
    if task is None and job.args:
        named = {"args": job.args}
    values = masking.masked(
        {name: list(value) if isinstance(value, tuple) else value for name, value in named.items()}
        | job.kwargs
    )
    return [
        (label_of(registry.get(job.task), name), _lines(value))
        for name, value in values.items()
        if value is not None
    ]


def _lines(value: Any) -> Any:
    """Format a mapping of texts, such as headers, with one line for each."""
    if isinstance(value, dict) and value and all(isinstance(text, str) for text in value.values()):
        return "\n".join(f"{name}: {text}" for name, text in value.items())
    return value


@dataclass(frozen=True)
class Upcoming:
    """A future run, or a run or day that will be skipped."""

    at: datetime
    entry: str
    """The argument of `services.skip` for it: a slot, or a whole day."""
    is_skipped: bool = False

    @property
    def is_day(self) -> bool:
        return len(self.entry) == 10


def upcoming_of(job: Job, next_runs: Sequence[datetime], now: datetime) -> list[Upcoming]:
    """List the next runs and the skipped ones between or after them, in order of time."""
    upcoming = [Upcoming(moment, slot_entry(moment)) for moment in next_runs if moment > now]
    for entry in job.skips.split():
        if len(entry) == 10:
            day = date.fromisoformat(entry)
            is_ahead = start_of_day(day + timedelta(days=1), job.timezone) > now
            at = start_of_day(day, job.timezone)
        else:
            at = datetime.fromisoformat(entry)
            is_ahead = at > now
        if is_ahead:
            upcoming.append(Upcoming(at, entry, is_skipped=True))
    return sorted(upcoming, key=lambda each: each.at)
