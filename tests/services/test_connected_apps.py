"""Clients of OAuth that nobody knows yet."""

from collections import deque

from schedules.services import connected_apps


def test_documents_of_unknown_clients_are_fetched_a_limited_number_of_times(monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr(connected_apps, "_fetches", deque(maxlen=3))
    monkeypatch.setattr("schedules.clock.steady", lambda: seconds[0])

    asked = [connected_apps.may_fetch() for _ in range(5)]
    seconds[0] += 3601

    assert asked == [True] * 3 + [False] * 2
    assert connected_apps.may_fetch()
