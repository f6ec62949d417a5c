"""Deliveries of events to a real receiver, which answers well, badly, late, or not at all."""

import asyncio
import json
from datetime import timedelta

import pytest

from schedules import clock, engine
from schedules.channels import event_delivery
from schedules.channels.event_delivery import ATTEMPTS, PAUSES, pause_after
from schedules.channels.webhook import new_secret
from schedules.engine.event_deliveries import AT_ONCE, Happening, publish
from schedules.models import Channel, Event, EventType, Execution, Incident, Job
from schedules.models.channels import GONE
from schedules.services.people.webhooks import redeliver, rotate_secret, send_test_event, switch_webhook
from schedules.tasks.outbound.signing import signature_header
from tests.documented import blocks
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory, UserFactory
from tests.receivers import (
    call,
    deliver,
    deliveries,
    happen,
    is_genuine,
    listen,
    person,
    sent,
    start_ready,
)
from tests.sink import Answer

SECOND = timedelta(seconds=1)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def cluster(transactional_db):
    return ClusterFactory()


@pytest.fixture
def job(transactional_db):
    return JobFactory(name="Backup")


def make_due(opened):
    """Let the time of the next attempts come."""
    Execution.objects.filter(job=opened.channel.job_id, status="queued").update(available_at=clock.now())


def test_event_arrives_signed_in_both_ways(sink, cluster, job):
    opened = listen(job.owner, sink.url("/hook"))
    happen(job)

    deliver(cluster)

    (received,) = sink.requests
    body, headers = sent(received), received.headers
    (row,) = deliveries(opened)
    assert (received.method, received.path) == ("POST", "/hook")
    assert body == row.given["event"]
    assert headers["webhook-id"] == headers["idempotency-key"] == body["id"]
    assert is_genuine(received, opened.secret)
    assert not is_genuine(received, opened.secret[:-6] + "AAAAA=")
    assert headers["cronty-signature"] == signature_header(
        [opened.secret], headers["cronty-timestamp"], body["id"], received.body
    )
    assert headers["cronty-event"] == body["type"] == "approval.requested"
    assert headers["content-type"] == "application/json"
    assert abs(int(headers["webhook-timestamp"]) - received.at) < 60
    assert row.status == "succeeded"
    assert row.result["status"] == 200


def test_failed_attempt_is_repeated_with_the_same_id_and_a_fresh_signature(sink, cluster, job):
    opened = listen(job.owner, sink.url())
    happen(job)
    sink.then(Answer(status=503, body=b"busy \x1b[31m<b>now</b>"))

    deliver(cluster)
    (row,) = deliveries(opened)
    assert row.status == "queued"
    assert "answered 503: busy" in row.error
    assert "\x1b" not in row.error
    assert timedelta(seconds=3) < row.available_at - clock.now() < timedelta(seconds=7)
    make_due(opened)
    deliver(cluster)

    first, second = sink.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert (first.headers["cronty-attempt"], second.headers["cronty-attempt"]) == ("1", "2")
    assert is_genuine(second, opened.secret)
    assert deliveries(opened)[0].status == "succeeded"


def test_pauses_grow_to_eight_attempts_within_a_day_and_end():
    assert ATTEMPTS == 8
    assert timedelta(hours=20) < sum(PAUSES, timedelta()) < timedelta(hours=26)
    for attempt, pause in enumerate(PAUSES, 1):
        assert pause * 0.8 <= pause_after(attempt) <= pause * 1.2


def test_after_the_last_attempt_the_delivery_has_failed(sink, cluster, job):
    sink.default = Answer(status=500)
    opened = listen(job.owner, sink.url())
    happen(job)

    for _ in range(ATTEMPTS):
        make_due(opened)
        deliver(cluster)

    (row,) = deliveries(opened)
    assert (row.status, row.attempt) == ("failed", ATTEMPTS)
    assert len(row.earlier_attempts) == ATTEMPTS - 1
    assert len(sink.requests) == ATTEMPTS
    make_due(opened)
    assert deliver(cluster) == []


def test_receiver_that_fails_for_long_is_switched_off_with_an_alert(sink, cluster, job):
    sink.default = Answer(status=500)
    opened = listen(job.owner, sink.url())
    happen(job, 6)

    # Only a few are sent at a time.
    for _ in range(2 * ATTEMPTS):
        make_due(opened)
        deliver(cluster)

    listener = Job.objects.get(pk=opened.channel.job_id)
    assert listener.status == "paused"
    assert "failures in a row" in listener.pause_reason
    incident = Incident.objects.get(job=listener, kind="paused")
    assert incident.name == "Events: Receiver"
    assert Event.objects.filter(job=listener, verb="pause").exists()
    happen(job)
    assert len(deliveries(opened)) == 6


