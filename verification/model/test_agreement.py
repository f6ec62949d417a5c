"""Random sequences of operations and time steps agree with the reference; MODEL_EXAMPLES=2000 is the long run."""

import os
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from schedules import clock, engine, services
from schedules.engine import claim, gaps, pauses, plan, queued_runs, rescue, settle
from schedules.engine.upkeep import clock_rollback
from schedules.models import Execution, Job
from tests.sizes import sizes
from verification.model import machine, model

EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "0"))

pytestmark = [pytest.mark.usefixtures("simulated_time"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def simulated_time(monkeypatch, settings):
    monkeypatch.setattr(clock, "now", lambda: machine.TIME.now)
    for module in (claim, clock_rollback, pauses):
        monkeypatch.setattr(module, "time", machine.ticking())
    monkeypatch.setattr(clock_rollback, "_recovery", None)
    settings.CRONTY_CATCH_UP_HOURS = model.CATCH_UP_WINDOW / timedelta(hours=1)
    settings.CRONTY_CATCH_UP_RUNS = model.CATCH_UP_RUNS
    settings.CRONTY_LEASE_SECONDS = model.LEASE.total_seconds()


def explore(examples: int, *, randomly: bool = False) -> list[int]:
    """Run this many sequences, and return the number of ledger rows at the end of each.

    A failing random sequence is minimised and printed with the command to repeat it.
    """
    rows = []

    class Counted(machine.Agreement):
        def teardown(self) -> None:
            rows.append(Execution.objects.count())
            super().teardown()

    run_state_machine_as_test(
        Counted,
        settings=settings(
            max_examples=examples,
            stateful_step_count=50,
            derandomize=not randomly,
            print_blob=randomly,
            phases=[Phase.generate, Phase.shrink] if randomly else [Phase.generate],
            report_multiple_bugs=False,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    return rows


@pytest.mark.timeout(0 if EXAMPLES else 900)
@pytest.mark.parametrize("examples", sizes(4, 24, "MODEL_EXAMPLES"))
def test_cronty_agrees_with_the_reference(examples: int):
    rows = explore(examples, randomly=bool(EXAMPLES))

    # Both sides are compared at every step; this checks that there was something to compare.
    assert len(rows) >= examples
    assert sum(rows) > len(rows)


# The reference detects seeded defects. `make model` plants all of them, `make verify` only the first.

in_the_long_run = pytest.mark.skipif(not EXAMPLES, reason="only with MODEL_EXAMPLES (make model)")


@pytest.mark.verify
def test_gap_that_counts_one_too_many_is_detected(monkeypatch):
    gap = gaps.gap_from

    def count_one_too_many(*arguments):
        slot = gap(*arguments)
        return replace(slot, count=slot.count + 1) if slot.last else slot

    for module in (gaps, plan):
        monkeypatch.setattr(module, "gap_from", count_one_too_many)

    with pytest.raises(AssertionError):
        explore(60)


@in_the_long_run
def test_claim_that_does_not_advance_is_detected(monkeypatch):
    claim = engine.claim_runs

    def claim_without_advancing(cluster_id, now, limit):
        armed = list(Job.objects.due(now))
        claimed = claim(cluster_id, now, limit)
        Job.objects.bulk_update(armed, ["status", "next_run_at"])
        return claimed

    monkeypatch.setattr(engine, "claim_runs", claim_without_advancing)

    with pytest.raises(AssertionError):
        explore(60)


@in_the_long_run
def test_cancel_that_does_not_stop_is_detected(monkeypatch):
    cancel = services.cancel

    def cancel_without_stopping(actor, job_id):
        before = list(actor.jobs().called(job_id))
        result = cancel(actor, job_id)
        Job.objects.bulk_update(before, ["status", "next_run_at"])
        return result

    monkeypatch.setattr(services, "cancel", cancel_without_stopping)

    with pytest.raises(AssertionError):
        explore(60)


@in_the_long_run
def test_stop_that_leaves_a_claimed_run_is_detected(monkeypatch):
    for module in (engine, pauses):
        monkeypatch.setattr(module, "withdraw", lambda *arguments, **options: None)

    with pytest.raises(AssertionError):
        explore(60)


@in_the_long_run
def test_run_that_waits_forever_is_detected(monkeypatch):
    monkeypatch.setattr(settle, "release_next", lambda job_ids, now: None)

    with pytest.raises(AssertionError):
        explore(60)


@in_the_long_run
@pytest.mark.parametrize("module", [queued_runs, rescue])
def test_run_that_starts_after_its_catch_up_limit_is_detected(monkeypatch, module):
    monkeypatch.setattr(module, "is_too_late", lambda *arguments: False)

    with pytest.raises(AssertionError):
        explore(300)
