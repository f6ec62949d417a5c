"""Clients of OAuth that nobody knows yet."""

import pytest

from schedules.services.people import connected_apps
from schedules.services.people.hourly_limits import HourlyLimit


def test_clients_register_a_limited_number_of_times_from_an_address(monkeypatch: pytest.MonkeyPatch):
    seconds = [0.0]
    monkeypatch.setattr(connected_apps, "_registrations", HourlyLimit(3))
    monkeypatch.setattr(connected_apps, "_remove_unused_clients", lambda now: None)
    monkeypatch.setattr("schedules.clock.steady", lambda: seconds[0])

    asked = [connected_apps.may_register(f"2001:db8::{number}") for number in range(5)]
    others = [connected_apps.may_register(address) for address in ("192.0.2.1", "", "no address")]
    seconds[0] += 3601

    assert asked == [True] * 3 + [False] * 2
    assert others == [True] * 3
    assert connected_apps.may_register("2001:db8::1")