def test_gone_switches_off_at_once_and_tells_the_owner(sink, cluster, job):
    sink.default = Answer(status=410)
    opened = listen(job.owner, sink.url())
    happen(job)

    deliver(cluster)

    listener = Job.objects.get(pk=opened.channel.job_id)
    assert (listener.status, listener.pause_reason) == ("paused", GONE)
    assert Incident.objects.filter(job=listener, kind="paused", ended_at=None).exists()
    assert deliveries(opened)[0].status == "failed"
    assert len(sink.requests) == 1


def test_redirect_is_not_followed(sink, cluster, job):
    opened = listen(job.owner, sink.url("/hook"))
    sink.then(Answer.redirect(sink.url("/elsewhere")))
    happen(job)

    deliver(cluster)

    assert [each.path for each in sink.requests] == ["/hook"]
    assert "redirects are not followed" in deliveries(opened)[0].error


def test_flood_of_an_answer_is_cut_and_the_secret_masked(sink, cluster, job):
    opened = listen(job.owner, sink.url())
    sink.then(Answer(body=opened.secret.encode() + b" " + b"x" * 5_000_000))
    happen(job)

    deliver(cluster)

    (row,) = deliveries(opened)
    assert row.status == "succeeded"
    assert len(row.result["said"]) <= 400
    assert opened.secret not in row.result["said"]


@pytest.mark.parametrize("manner", ["garbage", "reset"])
def test_broken_answer_is_recorded_and_repeated(sink, cluster, job, manner):
    sink.default = Answer(status=500, manner=manner)
    opened = listen(job.owner, sink.url())
    happen(job)

    deliver(cluster)

    (row,) = deliveries(opened)
    assert row.status == "queued"
    assert row.error


def test_address_that_is_private_now_is_refused_without_a_retry(sink, cluster, job, settings):
    opened = listen(job.owner, sink.url())
    settings.CRONTY_OUTBOUND_ALLOW = []
    happen(job)

    deliver(cluster)

    (row,) = deliveries(opened)
    assert row.status == "failed"
    assert "not a public address" in row.error
    assert sink.requests == []


@pytest.mark.parametrize("manner", ["hang", "reset"])
def test_events_behind_a_dead_receiver_keep_their_attempts_and_come_back_soon(
    sink, cluster, job, monkeypatch, manner
):
    monkeypatch.setattr(event_delivery, "REQUEST_TIMEOUT_SECONDS", 0.5)
    sink.default = Answer(manner=manner)
    dead = listen(job.owner, sink.url())
    happen(job, 40)
    now = clock.now()

    deliver(cluster)
    for step in range(1, 4):
        deliver(cluster, now + step * 15 * SECOND)

    rows = deliveries(dead)
    assert {row.status for row in rows} == {"queued"}
    # Four at first, their second attempts, and one more each time.
    assert len(sink.requests) == sum(row.attempt for row in rows) <= 4 + 4 + 3 * 2
    assert sum(not row.attempt for row in rows) >= 40 - 4 - 3

    sink.default = Answer()
    before = len(sink.requests)
    later = clock.now() + 60 * SECOND
    while deliver(cluster, later):
        pass
    assert len(sink.requests) - before >= 40 - 4 - 3


def test_no_more_than_a_few_requests_wait_for_one_receiver_in_all_clusters(sink, cluster, job):
    opened = listen(job.owner, sink.url())
    happen(job, 20)

    mine, others = start_ready(cluster), start_ready(ClusterFactory())

    assert (len(mine), len(others)) == (AT_ONCE, 0)
    engine.settle_runs(cluster.pk, call(mine[:1]))
    assert len(start_ready(ClusterFactory())) == 1
    assert sum(row.status == "running" for row in deliveries(opened)) == AT_ONCE


@pytest.mark.verify
def test_thousand_events_at_once_all_arrive_over_few_connections(sink, cluster, job):
    opened = listen(job.owner, sink.url())
    happen(job, 1000)

    # A worker has one loop, and its connections are of that loop.
    with asyncio.Runner() as runner:
        while deliver(cluster, run=runner.run):
            pass

    assert len(sink.requests) == 1000
    assert len({each.headers["webhook-id"] for each in sink.requests}) == 1000
    assert {row.status for row in deliveries(opened)} == {"succeeded"}
    assert sink.connections <= 100


def test_worker_that_died_before_it_wrote_the_outcome_sends_the_same_id_again(sink, cluster, job):
    opened = listen(job.owner, sink.url())
    happen(job)
    call(start_ready(cluster))
    assert deliveries(opened)[0].status == "running"

    Execution.objects.filter(job=opened.channel.job_id).update(lease_until=clock.now() - timedelta(hours=1))
    engine.sweep(clock.now())
    make_due(opened)
    deliver(ClusterFactory())

    first, second = sink.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert deliveries(opened)[0].status == "succeeded"


