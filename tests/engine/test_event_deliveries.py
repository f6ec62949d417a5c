"""Events: written with what they tell of, to those who listen, and at no cost for runs that succeed."""

from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from schedules import engine, services
from schedules.engine import event_deliveries
from schedules.engine.incident_watch import watch_incidents
from schedules.models import Execution, Incident, Job
from schedules.result import Ok
from schedules.services.runs.approvals import answer_approval
from tests.engine.conftest import NOW, begin, new_cluster, outcome_of
from tests.factories import ApprovalFactory, JobFactory, UserFactory
from tests.receivers import call, deliveries, events_of, listen, person

Status = Execution.Status


pytestmark = pytest.mark.django_db


def settle(cluster, run, status="failed", **fields):
    return engine.settle_runs(cluster.pk, [outcome_of(run, status, **fields)])


def prompt_job(owner, **fields):
    return JobFactory(owner=owner, task="prompt", kwargs={"prompt": "Read my inbox"}, name="Inbox", **fields)


def test_prompt_that_becomes_due_is_told_with_its_job_and_run(cluster):
    job = prompt_job(UserFactory(), tags=["mail"])
    opened = listen(job.owner)
    run = begin(cluster, job)

    settle(cluster, run, "waiting")

    (event,) = events_of(opened)
    assert event["type"] == "prompt.due"
    assert event["id"].startswith("evt_")
    assert event["data"]["job"] == {"id": job.public_id, "name": "Inbox", "tags": ["mail"]}
    assert event["data"]["run"]["id"] == run.execution_id
    assert event["data"]["run"]["status"] == "waiting"
    assert "Read my inbox" not in str(event)


def test_failed_run_is_told_with_its_error_and_a_retry_is_not(cluster):
    job = JobFactory(attempts=2)
    opened = listen(job.owner)
    first = begin(cluster, job)
    settle(cluster, first, retry_at=NOW + timedelta(seconds=5), error="first try")
    assert deliveries(opened) == []

    settle(cluster, begin(cluster, job, now=NOW + timedelta(minutes=1)), error="The disk is full.")

    (event,) = events_of(opened)
    assert (event["type"], event["data"]["run"]["error"]) == ("run.failed", "The disk is full.")


def test_job_that_works_again_is_told_once(cluster):
    job = JobFactory()
    opened = listen(job.owner, events="run.recovered")
    settle(cluster, begin(cluster, job), error="broken")
    settle(
        cluster,
        begin(cluster, job, now=NOW + timedelta(minutes=1)),
        "succeeded",
        at=NOW + timedelta(minutes=1),
    )

    watch_incidents(NOW + timedelta(minutes=2))
    watch_incidents(NOW + timedelta(minutes=3))

    (event,) = events_of(opened)
    assert event["type"] == "run.recovered"
    assert event["data"]["failing_since"] == "2026-02-04T09:00:00Z"
    assert Incident.objects.get(job=job).ending == "Works again"


def test_missed_slot_is_told_with_the_reason(cluster):
    job = JobFactory(
        catch_up="none", next_run_at=NOW - timedelta(hours=1), created_at=NOW - timedelta(days=1)
    )
    opened = listen(job.owner, events="slot.missed")

    engine.claim_runs(cluster.pk, NOW, 10)

    (event,) = events_of(opened)
    assert event["data"]["slots"] >= 1
    assert event["data"]["reason"]


def test_change_is_told_with_who_made_it_but_without_values():
    job = JobFactory(kwargs={}, name="Water the plants")
    opened = listen(job.owner, events="job.changed")
    actor = person(job.owner)

    services.edit(actor, job.public_id, name="Feed the fish")
    services.pause(actor, job.public_id)
    services.run_now(actor, job.public_id)

    renamed, paused = events_of(opened)
    assert renamed["data"]["change"] == "edit"
    assert renamed["data"]["fields"] == ["name"]
    assert renamed["data"]["by"] == job.owner.get_username()
    assert "Water" not in str(renamed)
    assert paused["data"]["change"] == "pause"


@pytest.mark.parametrize(("answer", "text"), [("reply", "The first."), ("deny", "")])
def test_answer_to_an_agent_is_no_change_of_its_job(answer, text):
    asked = ApprovalFactory(tool="ask_person", call_id="", arguments={"question": "Which?", "choices": []})
    opened = listen(asked.owner, events="job.changed")

    answered = answer_approval(person(asked.owner), asked.pk, answer, seen=asked.digest, text=text)

    assert isinstance(answered, Ok)
    assert events_of(opened) == []


def test_many_changes_at_once_are_told_in_few_statements():
    owner = UserFactory()
    opened = listen(owner, events="job.changed")
    wanted = [
        {"name": f"Job {n}", "task": "tests.ping", "trigger_type": "cron", "cron": "0 7 * * *"}
        for n in range(50)
    ]

    with CaptureQueriesContext(
        connection,
    ) as captured:
        services.schedule_many(person(owner), wanted)

    assert len(events_of(opened)) == 50
    assert sum('"schedules_execution"' in query["sql"] for query in captured) <= 3


