"""Pings that a worker sends to an outside watch."""

from collections.abc import Iterator

import pytest
from django.db import OperationalError

from schedules import clock, engine
from schedules.models import Installation
from schedules.tasks.outbound import connections
from schedules.worker import packages
from schedules.worker.context import ClusterContext
from schedules.worker.loop import WorkerLoop
from tests.sink import Answer, Sink
from tests.waiting import PATIENCE, wait_for

PATH = "/ping/5ec2e7"


@pytest.fixture
def sink(settings) -> Iterator[Sink]:
    with Sink(Answer(body=b"OK")) as sink:
        settings.CRONTY_HEARTBEAT_URL = sink.url(PATH)
        yield sink


@pytest.fixture
def worker(sink: Sink, context: ClusterContext) -> Iterator[ClusterContext]:
    """Make this process a worker of the cluster."""
    with packages.executing(context) as loop:
        yield context
    end(loop)


def end(loop: WorkerLoop) -> None:
    loop._thread.join(PATIENCE)
    loop.outcomes.thread.join(PATIENCE)
    loop.leases.executor.shutdown(wait=True)


def written() -> Installation:
    return Installation.objects.get()


def test_watch_gets_one_request_a_minute_and_its_answer_is_recorded(worker, sink, time_machine):
    time_machine.move_to("2026-02-04T09:00:10Z", tick=False)
    packages.ping_outside_watch()
    packages.ping_outside_watch()
    wait_for(lambda: written().watch_answered_at)
    time_machine.move_to("2026-02-04T09:01:00Z", tick=False)
    packages.ping_outside_watch()
    wait_for(lambda: written().watch_answered_at == clock.now())

    assert [(request.method, request.path) for request in sink.requests] == [("GET", PATH)] * 2
    assert written().watch_error == ""


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(status=404), "127.0.0.1 answered 404."),
        (Answer.redirect("https://elsewhere.example/"), "127.0.0.1 answered 302: redirects are not followed"),
        (Answer(manner="reset"), "Can't reach 127.0.0.1"),
    ],
    ids=["unknown", "redirect", "reset"],
)
def test_ping_that_does_not_arrive_is_recorded_without_its_address(worker, sink, answer, error, caplog):
    sink.then(answer)

    packages.ping_outside_watch()
    wait_for(lambda: written().watch_error)

    assert written().watch_error.startswith(error)
    assert "could not be pinged" in caplog.text
    assert PATH not in caplog.text + written().watch_error


def test_silent_watch_keeps_the_worker_from_nothing(worker, sink):
    sink.then(Answer(manner="hang"))

    packages.ping_outside_watch()
    wait_for(lambda: sink.requests)
    packages.probe(clock.now().timestamp())

    assert worker.pulses["probe"] == 1


def test_database_that_is_away_means_no_ping(worker, sink, monkeypatch):
    def fail(now: object) -> None:
        raise OperationalError("the server is away")

    monkeypatch.setattr(engine, "take_watch_turn", fail)

    packages.ping_outside_watch()
    packages.probe(clock.now().timestamp())

    assert sink.requests == []


def test_worker_that_ends_closes_its_connections(sink, context):
    with packages.executing(context) as loop:
        packages.ping_outside_watch()
        wait_for(lambda: written().watch_answered_at)
        assert len(connections._pools) == 1
    end(loop)

    assert connections._pools == {}
