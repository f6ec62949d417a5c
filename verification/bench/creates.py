"""Rate of creating jobs through the service: `python -m verification.bench.creates [JOBS]` prints `name value unit`.

Beside every 1,000 jobs created one by one stand the same number created at once, with the same rules, and the floor: a
bare job and its event, inserted and committed without any rule. All limits are on, and too high to refuse anything. With
DATABASE_URL in the environment, as `python -m tests.postgres --durable` sets it, the jobs are in that database.
"""

import os
import sys
import time
from collections.abc import Callable

from verification.bench import harness

LIMITS = ("ACTIVE_JOBS", "CREATES_PER_MINUTE", "RUNS_PER_MINUTE")
os.environ |= {f"CRONTY_MAX_{limit}": "1000000000" for limit in LIMITS}
DATA = harness.prepare()

from django.contrib.auth.models import User  # noqa: E402
from django.db import connections, transaction  # noqa: E402

from schedules import clock, services  # noqa: E402
from schedules.models import Event, Job  # noqa: E402
from schedules.result import Ok  # noqa: E402
from schedules.services import Actor  # noqa: E402

JOBS = 10_000
BATCH = 1000


def work(number: int) -> dict[str, object]:
    """Return the columns of a job unlike any other of the last month."""
    minute, hour, day = number % 60, number // 60 % 24, 1 + number // 1440 % 28
    return {
        "name": f"Job {number}",
        "task": "webhook",
        "kwargs": {"url": f"https://example.org/{number}"},
        "trigger_type": "cron",
        "cron": f"{minute} {hour} {day} * *",
        "timezone": "Europe/Berlin",
    }


def create(actor: Actor, number: int) -> None:
    assert isinstance(services.schedule(actor, **work(number)), Ok)


def create_many(actor: Actor, numbers: range) -> None:
    assert isinstance(services.schedule_many(actor, [work(number) for number in numbers]), Ok)


def insert(actor: Actor, number: int) -> None:
    """Insert the same rows without checking anything."""
    now, columns = clock.now(), work(number)
    with transaction.atomic():
        job = Job(
            owner_id=actor.user.pk,
            public_id=f"bare_{number}",
            next_run_at=now,
            created_at=now,
            updated_at=now,
            **columns,
        )
        job.save(force_insert=True)
        Event.objects.create(
            at=now,
            owner_id=actor.user.pk,
            actor=actor.label,
            door=actor.door,
            verb="create",
            job_id=job.pk,
            subject=job.name,
            after=columns,
        )


def rate(make: Callable[[Actor, int], None], actor: Actor, numbers: range) -> float:
    begin = time.perf_counter()
    for number in numbers:
        make(actor, number)
    return len(numbers) / (time.perf_counter() - begin)


def rate_at_once(actor: Actor, numbers: range) -> float:
    begin = time.perf_counter()
    create_many(actor, numbers)
    return len(numbers) / (time.perf_counter() - begin)


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else JOBS
    names = ("bench", "many", "bare")
    actor, many, bare = (Actor(User.objects.create(username=name)) for name in names)
    print(f"# {harness.database_name()}, load {harness.load()}")
    create(actor, jobs)
    made, at_once, inserted = [], [], []
    for start in range(0, jobs, BATCH):
        numbers = range(start, min(start + BATCH, jobs))
        made.append(rate(create, actor, numbers))
        at_once.append(rate_at_once(many, numbers))
        inserted.append(rate(insert, bare, numbers))
        harness.show(f"create_to_{numbers.stop}", made[-1], "jobs/s")
        harness.show(f"create_many_to_{numbers.stop}", at_once[-1], "jobs/s")
        harness.show(f"bare_insert_to_{numbers.stop}", inserted[-1], "jobs/s")
    harness.show("create_median", harness.median(made), "jobs/s")
    harness.show("create_many_median", harness.median(at_once), "jobs/s")
    harness.show("bare_insert_median", harness.median(inserted), "jobs/s")
    harness.show("create_last_to_first", made[-1] / made[0], "times")
    harness.show("create_many_last_to_first", at_once[-1] / at_once[0], "times")
    print(f"# load {harness.load()}")
    connections.close_all()
    harness.discard(DATA)


if __name__ == "__main__":
    main()
