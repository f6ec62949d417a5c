"""Concurrent calls on real connections: exactly one succeeds, and exactly one event records it."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from schedules import clock, engine, services
from schedules.engine import Outcome
from schedules.models import Event, Execution, Job, Question
from schedules.result import Err, Kind, Ok
from schedules.services import Actor
from schedules.services.jobs.bulk import change_each
from schedules.services.runs import answers
from schedules.tasks.signed_links import Button, answer_token, read_answer
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory, reminder_job
from tests.waiting import PATIENCE, wait_for

CALLS = 100
# Fewer than the calls, so that parallel test processes stay below PostgreSQL's connection limit.
THREADS = 40

pytestmark = pytest.mark.django_db(transaction=True)


def call_concurrently(calls: list[Callable[[], Any]]) -> list[Any]:
    def call(function: Callable[[], Any]) -> Any:
        try:
            return function()
        finally:
            connection.close()

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(call, calls))


def outcomes(results: Iterable[Any]) -> Counter[str]:
    return Counter("ok" if isinstance(result, Ok) else result.kind.value for result in results)


def test_only_one_of_many_concurrent_cancels_succeeds(actor):
    job = JobFactory(owner=actor.user)

    results = call_concurrently([partial(services.cancel, actor, job.public_id)] * CALLS)

    assert outcomes(results) == {"ok": 1, "wrong_state": CALLS - 1}
    assert Event.objects.get(job=job).verb == "cancel"


def test_of_answers_from_many_phones_at_once_one_counts_and_the_others_are_told(actor):
    run = asking_run(actor)
    calls = [partial(press, run, button) for button in ("done", "snooze")] * 10

    results = call_concurrently(calls)

    question = Question.objects.get()
    counted = [result for result in results if isinstance(result, Ok) and not result.value.is_repeated]
    assert len(question.answers) == len(counted)
    assert question.answers[-1]["answer"] == "done"
    assert len(question.answers) <= 2, "a snooze before the first done may count"
    assert len(results) == 20


def asking_run(actor: Actor) -> Execution:
    job = reminder_job(ask="every 10m 5 times", owner=actor.user)
    run = ExecutionFactory(job=job, status="succeeded")
    Question.objects.create(execution=run, job=job, asked_at=clock.now(), due_at=clock.now())
    return run


def press(run: Execution, button: str) -> Any:
    linked = answers.find_linked(read_answer(answer_token(run.pk, run.key, Button(button))))
    return linked if isinstance(linked, Err) else answers.answer_by_link(linked.value, button)


def test_only_one_of_many_concurrent_edits_of_a_revision_succeeds(actor):
    job = JobFactory(owner=actor.user)
    edits = [
        partial(services.edit, actor, job.public_id, revision=1, name=f"Name {number}")
        for number in range(CALLS)
    ]

    results = call_concurrently(edits)

    assert outcomes(results) == {"ok": 1, "conflict": CALLS - 1}
    winner = next(result.value for result in results if isinstance(result, Ok))
    job.refresh_from_db()
    assert (job.name, job.revision) == (winner.name, 2)
    assert Event.objects.get(job=job).after == {"name": winner.name}


def test_concurrent_edits_and_cancels_record_one_cancel_and_every_successful_edit(actor):
    job = JobFactory(owner=actor.user)
    calls = [
        partial(services.edit, actor, job.public_id, name=f"Name {number}")
        if number % 2
        else partial(services.cancel, actor, job.public_id)
        for number in range(CALLS)
    ]

    results = call_concurrently(calls)

    edits, cancels = outcomes(results[1::2]), outcomes(results[::2])
    assert cancels == {"ok": 1, "wrong_state": CALLS // 2 - 1}
    verbs = Counter(Event.objects.filter(job=job).values_list("verb", flat=True))
    assert verbs == {"cancel": 1} | ({"edit": edits["ok"]} if edits["ok"] else {})
    job.refresh_from_db()
    assert job.status == Job.Status.CANCELLED
    assert job.revision == 1 + verbs.total()


def test_repeated_request_with_a_key_does_not_exceed_the_quota(actor, settings):
    settings.CRONTY_MAX_ACTIVE_JOBS = settings.CRONTY_MAX_CREATES_PER_MINUTE = 1
    request = {"name": "Once", "task": "tests.ping", "trigger_type": "cron", "cron": "0 9 * * *"}

    results = call_concurrently([partial(services.schedule, actor, idempotency_key="k", **request)] * THREADS)

    assert outcomes(results) == {"ok": THREADS}
    assert [result.value.existing for result in results].count(False) == Job.objects.count() == 1


def test_concurrent_requests_with_one_key_create_one_job(actor):
    request = {"name": "Backup", "task": "tests.ping", "trigger_type": "cron", "cron": "0 9 * * *"}

    results = call_concurrently([partial(services.schedule, actor, idempotency_key="k", **request)] * THREADS)

    assert outcomes(results) == {"ok": THREADS}
    assert Counter(result.value.existing for result in results) == {False: 1, True: THREADS - 1}
    assert Job.objects.count() == Event.objects.count() == 1


def test_concurrent_creates_do_not_exceed_the_quota(actor, settings):
    settings.CRONTY_MAX_ACTIVE_JOBS = 5
    request = {"task": "tests.ping", "trigger_type": "cron", "cron": "0 9 * * *"}
    creates = [partial(services.schedule, actor, name=f"Job {number}", **request) for number in range(20)]

    results = call_concurrently(creates)

    assert outcomes(results) == {"ok": 5, "quota": 15}
    assert Job.objects.count() == 5


def test_concurrent_creates_of_several_jobs_do_not_exceed_the_quota(actor, settings):
    settings.CRONTY_MAX_ACTIVE_JOBS = 5
    request = {"name": "Job", "task": "tests.ping", "trigger_type": "cron", "cron": "0 9 * * *"}

    results = call_concurrently([partial(services.schedule_many, actor, [request] * 2)] * 10)

    assert outcomes(results) == {"ok": 2, "quota": 8}
    assert Job.objects.count() == Event.objects.count() == 4


def test_concurrent_restores_and_deletes_leave_a_valid_job(actor):
    job = JobFactory(owner=actor.user)
    calls = [partial(services.delete, actor, job.public_id), partial(services.restore, actor, job.public_id)]

    results = call_concurrently(calls * 20)

    codes = {result.kind for result in results if isinstance(result, Err)}
    # A deleted job is not found, and one that was restored is neither deleted nor cancelled.
    assert codes <= {Kind.NOT_FOUND, Kind.WRONG_STATE}
    assert Event.objects.filter(job=job).count() == outcomes(results)["ok"]
    Job.objects.get(pk=job.pk).full_clean()


def test_concurrent_settling_of_the_same_jobs_does_not_deadlock(owner):
    cluster, now = ClusterFactory(), clock.now()
    jobs = [JobFactory(owner=owner, overlap="allow") for _ in range(60)]

    def ending(number: int) -> Callable[[], None]:
        order = jobs if number % 2 else jobs[::-1]
        runs = Execution.objects.bulk_create(
            ExecutionFactory.build(job=job, status="running", attempt=1, cluster=cluster, cause="manual")
            for job in order
        )
        outcomes = [Outcome(run.pk, 1, run.job_id, Execution.Status.SUCCEEDED, now) for run in runs]
        return partial(settle_all, cluster.pk, outcomes)

    call_concurrently([ending(number) for number in range(30)])

    assert set(Execution.objects.values_list("status")) == {("succeeded",)}
    assert set(Job.objects.values_list("recent")) == {("S" * 30,)}


def settle_all(cluster_id: int, outcomes: list[Outcome]) -> None:
    """Settle as a worker does: leave out locked rows, and try again."""
    while outcomes:
        outcomes = engine.settle_runs(cluster_id, outcomes).blocked


def test_prompt_that_starts_waiting_during_a_cancel_cannot_be_claimed(actor):
    job = JobFactory(owner=actor.user, task="prompt", kwargs={"prompt": "Hello"})
    run = ExecutionFactory(job=job, task="prompt", status="running", attempt=1, cluster=ClusterFactory())
    outcome = Outcome(run.pk, 1, job.pk, Execution.Status.WAITING, clock.now())

    for result in call_concurrently(
        [
            partial(settle_all, run.cluster_id, [outcome]),
            partial(services.cancel, actor, job.public_id),
        ]
    ):
        assert result is None or isinstance(result, Ok)
    engine.sweep(clock.now())

    assert services.claim_prompts(Actor(actor.user, Event.Door.MCP, "laptop")) == Ok([])
    run.refresh_from_db()
    assert run.status == Execution.Status.CANCELLED


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite locks no rows")
def test_job_that_somebody_holds_does_not_delay_the_others(actor):
    held, *free = JobFactory.create_batch(3, owner=actor.user)
    is_held, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            Job.objects.select_for_update().get(pk=held.pk)
            is_held.set()
            may_end.wait(PATIENCE)

    def change() -> dict[str, Any]:
        is_held.wait(PATIENCE)
        return change_each(actor, "pause", [job.public_id for job in (held, *free)])

    def look() -> None:
        paused = Job.objects.filter(pk__in=[job.pk for job in free], status="paused")
        try:
            wait_for(lambda: paused.count() == len(free))
        finally:
            may_end.set()

    _, answers, _ = call_concurrently([hold, change, look])

    assert outcomes(answers.values()) == {"ok": 3}
    assert set(Job.objects.values_list("status", flat=True)) == {"paused"}
