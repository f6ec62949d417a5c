"""A fault of one host excuses what happened on that host, and not what happened on another one."""

from dataclasses import replace

import pytest

from verification.faults.checker import check
from verification.faults.disturbances import UNREADABLE
from verification.faults.records import History
from verification.faults.test_checker import (
    T0,
    delivery,
    failed_once,
    fault,
    late_by,
    quiet,
    rescued,
    side_by_side,
    skewed,
    swap,
)

HIT, SPARED = "second", "up"


def rules(history: History) -> set[str]:
    return {found.rule for found in check(history)}


def on(history: History, host: str, kind: str = "") -> History:
    """Let everything happen on one host, and the faults on the host that is hit."""
    return history.with_(
        rows=[replace(one, host=host) for one in history.rows],
        deliveries=[replace(one, host=host) for one in history.deliveries],
        faults=[replace(one, host=HIT, kind=kind or one.kind) for one in history.faults],
    )


@pytest.mark.parametrize(("host", "reported"), [(HIT, set()), ("", set()), (SPARED, {"repeated"})])
def test_repeat_is_excused_on_the_host_that_was_hit(host, reported):
    assert rules(on(rescued("kill-leader", 50), host)) == reported


def test_repeat_by_the_host_that_took_over_is_excused():
    history = on(rescued("kill-leader", 50), HIT)
    taken_over = [replace(one, host=SPARED) if one.attempt == 2 else one for one in history.deliveries]

    assert rules(history.with_(deliveries=taken_over)) == set()


@pytest.mark.parametrize(("host", "reported"), [(HIT, set()), ("", set()), (SPARED, {"overlap"})])
def test_overlap_is_excused_if_the_host_of_the_first_run_was_hit(host, reported):
    assert rules(on(side_by_side("kill-busy-worker", at=29, struck=29.2), host)) == reported


def late(host: str, kind: str, *, seconds: float = 8.0, struck: float) -> History:
    """A run that was due at 50 s started late on this host; a fault of this kind struck at a moment."""
    history = on(late_by(seconds, kind), host)
    return history.with_(faults=[replace(history.faults[0], struck_at=T0 + struck)])


@pytest.mark.parametrize("kind", ["kill-pusher", "freeze-cluster", "partition"])
@pytest.mark.parametrize(("host", "reported"), [(HIT, set()), ("", set()), (SPARED, {"late"})])
def test_late_start_is_excused_on_the_host_that_was_hit(kind, host, reported):
    assert rules(late(host, kind, struck=40)) == reported


@pytest.mark.parametrize(
    ("kind", "struck", "reported"),
    [("kill-leader", 50.1, set()), ("kill-leader", 45, {"late"}), ("freeze-worker", 45, set())],
    ids=["claimed before the host died", "due after the host died", "claimed by a host without a worker"],
)
def test_late_start_on_another_host_is_excused_if_the_run_may_have_been_taken_over(kind, struck, reported):
    assert rules(late(SPARED, kind, struck=struck)) == reported


def test_take_over_by_another_host_has_a_limit():
    assert rules(late(HIT, "freeze-worker", seconds=18, struck=45)) == set()
    assert rules(late(SPARED, "freeze-worker", seconds=18, struck=45)) == {"late"}


def test_fault_without_a_host_excuses_every_host():
    history = late(SPARED, "kill-pusher", struck=40)

    assert rules(history.with_(faults=[replace(one, host="") for one in history.faults])) == set()


def test_failed_run_is_reported_in_a_change_of_the_secret_key():
    rotated = [fault(30, "key-rotation", 40)]

    assert rules(quiet().with_(faults=rotated)) == set()
    assert rules(failed_once().with_(faults=rotated)) == {"failed"}


def test_secret_that_cannot_be_read_is_reported_in_every_fault():
    killed = [fault(49, "kill-leader", 2)]
    refused = [one for one in quiet().deliveries if one.execution != 50]
    history = failed_once().with_(faults=killed, deliveries=[*refused, delivery(50, 50, "refused")])

    assert rules(history) == set()
    assert rules(swap(history, 50, error=f"The secret CAMPAIGN {UNREADABLE}: write it again.")) == {"failed"}


@pytest.mark.parametrize(("host", "reported"), [(HIT, set()), ("", set()), (SPARED, {"failed"})])
def test_failure_of_the_only_attempt_is_excused_on_the_host_that_was_hit(host, reported):
    killed = [fault(49, "kill-leader", 2)]
    refused = [one for one in quiet().deliveries if one.execution != 50]
    history = failed_once().with_(faults=killed, deliveries=[*refused, delivery(50, 50, "refused")])

    assert rules(on(history, host)) == reported


@pytest.mark.parametrize(("host", "reported"), [(HIT, set()), ("", set()), (SPARED, {"early"})])
def test_early_start_is_excused_on_the_host_whose_clock_is_wrong(host, reported):
    assert rules(on(skewed(ahead=0.05), host)) == reported