def test_approval_is_told_with_what_is_asked(cluster):
    job = prompt_job(UserFactory(), attempts=3)
    opened = listen(job.owner)
    request = {
        "runner": "laptop",
        "session_id": "s1",
        "folder": "/srv",
        "call_id": "c1",
        "call_digest": "d1",
        "tool": "Bash",
        "arguments": {"command": "git push --token zq-private"},
        "why": "It wants to publish.",
        "grant": "Bash(git push:*)",
    }

    run = begin(cluster, job)
    settle(cluster, run, retry_at=NOW + timedelta(days=2), error="Needs you", request=request)

    (event,) = events_of(opened)
    assert event["type"] == "approval.requested"
    assert event["data"]["run"]["id"] == run.execution_id
    assert (event["data"]["tool"], event["data"]["why"]) == ("Bash", "It wants to publish.")
    assert "zq-private" not in str(event)


@pytest.mark.parametrize(
    ("fields", "is_told"),
    [
        ({"tag": "Mail"}, True),
        ({"tag": "home"}, False),
        ({"job": "Inbox"}, True),
        ({"job": "Other"}, False),
        ({"events": "job.changed"}, False),
    ],
    ids=["its tag", "another tag", "its job", "another job", "another type"],
)
def test_filters_choose_the_events(cluster, fields, is_told):
    job = JobFactory(name="Inbox", tags=["mail"])
    JobFactory(owner=job.owner, name="Other")
    opened = listen(job.owner, **fields)

    settle(cluster, begin(cluster, job), error="broken")

    assert bool(deliveries(opened)) is is_told


def test_nobody_is_told_of_the_jobs_of_others(cluster):
    opened = listen(UserFactory())

    settle(cluster, begin(cluster, JobFactory()), error="broken")

    assert deliveries(opened) == []


@pytest.mark.parametrize("change", ["off", "inactive"])
def test_who_no_longer_listens_is_not_told(cluster, change):
    job = JobFactory()
    opened = listen(job.owner)
    if change == "off":
        Job.objects.filter(pk=opened.channel.job_id).update(status="paused", next_run_at=None)
    else:
        type(job.owner).objects.filter(pk=job.owner_id).update(is_active=False)

    settle(cluster, begin(cluster, job), error="broken")

    assert deliveries(opened) == []


def test_failed_delivery_is_not_told_as_an_event(cluster):
    opened = listen(UserFactory())
    run = begin(cluster, opened.channel.job)

    settle(cluster, run, error="no answer")

    assert [row.pk for row in deliveries(opened)] == [run.execution_id]


def test_event_is_undone_with_what_it_tells_of(cluster):
    job = JobFactory()
    opened = listen(job.owner)
    run = begin(cluster, job)

    with transaction.atomic():
        settle(cluster, run, error="broken")
        transaction.set_rollback(True)

    assert deliveries(opened) == []
    assert Execution.objects.get(pk=run.execution_id).status == Status.RUNNING


def test_more_than_may_wait_is_counted_in_one_row(cluster, monkeypatch):
    monkeypatch.setattr(event_deliveries, "MAX_WAITING", 3)
    owner = UserFactory()
    opened = listen(owner)
    runs = [begin(cluster, JobFactory(owner=owner)) for _ in range(5)]

    engine.settle_runs(cluster.pk, [outcome_of(run, "failed", error="broken") for run in runs])

    rows = deliveries(opened)
    assert [row.status for row in rows] == ["queued", "queued", "queued", "skipped"]
    assert (rows[-1].slots, rows[-1].reason) == (2, "2 events were not sent: 3 deliveries wait already.")


def _statements(cluster, statuses):
    runs = [begin(cluster, JobFactory()) for _ in statuses]
    outcomes = [outcome_of(run, status) for run, status in zip(runs, statuses, strict=True)]
    with CaptureQueriesContext(connection) as captured:
        engine.settle_runs(cluster.pk, outcomes)
    return [query["sql"] for query in captured]


def test_runs_that_succeed_cost_no_query_for_events(cluster):
    listen(UserFactory())

    statements = _statements(cluster, ["succeeded"] * 3)

    assert not [each for each in statements if "schedules_channel" in each]


def test_without_webhooks_a_batch_of_failures_costs_one_query_for_events(cluster):
    statements = _statements(cluster, ["failed"] * 20)

    assert len([each for each in statements if "schedules_channel" in each]) == 1


def test_claim_of_due_jobs_costs_no_query_for_events():
    listen(UserFactory())
    cluster = new_cluster()
    for _ in range(5):
        JobFactory(next_run_at=NOW, created_at=NOW - timedelta(days=1))

    with CaptureQueriesContext(connection) as captured:
        claims = engine.claim_runs(cluster.pk, NOW, 10)

    assert len(claims) == 5
    assert not [each for each in captured if "schedules_channel" in each["sql"]]


@pytest.mark.django_db(transaction=True)
def test_prompt_for_a_runner_is_told_before_the_runner_begins(use_runners):
    use_runners('[echo]\ndescription = "x"\nkind = "command"\nprogram = "/bin/cat"\nallow = ["everyone"]\n')
    cluster = new_cluster()
    job = JobFactory(task="prompt", kwargs={"prompt": "Hello", "runner": "echo"})
    opened = listen(job.owner, events="prompt.due")
    run = begin(cluster, job)

    (outcome,) = call([run])

    (event,) = events_of(opened)
    assert (event["data"]["runner"], event["data"]["run"]["id"]) == ("echo", run.execution_id)
    assert deliveries(opened)[0].available_at < outcome.finished_at
