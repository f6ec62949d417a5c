"""Events in the order in which they are committed, which on PostgreSQL is not always that of their keys."""

from datetime import timedelta

import pytest
from django.db import connection

from schedules import clock, services
from schedules.models import Event
from schedules.services.event_feed import MAX_MISSING, EventFeed, Position
from tests.factories import JobFactory
from tests.services.test_turns import held

pytestmark = pytest.mark.django_db(transaction=True)
on_postgresql = pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has one writer at a time")


@pytest.fixture
def jobs(owner, actor):
    jobs = JobFactory.create_batch(2, owner=owner)
    for job in jobs:
        services.pause(actor, job.public_id)
    return jobs


def read(feed: EventFeed, most: int = 100) -> list[tuple[str, str, int]]:
    return [(str(at), event.verb, event.job_id) for at, event in feed.read(most, clock.now())]


@on_postgresql
def test_event_that_is_committed_late_is_sent_once_also_after_a_reconnection(actor, jobs):
    first, second = jobs
    feed = EventFeed(actor, None, clock.now())

    with held(lambda: services.resume(actor, first.public_id)):
        services.resume(actor, second.public_id)
        [(before, *early)] = read(feed)
        assert read(feed) == []
    reconnected = EventFeed(actor, Position.parse(before), clock.now())

    assert early == ["resume", second.pk]
    for each in (feed, reconnected):
        [(after, *late)] = read(each)
        assert late == ["resume", first.pk]
        assert read(each) == []
        assert read(EventFeed(actor, Position.parse(after), clock.now())) == []
    assert after == str(Event.objects.get(job=second, verb="resume").pk)


@on_postgresql
def test_stream_that_begins_during_a_change_sends_it(actor, jobs):
    first, second = jobs

    with held(lambda: services.resume(actor, first.public_id)):
        services.resume(actor, second.public_id)
        feed = EventFeed(actor, None, clock.now())

    assert [job for _, _, job in read(feed)] == [first.pk]


def test_missing_key_is_forgotten_after_a_while(owner, actor, jobs):
    newest = Event.objects.latest("pk")
    now = clock.now()
    feed = EventFeed(actor, None, now)
    fields = {"owner": owner, "actor": "olga", "door": "web", "verb": "x", "at": now}
    Event.objects.create(pk=newest.pk + 500, **fields)

    [(position, _)] = feed.read(10, now)
    Event.objects.create(pk=newest.pk + 1000, **fields | {"at": now + timedelta(minutes=2)})
    [(later, _)] = feed.read(10, now + timedelta(minutes=2))

    assert len(position.missing) == MAX_MISSING
    assert max(later.missing) == newest.pk + 999
    assert min(later.missing) > newest.pk + 500


def test_text_that_is_no_position_is_refused():
    for text in ["", "x", "-1", "1-", "1-2.", "1.2", "٣", "1-2\n", "9" * 19]:
        assert Position.parse(text) is None


def test_position_is_read_as_it_is_written():
    for text in ["0", "17", "17-3.5"]:
        assert str(Position.parse(text)) == text
