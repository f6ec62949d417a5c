"""What rows weigh in PostgreSQL, and what weekly partitions cost the engine, as `name value unit`."""

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from verification.hosts.lab import PROJECT, lab

SCRIPT: Path = PROJECT / "docs" / "how-to" / "deploy" / "partitions.sql"
# Jobs created by the service, whose rows are then copied.
JOBS = 200
COPIES = {"schedules_job": 100, "schedules_event": 100, "schedules_execution": 500}
ROUNDS = 10


def _create_jobs() -> None:
    from django.contrib.auth.models import User

    from schedules import services
    from schedules.models import Event, Job, Profile
    from schedules.result import Ok

    owner = User.objects.create_user("olga")
    Profile.objects.create(user=owner)
    actor = services.Actor(owner, Event.Door.WEB)
    for number in range(JOBS):
        made = services.schedule(
            actor,
            name=f"Report of branch {number}",
            task="webhook",
            kwargs={"url": f"https://hooks.example.com/branches/{number}", "body": {"branch": number}},
            trigger_type="cron",
            # Not due while this runs, or the copies would be claimed, too.
            cron=f"{number % 60} 9 1 1 *",
            timezone="Europe/Berlin",
        )
        assert isinstance(made, Ok), made
    assert Job.objects.count() == JOBS


def _run_all(count: int = JOBS) -> float:
    """Claim, start and settle one run of each job, as a cluster does; return the seconds."""
    from schedules import clock, engine
    from schedules.models import Cluster, Execution, Job

    now = clock.now()
    cluster = Cluster.objects.first() or engine.enlist(now)
    # The copies stay in the future.
    Job.objects.filter(pk__lte=count).update(next_run_at=now - timedelta(seconds=1), status="pending")
    begin = time.perf_counter()
    ids = [claim.execution_id for claim in engine.claim_runs(cluster.pk, now, count)]
    assert len(ids) == count
    result = {"status": 200, "body": "accepted", "took_ms": 123}
    for first in range(0, count, 100):
        started = engine.start_runs(cluster.pk, 0, ids[first : first + 100], clock.now())
        outcomes = [
            engine.Outcome(run.execution_id, 1, run.job_id, Execution.Status.SUCCEEDED, clock.now(), result)
            for run in started
        ]
        assert engine.settle_runs(cluster.pk, outcomes).written == len(started) > 0
    return time.perf_counter() - begin


def _copy(cursor: Any, table: str, times: int) -> None:
    """Copy the rows of a table, each with another moment and, for a run, with another job."""
    cursor.execute("SELECT column_name FROM information_schema.columns WHERE table_name = %s", [table])
    columns = [name for (name,) in cursor.fetchall() if name != "id"]
    changed = {
        "public_id": "left(md5(random()::text), 16)",
        "scheduled_for": "scheduled_for - n * interval '1 hour' * random()",
        "job_id": f"1 + (random() * {JOBS - 1})::int",
    }
    values = ", ".join(changed.get(name, name) if name != "idempotency_key" else "NULL" for name in columns)
    cursor.execute(
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {table}, generate_series(1, {times - 1}) n"
        " ON CONFLICT DO NOTHING"
    )


def _show_sizes(cursor: Any, table: str) -> None:
    cursor.execute(f"SELECT count(*), pg_table_size('{table}'), pg_indexes_size('{table}') FROM {table}")
    count, data, indexes = cursor.fetchone()
    print(f"{table} {count} rows")
    print(f"{table}_data {data / count:.0f} bytes/row")
    print(f"{table}_indexes {indexes / count:.0f} bytes/row", flush=True)


def _show_speed(name: str) -> None:
    _run_all()
    seconds = sorted(_run_all() for _ in range(ROUNDS))[ROUNDS // 2]
    print(f"{name} {1000 * seconds / JOBS:.3f} ms/run", flush=True)


def _round_trips(cursor: Any, log: Path) -> int:
    """Return how many statements the claim, start and settlement of a single run send, by the server's own log."""
    _run_all(1)
    before = log.read_text()
    cursor.execute("SET log_min_duration_statement = 0")
    _run_all(1)
    cursor.execute("RESET log_min_duration_statement")
    # Without the preparation above: reading the cluster and arming the job.
    lines = [line for line in log.read_text()[len(before) :].splitlines() if "duration:" in line]
    return len(lines) - 4


def main() -> None:
    os.environ["CRONTY_MAX_CREATES_PER_MINUTE"] = "100000"
    with lab(0) as made:
        from django.db import connection, transaction

        _create_jobs()
        _run_all()
        with connection.cursor() as cursor:
            for table, times in COPIES.items():
                _copy(cursor, table, times)
            cursor.execute("VACUUM ANALYZE")
            for table in COPIES:
                _show_sizes(cursor, table)
            print(f"single_run {_round_trips(cursor, made.server.folder / 'log')} round trips")
            _show_speed("engine_on_one_table")
            begin = time.perf_counter()
            with transaction.atomic():
                cursor.execute(SCRIPT.read_text())
            print(f"partitions_sql {time.perf_counter() - begin:.2f} s")
            cursor.execute("ANALYZE")
            _show_speed("engine_on_10_partitions")
            cursor.execute("ALTER TABLE schedules_execution DETACH PARTITION schedules_execution_first")
            for day in range(1, 13):
                cursor.execute(
                    f"CREATE TABLE schedules_execution_old{day} PARTITION OF schedules_execution"
                    f" FOR VALUES FROM ('1990-01-{day:02}') TO ('1990-01-{day + 1:02}')"
                )
            cursor.execute(
                "ALTER TABLE schedules_execution ATTACH PARTITION schedules_execution_first"
                " FOR VALUES FROM ('2000-01-01') TO (date_trunc('week', now()) + interval '1 week')"
            )
            _show_speed("engine_on_22_partitions")
            begin = time.perf_counter()
            cursor.execute("DROP TABLE schedules_execution_first")
            print(f"drop_partition {1000 * (time.perf_counter() - begin):.0f} ms")


if __name__ == "__main__":
    main()
