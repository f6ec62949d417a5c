"""The thread of a worker that writes outcomes: when it does, and what it does if the database refuses them."""

import logging
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError

from schedules import engine
from schedules.models import Execution
from schedules.worker import context as context_module
from schedules.worker import outcomes as writer_module
from schedules.worker.context import ClusterContext
from schedules.worker.outcomes import OutcomeWriter
from tests.waiting import PATIENCE, wait_for
from tests.worker.test_loop import NOW, make_running, outcome_of, status_of


@pytest.fixture
def writer(context: ClusterContext) -> Iterator[OutcomeWriter]:
    made = OutcomeWriter(context, 0)
    yield made
    made.close()
    made.thread.join(PATIENCE)


def test_outcomes_are_written_a_moment_later(cluster, writer):
    first, second = make_running(cluster), make_running(cluster)
    assert writer.is_empty

    writer.add(outcome_of(first))
    writer.add(outcome_of(second))

    wait_for(lambda: {status_of(first), status_of(second)} == {"succeeded"})
    wait_for(lambda: writer.is_empty)


def test_claim_loop_knows_since_when_outcomes_wait_to_be_written(cluster, context, writer, monkeypatch):
    first, second = (outcome_of(make_running(cluster)) for _ in range(2))
    write, may_write = engine.settle_runs, threading.Event()

    def write_later(*arguments: Any) -> engine.Settled:
        may_write.wait(PATIENCE)
        return write(*arguments)

    monkeypatch.setattr(engine, "settle_runs", write_later)
    assert context.unwritten_since is None

    writer.add(first)
    wait_for(lambda: bool(writer._in_hand))
    writer.add(second._replace(finished_at=NOW + timedelta(seconds=1)))
    assert context.unwritten_since == first.finished_at
    assert writer.execution_ids() == {first.execution_id, second.execution_id}

    may_write.set()
    wait_for(lambda: Execution.objects.filter(status="succeeded").count() == 2)
    wait_for(lambda: context.unwritten_since is None)
    wait_for(lambda: writer.execution_ids() == set())


def test_outcomes_are_written_between_runs_in_a_burst(cluster, writer, monkeypatch):
    run = make_running(cluster)
    writer.write_if_due()
    # It is the call that has them written, and not the time that passes.
    monkeypatch.setattr(writer_module, "FLUSH_AFTER", 1000)
    monkeypatch.setattr(writer_module, "FLUSH_BURST_AFTER", 1000)
    monkeypatch.setattr(writer_module, "WAIT_FOR_WRITER", PATIENCE)
    writer.add(outcome_of(run), in_sequence=True)
    writer.write_if_due()
    assert status_of(run) == "running"

    writer._due_at = 0
    writer.write_if_due()

    assert status_of(run) == "succeeded"


def test_outcomes_wait_longer_in_a_burst_but_are_written(cluster, context, writer, monkeypatch):
    monkeypatch.setattr(writer_module, "FLUSH_BURST_AFTER", 0.2)
    monkeypatch.setattr(context_module, "BURST_SECONDS", 1000)
    context.report_burst()
    run = make_running(cluster)
    begin = time.monotonic()

    writer.add(outcome_of(run))

    wait_for(lambda: status_of(run) == "succeeded")
    assert time.monotonic() - begin >= 0.2


def test_outcome_added_while_others_are_written_is_written_too(cluster, writer, monkeypatch):
    runs = [make_running(cluster) for _ in range(2)]
    settle, batches = engine.settle_runs, []

    def add_another(cluster_id: int, outcomes: Any) -> engine.Settled:
        batches.append(len(outcomes))
        if len(batches) == 1:
            writer.add(outcome_of(runs[1]))
        return settle(cluster_id, outcomes)

    monkeypatch.setattr(engine, "settle_runs", add_another)

    writer.add(outcome_of(runs[0]))

    wait_for(lambda: {status_of(run) for run in runs} == {"succeeded"})
    assert batches == [1, 1]


@pytest.mark.parametrize("between_runs", [True, False])
def test_outcomes_survive_a_database_outage(cluster, writer, monkeypatch, caplog, between_runs):
    caplog.set_level(logging.CRITICAL)
    settle, refusals, is_back = engine.settle_runs, [], threading.Event()

    def unavailable_for_a_while(cluster_id: int, outcomes: Any) -> engine.Settled:
        if not is_back.is_set():
            refusals.append(outcomes)
            raise OperationalError("the server closed the connection unexpectedly")
        return settle(cluster_id, outcomes)

    run = make_running(cluster)
    monkeypatch.setattr(engine, "settle_runs", unavailable_for_a_while)
    writer.add(outcome_of(run))
    if between_runs:
        writer.write_if_due()
    wait_for(lambda: len(refusals) >= 3)
    assert status_of(run) == "running"
    assert not writer.is_empty

    is_back.set()

    wait_for(lambda: status_of(run) == "succeeded")


def test_writer_goes_on_after_an_error_that_nobody_expected(cluster, writer, monkeypatch, caplog):
    run = make_running(cluster)
    write_group, errors = writer._write_group, [MemoryError()]

    def fail_once(group: Any) -> Any:
        if errors:
            raise errors.pop()
        return write_group(group)

    monkeypatch.setattr(writer, "_write_group", fail_once)

    writer.add(outcome_of(run))

    wait_for(lambda: status_of(run) == "succeeded")
    assert "MemoryError" in caplog.text


def test_retries_do_not_become_more_frequent_when_other_outcomes_are_written(cluster, writer, monkeypatch):
    blocked, other = (outcome_of(make_running(cluster)) for _ in range(2))
    first, last = writer_module.FIRST_RETRY_AFTER, writer_module.LAST_RETRY_AFTER

    def refuse(cluster_id: int, outcomes: Any) -> engine.Settled:
        raise OperationalError("database is locked")

    # It is not tried again by itself.
    writer._retry_after = 1000
    with monkeypatch.context() as locked:
        locked.setattr(engine, "settle_runs", refuse)
        writer.add(blocked)
        wait_for(lambda: bool(writer._deferred))
    assert writer._retry_after == last

    writer.add(other)
    writer.write(PATIENCE)
    assert Execution.objects.get(pk=other.execution_id).status == "succeeded"
    assert writer._retry_after == last

    writer._retry_at = 0
    writer.write(PATIENCE)
    assert writer.is_empty
    assert writer._retry_after == first


def test_whoever_waits_for_a_writer_that_ends_goes_on(writer, monkeypatch):
    may_write = threading.Event()
    monkeypatch.setattr(writer, "_write", may_write.wait)
    monkeypatch.setattr(writer_module, "WAIT_FOR_WRITER", 0)
    waiting = threading.Thread(target=writer.write, args=[10 * PATIENCE], daemon=True)
    waiting.start()
    wait_for(lambda: writer._requests == 1)

    writer.close()

    waiting.join(PATIENCE)
    assert not waiting.is_alive()
    may_write.set()
