"""Jobs that run after another one: rows come with the end of the other run, and obey pauses, overlaps and conditions."""

from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from schedules import engine
from schedules.engine import Outcome
from schedules.models import AgentRun, Execution, Job
from schedules.when.unplanned import UNKNOWN_START
from tests.engine.conftest import NOW
from tests.factories import JobFactory

Status = Execution.Status
LATER = NOW + timedelta(minutes=10)


pytestmark = pytest.mark.django_db


def upstream(**fields):
    return JobFactory(**{"once": True, "run_at": NOW, "next_run_at": NOW, "created_at": NOW} | fields)


def follower(first, when="succeeded", delay=0, **fields):
    return JobFactory(
        **{
            "owner": first.owner,
            "cron": f"@after {first.public_id} {when} {delay}",
            "follows": first,
            "next_run_at": UNKNOWN_START,
            "created_at": NOW,
        }
        | fields
    )


def start(cluster, now=NOW):
    claims = engine.claim_runs(cluster.pk, now, 10)
    return engine.start_runs(cluster.pk, 0, [claim.execution_id for claim in claims], now)


def end(cluster, run, status=Status.SUCCEEDED, now=NOW, **fields):
    outcome = Outcome(run.execution_id, run.attempt, run.job_id, status, now, **fields)
    return engine.settle_runs(cluster.pk, [outcome])


def rows_of(job):
    return list(Execution.objects.filter(job=job).order_by("pk"))


@pytest.mark.parametrize(
    ("when", "status", "is_followed"),
    [
        ("succeeded", "succeeded", True),
        ("succeeded", "failed", False),
        ("failed", "failed", True),
        ("failed", "succeeded", False),
        ("any", "succeeded", True),
        ("any", "failed", True),
        ("any", "skipped", False),
        ("any", "cancelled", False),
    ],
)
def test_end_of_a_run_starts_the_job_that_waits_for_it(cluster, when, status, is_followed):
    first = upstream()
    second = follower(first, when)
    [run] = start(cluster)

    end(cluster, run, Status(status))

    rows = rows_of(second)
    assert len(rows) == is_followed
    for row in rows:
        assert (row.cause, row.status, row.scheduled_for, row.available_at, row.origin) == (
            "after",
            "queued",
            NOW,
            NOW,
            run.execution_id,
        )


def test_run_with_a_delay_starts_when_it_is_over(cluster):
    first = upstream()
    second = follower(first, delay=600)
    [run] = start(cluster)
    end(cluster, run)

    assert start(cluster, LATER - timedelta(seconds=1)) == []
    assert engine.wake_up_at(NOW) == LATER
    [started] = start(cluster, LATER)

    assert (started.job_id, started.cause) == (second.pk, "after")
    second.refresh_from_db()
    assert (second.status, second.run_count, second.next_run_at) == ("pending", 1, UNKNOWN_START)


def test_failed_transaction_leaves_neither_the_end_nor_the_run_after_it(cluster):
    first = upstream()
    second = follower(first)
    [run] = start(cluster)

    def end_and_break():
        with transaction.atomic():
            end(cluster, run)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        end_and_break()

    assert (rows_of(second), rows_of(first)[0].status) == ([], "running")
    end(cluster, run)
    end(cluster, run)
    assert len(rows_of(second)) == 1


def test_retry_is_no_end(cluster):
    first = upstream(attempts=2)
    second = follower(first, "any")
    [run] = start(cluster)

    end(cluster, run, Status.FAILED, error="no", retry_at=LATER)

    assert rows_of(second) == []


@pytest.mark.parametrize(("verdict", "is_followed"), [("refused", True), ("done", False)])
def test_verdict_decides_where_it_is_asked_for(cluster, verdict, is_followed):
    first = upstream()
    second = follower(first, "refused")
    [run] = start(cluster)
    AgentRun.objects.create(
        execution_id=run.execution_id,
        attempt=1,
        owner=first.owner,
        job=first,
        verdict=verdict,
        started_at=NOW,
    )

    end(cluster, run, Status.FAILED)

    assert len(rows_of(second)) == is_followed


