"""A fleet of simulated hosts keeps every promise of the ledger; `make hosts` runs more and larger ones."""

import pytest
from django.db import connection

from schedules import clock
from schedules.engine import rescue
from verification.hosts import fleet, simulated_host
from verification.hosts.invariants import violations

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("only_on_postgresql")]


@pytest.fixture
def only_on_postgresql(db):
    if connection.vendor != "postgresql":
        pytest.skip("several hosts need PostgreSQL")


def test_every_slot_runs_once_although_hosts_fail():
    story = fleet.simulate(10, hosts=4, seconds=40, jobs=8, calm=10)

    assert violations(story) == []
    assert len({fault.kind for fault in story.faults}) > 4
    assert any(call.attempt > 1 for call in story.calls)
    assert len({call.host for call in story.calls}) == 4


@pytest.mark.parametrize("kind", fleet.FAULTS)
def test_every_kind_of_fault_can_happen(kind):
    """A large fleet meets all of them, and only `make hosts` runs one."""
    story = fleet.simulate(7, hosts=2, seconds=15, jobs=4, calm=3, faults=[kind])

    assert violations(story) == []
    assert {fault.kind for fault in story.faults} == {kind}


# The invariants detect seeded defects.


def test_lease_that_nobody_expires_is_detected(monkeypatch):
    monkeypatch.setattr(rescue, "_recover_expired_leases", lambda now: None)
    monkeypatch.setattr(rescue, "_retire_dead_clusters", lambda now: None)
    monkeypatch.setattr(fleet, "SETTLE_WITHIN", 20.0)

    found = violations(fleet.simulate(2, hosts=2, seconds=10, jobs=4, calm=3, faults=["power", "reply"]))

    assert any("still" in problem for problem in found)


def test_host_that_trusts_its_own_clock_is_detected(monkeypatch):
    monkeypatch.setattr(clock, "now", lambda: simulated_host.current().wall())

    found = violations(fleet.simulate(3, hosts=2, seconds=10, jobs=4, faults=[]))

    assert any("early" in problem for problem in found)
