"""Benchmark of reminders and calendars: what pending reminders cost, how long an answer and a forecast with calendars take.

Usage: `python -m verification.bench.reminders [--seconds 15]`, on SQLite or DATABASE_URL.
"""

import argparse
import time
from datetime import timedelta

import psutil

from verification.bench import harness

DATA = harness.prepare()

from django.contrib.auth.models import User  # noqa: E402
from django.utils import timezone  # noqa: E402

from schedules import clock  # noqa: E402
from schedules.models import Event, Execution, Job, Question  # noqa: E402
from schedules.models.jobs import skips_of, trigger_of_job  # noqa: E402
from schedules.result import Ok  # noqa: E402
from schedules.services import Actor  # noqa: E402
from schedules.services.jobs.calendars import attach_calendars  # noqa: E402
from schedules.services.people.calendars import CalendarSpec, set_calendar  # noqa: E402
from schedules.services.runs import answers  # noqa: E402
from schedules.tasks.answer_links import Button, make_token, read_token  # noqa: E402
from schedules.when.forecast import PendingJob, runs_ahead  # noqa: E402

PENDING = 1000
ANSWERS = 200
FORECASTS = 20
YEAR = timedelta(days=366)
CALENDARS = (
    CalendarSpec("Bavaria", "holidays", "DE-BY", ["public", "catholic"]),
    CalendarSpec("Own days", "dates", lines=["2030-12-24", "12-31"]),
    CalendarSpec("Nights", "hours", lines=["mon-fri 0:00-6:00"]),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=15)
    options = parser.parse_args()
    database = harness.database_name()
    print(f"# {database}, load {harness.load()}")
    forecast(database)
    with harness.cluster() as process:
        harness.wait_for_worker()
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        idle = used_by(family, options.seconds)
        make_questions()
        waiting = used_by(family, options.seconds)
        harness.show(f"{database}_cluster_idle", 100 * idle / options.seconds, "% of a core")
        harness.show(
            f"{database}_with_{PENDING}_pending_reminders", 100 * waiting / options.seconds, "% of a core"
        )
        took = [answer(row) for row in Execution.objects.select_related("job")[:ANSWERS]]
    harness.show(f"{database}_answer_p50", 1000 * harness.percentile(took, 0.5), "ms")
    harness.show(f"{database}_answer_p95", 1000 * harness.percentile(took, 0.95), "ms")
    print(f"# load {harness.load()}")
    harness.discard(DATA)


def used_by(family: list[psutil.Process], seconds: int) -> float:
    """Return how many seconds of CPU these processes use within some seconds."""
    before = sum(sum(process.cpu_times()[:2]) for process in family)
    time.sleep(seconds)
    return sum(sum(process.cpu_times()[:2]) for process in family) - before


def make_questions() -> None:
    now = timezone.now()
    ask = {"message": "Take the pills", "topic": "home", "ask": "every 1h 5 times"}
    harness.make_jobs([now + timedelta(days=30)] * PENDING, "notify", kwargs=ask)
    jobs = Job.objects.filter(task="notify")
    rows = Execution.objects.bulk_create(
        Execution.of(job, now - timedelta(minutes=5), status="succeeded", finished_at=now) for job in jobs
    )
    Question.objects.bulk_create(
        Question(execution=row, job_id=row.job_id, asked_at=now, due_at=now + timedelta(hours=1))
        for row in rows
    )


def answer(row: Execution) -> float:
    """Press *Done* in a message, and return how many seconds that took."""
    token = make_token(row.pk, row.key, Button.DONE)
    begin = time.perf_counter()
    link = read_token(token)
    assert link is not None
    linked = answers.find_linked(link)
    assert isinstance(linked, Ok), linked
    given = answers.answer_by_link(linked.value, answers.DONE)
    assert isinstance(given, Ok), given
    return time.perf_counter() - begin


def forecast(database: str) -> None:
    """Show how long a forecast of a year takes for an hourly job with three calendars."""
    owner, _ = User.objects.get_or_create(username="bench")
    actor = Actor(owner, Event.Door.WEB)
    for spec in CALENDARS:
        made = set_calendar(actor, spec)
        assert isinstance(made, Ok), made
    now = clock.now()
    job = Job(
        owner=owner,
        public_id="job_forecast",
        name="forecast",
        task="notify",
        trigger_type="cron",
        cron="0 * * * *",
        timezone="Europe/Berlin",
        calendars=[spec.name for spec in CALENDARS],
        created_at=now,
        updated_at=now,
    )
    problem = attach_calendars(job)
    assert problem is None, problem
    first = job.next_slot(now)
    assert first is not None
    took = []
    for _ in range(FORECASTS):
        begin = time.perf_counter()
        armed = PendingJob(trigger_of_job(job), first, None, None, skips_of(job))
        count = sum(map(len, runs_ahead(armed, now, now + YEAR)))
        took.append(time.perf_counter() - begin)
    harness.show(f"{database}_forecast_first", 1000 * took[0], "ms")
    harness.show(f"{database}_forecast_p50", 1000 * harness.percentile(took, 0.5), "ms")
    print(f"# {count} runs in a year")


if __name__ == "__main__":
    main()