def test_result_fills_the_arguments_and_cannot_ask_for_secrets(cluster):
    first = upstream()
    follower(
        first,
        task="notify",
        kwargs={
            "message": "{{ upstream.job }}: {{upstream.result.size}} {{ upstream.result.text }}",
            "title": "{{ upstream.status }}",
            "topic": "t",
        },
    )
    [run] = start(cluster)
    end(cluster, run, result={"size": 7, "text": "${secret:KEY}"})

    [started] = start(cluster)

    assert started.kwargs == {
        "message": f"{first.name}: 7 $ {{secret:KEY}}",
        "title": "succeeded",
        "topic": "t",
    }


def test_whole_value_keeps_its_type_and_a_prompt_marks_what_others_wrote(cluster):
    first = upstream()
    follower(first, task="tests.ping", kwargs={"data": "{{ upstream.result }}"})
    follower(first, task="prompt", kwargs={"prompt": "Sum up: {{ upstream.result }}"})
    [run] = start(cluster)
    end(cluster, run, result={"files": [1, 2]})

    by_task = {each.task: each.kwargs for each in start(cluster)}

    assert by_task["tests.ping"] == {"data": {"files": [1, 2]}}
    assert by_task["prompt"]["prompt"].startswith(
        'Sum up: <from-upstream>\n{"files": [1, 2]}\n</from-upstream>'
    )


def test_run_by_hand_leaves_the_placeholder_empty(cluster):
    job = JobFactory(task="notify", kwargs={"message": "Result: {{ upstream.result }}", "topic": "t"})
    Execution.of(job, NOW, available_at=NOW, cause="manual").save()

    [started] = start(cluster)

    assert started.kwargs["message"] == "Result: "


def test_paused_job_gets_a_row_that_says_so_and_a_cancelled_one_none(cluster):
    first = upstream()
    paused = follower(first, status="paused", next_run_at=None, pause_reason="holiday")
    cancelled = follower(first, status="cancelled", next_run_at=None)
    trashed = follower(first, deleted_at=NOW)
    [run] = start(cluster)

    end(cluster, run)

    [row] = rows_of(paused)
    assert (row.status, row.reason, row.finished_at) == ("skipped", "Paused: holiday", NOW)
    assert rows_of(cancelled) == rows_of(trashed) == []


@pytest.mark.parametrize(
    ("overlap", "status"), [("skip", "skipped"), ("queue", "queued"), ("allow", "claimed")]
)
def test_overlap_is_decided_when_the_run_is_due(cluster, overlap, status):
    first = upstream()
    second = follower(first, overlap=overlap)
    Execution.of(
        second, NOW, status="running", cluster=cluster, attempt=1, started_at=NOW, lease_until=LATER
    ).save()
    [run] = start(cluster)
    end(cluster, run)

    engine.claim_runs(cluster.pk, NOW, 10)

    assert rows_of(second)[-1].status == status


def test_queued_run_starts_when_the_one_before_it_has_ended(cluster):
    first = upstream()
    second = follower(first, overlap="queue")
    busy = Execution.of(
        second, NOW, status="running", cluster=cluster, attempt=1, started_at=NOW, lease_until=LATER
    )
    busy.save()
    [run] = start(cluster)
    end(cluster, run)
    engine.claim_runs(cluster.pk, NOW, 10)

    engine.settle_runs(cluster.pk, [Outcome(busy.pk, 1, second.pk, Status.SUCCEEDED, NOW)])

    assert [started.job_id for started in start(cluster)] == [second.pk]


def test_chain_stops_after_ten_jobs(cluster):
    jobs = [upstream()]
    for _ in range(11):
        jobs.append(follower(jobs[-1]))
    for _ in range(11):
        for run in start(cluster):
            end(cluster, run)

    last = rows_of(jobs[-1])
    assert [rows_of(job)[0].status for job in jobs[:-1]] == ["succeeded"] * 11
    assert [(row.status, row.reason) for row in last] == [
        ("skipped", "Stopped: 10 runs had started each other before this one.")
    ]


def test_end_without_followers_costs_one_query_more_and_none_for_more_runs(cluster):
    first = upstream()
    [run] = start(cluster)

    with CaptureQueriesContext(connection) as queries:
        end(cluster, run)

    # Only Django's own cursors are captured, which PostgreSQL's statements do not use.
    about = [query["sql"] for query in queries if "follows_id" in query["sql"]]
    if connection.vendor == "sqlite":
        assert len(about) == 1
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {about[0]}")
            assert "job_follows" in str(cursor.fetchall())
    assert Job.objects.get(pk=first.pk).status == "completed"
