"""Hand-written SQL statements, compared with equivalent ORM code: both must give the same rows."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import Exists, F, Min, OuterRef, Q

from schedules.engine import rescue
from schedules.engine.sql import claims, runs
from schedules.engine.sql.claims import DueJob
from schedules.engine.sql.runs import Started, start_runs
from schedules.engine.sql.statements import execute, update_rows
from schedules.models import FRESH_FOR, Cluster, Execution, Job, Profile
from tests.engine.conftest import LEASE, NOW, new_cluster
from tests.factories import ExecutionFactory, JobFactory, UserFactory

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
LATER_BY = timedelta(microseconds=1)
LATER = NOW + timedelta(seconds=2, microseconds=5)


# Due jobs


def due_jobs_by_orm(exclude_tasks: Sequence[str], exclude_owners: Sequence[int], limit: int) -> list[DueJob]:
    """Do with the ORM what `claims.due_jobs` does."""
    due = Job.objects.due(NOW).exclude(task__in=exclude_tasks).exclude(owner__in=exclude_owners)
    rows = due.select_for_update(of=("self",), skip_locked=True).select_related("owner")
    return [
        DueJob(
            *(getattr(job, name) for name in DueJob._fields[:-1]),
            owner_is_active=job.owner.is_active,
        )
        for job in rows.order_by("next_run_at")[:limit]
    ]


@pytest.mark.parametrize("limit", [3, 100])
@pytest.mark.parametrize("is_excluding", [False, True])
def test_due_jobs_equal_the_orm_version(limit, is_excluding):
    ends = {"ends_at": NOW + HOUR, "max_runs": 9, "slot_count": 2}
    jobs = [
        JobFactory(**{"next_run_at": NOW - number * HOUR} | fields)
        for number, fields in enumerate(
            (
                {
                    "cron": "0 9 * * *",
                    "timezone": "Europe/Berlin",
                    "catch_up": "all",
                    "timeout": timedelta(seconds=1.5),
                },
                {"once": True, "run_at": NOW - timedelta(microseconds=3), "next_run_at": NOW},
                {"interval": True, "every": timedelta(days=400), **ends},
                {"task": "tests.other", "overlap": "queue", "name": "100 % ü"},
                {"owner": UserFactory(is_active=False)},
                {"next_run_at": NOW + timedelta(microseconds=1)},
                {"next_run_at": NOW - HOUR, "deleted_at": NOW},
                {"paused": True, "next_run_at": None},
            )
        )
    ]
    tasks, owners = (["tests.other", "tests.gone"], [jobs[0].owner_id]) if is_excluding else ([], [])

    found = claims.due_jobs(NOW, limit, exclude_tasks=tasks, exclude_owners=owners)

    assert found == due_jobs_by_orm(tasks, owners, limit)
    assert len(found) == min(limit, 3 if is_excluding else 5)


def test_trigger_of_a_due_job_equals_that_of_its_job():
    for fields in ({"once": True, "run_at": NOW}, {"interval": True}, {"cron": "5 4 * * *"}):
        JobFactory(**{"next_run_at": NOW} | fields)

    triggers = {due.pk: due.trigger for due in claims.due_jobs(NOW, 10)}

    assert triggers == {job.pk: job.trigger for job in Job.objects.all()}
    assert len(triggers) == 3


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "queued", "available_at": NOW},
        {"status": "queued", "available_at": NOW + timedelta(microseconds=1)},
        {"status": "queued"},
        {"status": "running", "available_at": NOW},
    ],
)
def test_whether_runs_are_ready_equals_the_orm_version(fields):
    ExecutionFactory(**fields)

    assert claims.has_ready_runs(NOW) is Execution.objects.ready(NOW).exists()


@pytest.mark.parametrize(
    "make",
    [
        lambda: None,
        lambda: new_cluster(last_seen_at=NOW - FRESH_FOR),
        lambda: new_cluster(last_seen_at=NOW - FRESH_FOR - LATER_BY),
        lambda: new_cluster(last_seen_at=NOW - HOUR, stopped_at=NOW),
        lambda: ExecutionFactory(status="claimed", lease_until=NOW),
        lambda: ExecutionFactory(status="claimed", lease_until=NOW - LATER_BY),
        lambda: ExecutionFactory(status="waiting", started_at=NOW),
        lambda: ExecutionFactory(status="queued", available_at=NOW),
        lambda: JobFactory(status="paused", next_run_at=None, paused_until=NOW),
        lambda: JobFactory(status="paused", next_run_at=None, paused_until=NOW + LATER_BY),
    ],
)
def test_whether_a_sweep_may_be_needed_equals_the_orm_version(make):
    make()

    expected = (
        Cluster.objects.filter(stopped_at=None, last_seen_at__lt=NOW - FRESH_FOR).exists()
        or Execution.objects.filter(lease_until__lt=NOW).exists()
        or Execution.objects.waiting().exists()
        or Job.objects.filter(paused_until__lte=NOW).exists()
    )
    assert rescue._may_need_sweep(NOW) is expected


# Claimed rows


def test_row_inserted_for_a_job_equals_the_one_built_by_the_orm():
    cluster = new_cluster()
    jobs = JobFactory.create_batch(3, next_run_at=NOW)
    claimed = {
        "status": Execution.Status.CLAIMED,
        "cluster": cluster,
        "claimed_at": NOW,
        "lease_until": NOW + LEASE,
    }

    inserted = claims.insert_claimed(cluster.pk, NOW, NOW + LEASE, [job.pk for job in jobs])

    rows = Execution.objects.in_bulk([pk for pk, _ in inserted])
    assert {rows[pk].job_id: job_id for pk, job_id in inserted} == {job.pk: job.pk for job in jobs}
    twins = {job.pk: Execution.of(job, NOW, **claimed) for job in jobs}
    for row in rows.values():
        assert columns_of(row) == columns_of(twins[row.job_id])


def columns_of(row: Execution) -> dict[str, Any]:
    return {
        field.attname: getattr(row, field.attname)
        for field in Execution._meta.concrete_fields
        if not field.primary_key
    }


@pytest.mark.parametrize(
    ("known", "is_inserted"),
    [
        ({"scheduled_for": NOW}, False),
        ({"scheduled_for": NOW + HOUR}, False),
        ({"scheduled_for": NOW - HOUR}, True),
        ({"scheduled_for": NOW + HOUR, "cause": "manual"}, True),
    ],
)
def test_job_with_a_row_at_or_after_its_next_slot_gets_no_claimed_row(known, is_inserted):
    job = JobFactory(next_run_at=NOW)
    ExecutionFactory(job=job, **known)

    assert bool(claims.insert_claimed(new_cluster().pk, NOW, NOW + LEASE, [job.pk])) is is_inserted


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite plans without statistics")
def test_claimed_rows_are_inserted_without_a_join_after_the_statistics_of_an_empty_ledger(monkeypatch):
    """It read the whole ledger for each claim then, for as long as the session used that plan."""
    jobs = JobFactory.create_batch(3, next_run_at=NOW)
    execute("ANALYZE schedules_execution")
    monkeypatch.setattr(
        claims,
        "execute",
        lambda statement, *values, **rows: execute(f"EXPLAIN {statement}", *values, **rows),
    )

    plan = claims.insert_claimed(new_cluster().pk, NOW, NOW + LEASE, [job.pk for job in jobs])

    text = "\n".join(line for (line,) in plan)
    assert "SubPlan" in text
    assert "Join" not in text


# Starting


def start_by_orm(cluster: Cluster, attempt: int, execution_ids: list[int]) -> list[Started]:
    """Do with the ORM what `runs.start` does."""
    mine = Execution.objects.filter(pk__in=execution_ids, status="claimed", cluster=cluster, attempt=attempt)
    started = [row.pk for row in mine]
    mine.filter(attempt=0).update(lateness=LATER - F("scheduled_for"))
    mine.update(
        status="running",
        attempt=attempt + 1,
        started_at=LATER,
        finished_at=None,
        lease_until=LATER + LEASE,
    )
    keys = dict(Profile.objects.values_list("user", "signing_key"))
    return [
        Started(
            execution_id=row.pk,
            attempt=row.attempt,
            cause=row.cause,
            scheduled_for=row.scheduled_for,
            owner_id=row.owner_id,
            job_id=row.job.pk,
            task=row.task,
            job_public_id=row.job.public_id,
            job_name=row.job.name,
            args=row.job.args,
            kwargs=row.job.kwargs,
            given=row.given,
            timeout=row.job.timeout,
            attempts=row.job.attempts,
            backoff=row.job.backoff,
            fixed_backoff=row.job.fixed_backoff,
            owner_key=keys.get(row.owner_id),
            signing_version=row.job.signing_version,
            signing_changed_at=row.job.signing_changed_at,
            trigger_type=row.job.trigger_type,
            timezone=row.job.timezone,
        )
        for row in Execution.objects.filter(pk__in=started).select_related("job")
        if row.job
    ]


@pytest.mark.parametrize("attempt", [0, 2])
@pytest.mark.parametrize("together", [True, False], ids=["in a chunk", "one by one"])
def test_start_equals_the_orm_version(attempt, together):
    cluster = new_cluster()
    rows = [
        ExecutionFactory(
            **{
                "job": JobFactory(
                    args=[1],
                    kwargs={"text": "ü"},
                    backoff=timedelta(minutes=2),
                    fixed_backoff=True,
                    signing_changed_at=NOW,
                ),
                "status": "claimed",
                "cluster": cluster,
                "attempt": attempt,
                "lateness": timedelta(seconds=9) if attempt else None,
                "scheduled_for": NOW,
            }
            | change
        )
        for change in (
            *({} for _ in range(7)),
            {"cause": "manual"},
            {"status": "queued"},
            {"attempt": 5},
            {"cluster": new_cluster()},
        )
    ]
    rows[0].owner.cronty_profile.delete()
    ids = [row.pk for row in rows]
    chunks = [ids] if together else [[pk] for pk in ids]

    # More executions than the driver needs before it prepares a statement.
    started = [run for chunk in chunks for run in start_runs(cluster.pk, attempt, chunk, LATER)]

    after = {row.pk: columns_of(row) for row in Execution.objects.all()}
    for row in rows:
        row.save()
    wanted = start_by_orm(cluster, attempt, ids)
    assert sorted(started, key=lambda run: run.execution_id) == sorted(
        wanted, key=lambda run: run.execution_id
    )
    assert len(started) == 8
    assert after == {row.pk: columns_of(row) for row in Execution.objects.all()}


# Settling


def test_locked_runs_equal_the_orm_version():
    cluster = new_cluster()
    rows = [
        ExecutionFactory(**{"status": "running", "cluster": cluster, "attempt": 1} | change)
        for change in (
            {},
            {"attempt": 3, "cause": "manual"},
            {"job": JobFactory(deleted_at=NOW)},
            {"job": JobFactory(paused=True)},
            {"status": "queued"},
            {"cluster": new_cluster()},
            {
                "job": None,
                "owner": UserFactory(),
                "job_name": "gone",
                "task": "tests.ping",
                "scheduled_for": NOW,
            },
        )
    ]
    ids = [row.pk for row in rows]
    wanted = Execution.objects.filter(pk__in=ids, status="running", cluster=cluster, job__isnull=False)

    found = runs.lock_running(cluster.pk, ids)

    columns = ("pk", "attempt", "cause", "job__status", "job__deleted_at")
    assert sorted(found) == sorted(wanted.values_list(*columns))
    assert len(found) == 4


# Jobs that end, and runs that wait for their predecessor

LIVES = [
    {"status": "queued"},
    {"status": "queued", "available_at": NOW},
    {"status": "claimed"},
    {"status": "running"},
    {"status": "waiting"},
    {"status": "succeeded", "finished_at": NOW},
    {"status": "cancelled", "finished_at": NOW},
]


@pytest.fixture
def jobs() -> list[Job]:
    """Create jobs of every status and type, with runs in every pair of states."""
    made = []
    for status in ("running", "paused"):
        for kind in ({"once": True}, {}):
            for one, other in [(one, other) for one in LIVES for other in [None, *LIVES]]:
                job = JobFactory(**kind | {"status": status, "next_run_at": None})
                for number, fields in enumerate(filter(None, (one, other))):
                    ExecutionFactory(job=job, scheduled_for=NOW + number * HOUR, **fields)
                made.append(job)
    return made


def end_finished_jobs(job_ids: Sequence[int], failed: Sequence[int]) -> None:
    update_rows(Job, f"status = {runs.status_after_runs(failed)}", ("id",), [(pk,) for pk in job_ids])


def test_live_next_and_last_runs_of_jobs_equal_the_orm_version(jobs):
    considered = [job.pk for job in jobs[5:]]
    live = Execution.objects.live().filter(job__in=considered).exclude(cause="reminder")
    is_busy = Q(status__in=["claimed", "running", "waiting"]) | Q(status="queued", available_at__isnull=False)
    busy = Execution.objects.filter(is_busy, job=OuterRef("job"))
    held = Execution.objects.filter(
        ~Exists(busy), job__in=considered, status="queued", available_at=None, finished_at=None
    )

    counts, found = claims.live_runs(considered), runs.next_in_line(considered)

    assert counts == Counter(live.order_by().values_list("job_id", flat=True))
    assert set(counts.values()) == {1, 2}
    following = held.order_by().values("job").annotate(first=Min("pk")).values_list("first", flat=True)
    assert sorted(found) == sorted(following)
    assert found
    with transaction.atomic():
        end_finished_jobs([job.pk for job in jobs], failed=[])
        assert Job.objects.filter(status="completed").exists()
        assert not Job.objects.filter(status="failed").exists()
        transaction.set_rollback(True)

    failed = [job.pk for job in jobs[::3]]
    unfinished = Execution.objects.live().filter(job=OuterRef("pk"))
    over = Job.objects.filter(~Exists(unfinished), pk__in=considered, status="running")
    wanted = {
        job.pk: "failed" if job.pk in failed and job.trigger_type == "once" else "completed" for job in over
    }

    end_finished_jobs(considered, failed)

    ended = Job.objects.filter(pk__in=[job.pk for job in jobs]).exclude(status__in=["running", "paused"])
    assert dict(ended.values_list("pk", "status")) == wanted
    assert {"failed", "completed"} == set(wanted.values())


# Waking up


@pytest.mark.parametrize("moments", [(), (NOW,), (NOW + HOUR, NOW), (NOW, NOW + HOUR)])
@pytest.mark.parametrize("ready", [(), (NOW + HOUR / 2,), (NOW - HOUR, None)])
def test_earliest_wake_up_time_equals_the_orm_version(moments, ready):
    for moment in moments:
        JobFactory(next_run_at=moment)
    JobFactory(next_run_at=NOW - 5 * HOUR, deleted_at=NOW)
    idle = JobFactory(paused=True)
    for moment in ready:
        ExecutionFactory(job=idle, status="queued", available_at=moment, cause="manual")
    ExecutionFactory(job=idle, status="running", available_at=NOW - 5 * HOUR)
    due = Job.objects.armed().aggregate(at=Min("next_run_at"))["at"]
    queued = Execution.objects.filter(status="queued").aggregate(at=Min("available_at"))["at"]

    assert claims.earliest_moment() == min(filter(None, (due, queued)), default=None)