def test_new_secret_signs_beside_the_old_one_until_the_overlap_ends(sink, cluster, job, monkeypatch):
    opened = listen(job.owner, sink.url())
    _, new = rotate_secret(person(job.owner), "Receiver").value

    happen(job)
    deliver(cluster)
    assert is_genuine(sink.requests[0], opened.secret)
    assert is_genuine(sink.requests[0], new)

    Channel.objects.update(old_until=clock.now())
    happen(job)
    deliver(cluster)
    assert not is_genuine(sink.requests[1], opened.secret)
    assert is_genuine(sink.requests[1], new)


def test_test_event_says_that_it_is_one(sink, cluster, job):
    opened = listen(job.owner, sink.url())

    send_test_event(person(job.owner), "Receiver")
    deliver(cluster)

    assert sent(sink.requests[0])["type"] == "test"
    assert is_genuine(sink.requests[0], opened.secret)


def test_delivery_by_hand_has_the_id_of_the_first(sink, cluster, job):
    sink.then(Answer(status=410))
    opened = listen(job.owner, sink.url())
    happen(job)
    deliver(cluster)
    (first,) = deliveries(opened)
    switch_webhook(person(job.owner), "Receiver", is_on=True)

    redeliver(person(job.owner), "Receiver", first.pk)
    deliver(cluster)

    one, two = sink.requests
    assert one.headers["webhook-id"] == two.headers["webhook-id"]
    assert [row.status for row in deliveries(opened)] == ["failed", "succeeded"]


def test_secret_of_another_key_is_not_used(sink, cluster, job):
    opened = listen(job.owner, sink.url())
    # Somebody with the database points the secret at their own server.
    Channel.objects.filter(pk=opened.channel.pk).update(
        options=opened.channel.options | {"url": sink.url("/stolen")}
    )
    happen(job)

    deliver(cluster)

    assert sink.requests == []
    assert "cannot be read" in deliveries(opened)[0].error


def test_run_started_by_hand_sends_a_test(sink, cluster):
    opened = listen(UserFactory(), sink.url())
    Execution.of(opened.channel.job, clock.now(), cause="manual", available_at=clock.now()).save()

    deliver(cluster)

    assert sent(sink.requests[0])["type"] == "test"


def test_page_shows_an_event_as_it_is_sent(sink, cluster, settings):
    settings.CRONTY_URL = "https://cronty.example.com"
    shown, *_ = blocks("docs/how-to/events.md", "json")
    job = JobFactory(name="Nightly backup", tags=["backup"])
    listen(job.owner, sink.url())
    row = ExecutionFactory(job=job, status="failed", attempt=3, error="The disk is full.")
    publish([Happening(EventType.RUN_FAILED, job.pk, row.pk)], clock.now())

    deliver(cluster)

    assert _shape(sent(sink.requests[0])) == _shape(json.loads(shown.text))


def _shape(value):
    return {key: _shape(each) for key, each in value.items()} if isinstance(value, dict) else type(value)


def test_documented_example_accepts_genuine_events_only(sink, cluster, job):
    (example,) = blocks("docs/how-to/events.md", "python")
    names: dict = {}
    exec(example.text, names)  # noqa: S102  (our own page)
    is_accepted = names["is_genuine"]
    opened = listen(job.owner, sink.url())
    happen(job)
    deliver(cluster)
    (received,) = sink.requests

    assert is_accepted(opened.secret, received.headers, received.body)
    assert not is_accepted(opened.secret, received.headers, received.body + b" ")
    assert not is_accepted(new_secret(), received.headers, received.body)
    old = received.headers | {"webhook-timestamp": "1700000000"}
    assert not is_accepted(opened.secret, old, received.body)


def test_message_of_a_job_arrives_signed_with_the_same_id_for_all_attempts(sink, cluster, owner_of_webhook):
    opened, job = owner_of_webhook
    sink.then(Answer(status=503))
    Execution.of(job, clock.now(), cause="manual", available_at=clock.now()).save()

    deliver(cluster)
    Execution.objects.filter(job=job).update(available_at=clock.now())
    deliver(cluster)

    first, second = sink.requests
    assert is_genuine(first, opened.secret)
    assert is_genuine(second, opened.secret)
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    body = sent(second)
    assert (body["type"], body["data"]["message"], body["data"]["title"]) == ("message", "Hello", "T")


@pytest.fixture
def owner_of_webhook(transactional_db, sink):
    owner = UserFactory()
    opened = listen(owner, sink.url(), events="none")
    kwargs = {"message": "Hello", "title": "T", "channel": "Receiver"}
    return opened, JobFactory(owner=owner, task="notify", kwargs=kwargs, attempts=2)
