"""Events sent by real clusters: one is killed while it sends, and nothing is lost."""

import pytest

from schedules import clock
from schedules.models import EventType, Execution
from tests.clusters import SHORT_LEASE, family_of, is_alive, running_cluster
from tests.factories import JobFactory
from tests.receivers import happen, is_genuine, listen, sent
from tests.sink import Answer, Sink
from tests.waiting import wait_for

pytestmark = pytest.mark.django_db(transaction=True)
LOCAL = {"CRONTY_OUTBOUND_ALLOW": "127.0.0.1"}
EVENTS = 24


@pytest.fixture
def sink(settings):
    settings.CRONTY_OUTBOUND_ALLOW = ["127.0.0.1"]
    with Sink() as server:
        yield server


def test_killed_cluster_loses_no_event_and_doubles_have_the_same_id(sink):
    job = JobFactory(next_run_at=clock.now().replace(year=2100))
    opened = listen(job.owner, sink.url(), events=EventType.APPROVAL_REQUESTED)
    sink.default = Answer(delay=0.2)
    with running_cluster(**SHORT_LEASE, **LOCAL) as process:
        happen(job, EVENTS)
        wait_for(lambda: len(sink.requests) >= 6)
        family = family_of(process.pid)
        process.kill()
        process.wait()
        wait_for(lambda: not any(map(is_alive, family)))
    sink.default = Answer()

    with running_cluster(**SHORT_LEASE, **LOCAL):
        rows = Execution.objects.filter(job=opened.channel.job_id)
        wait_for(lambda: not rows.exclude(status="succeeded").exists())

    written = {row.given["event"]["id"] for row in rows}
    assert len(written) == EVENTS
    assert {each.headers["webhook-id"] for each in sink.requests} == written
    assert all(is_genuine(each, opened.secret) for each in sink.requests)
    assert all(sent(each)["id"] == each.headers["webhook-id"] for each in sink.requests)
