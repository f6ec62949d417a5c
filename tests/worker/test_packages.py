"""Packages: how claims are divided among workers."""

from datetime import timedelta
from typing import Any

import pytest

from schedules.engine import Claim
from schedules.worker import packages

SECOND = timedelta(seconds=1)


def claims_of(task: str, count: int = 1, *, attempt: int = 0, timeout: timedelta = SECOND) -> list[Claim]:
    return [Claim(number, attempt, task, timeout, at_most_once=False) for number in range(count)]


def contents(claims: list[Claim]) -> list[dict[str, Any]]:
    return list(packages.pack(claims))


def test_coroutines_are_packed_in_chunks_and_plain_functions_one_by_one(monkeypatch):
    monkeypatch.setattr(packages, "CHUNK", 4)
    claims = claims_of("tests.aping", 10)
    claims += claims_of("tests.ping", 2, timeout=7 * SECOND)
    claims += claims_of("tests.gone", timeout=timedelta(milliseconds=1))

    packed = contents([claim._replace(execution_id=number) for number, claim in enumerate(claims)])

    chunks = [item["args"][1] for item in packed if item["func"] is packages.run_coroutines]
    alone = [item for item in packed if item["func"] is packages.run_plain_functions]
    assert list(map(len, chunks)) == [4, 4, 2]
    assert sorted(item["timeout"] - packages.PLAIN_SLACK for item in alone) == [1, 7, 7]
    assert sorted(pk for item in packed for pk in item["args"][1]) == list(range(13))


@pytest.mark.parametrize(
    ("workers", "count", "size"), [(2, 39, 1), (2, 40, 2), (2, 90, 3), (1, 90, 5), (1, 240, 10)]
)
def test_plain_functions_share_a_package_only_in_a_burst(settings, workers, count, size):
    settings.CRONTY_WORKERS = workers
    claims = claims_of("tests.ping", timeout=9 * SECOND)
    claims += claims_of("tests.ping", count - 1, timeout=8.2 * SECOND)

    packed = contents(claims)

    assert max(len(item["args"][1]) for item in packed) == size
    assert sum(len(item["args"][1]) for item in packed) == count
    # A package gets the longest timeout in it; each function also has its own.
    assert {item["timeout"] for item in packed} == {9 + packages.PLAIN_SLACK}


def test_plain_functions_that_must_not_start_twice_are_packed_one_by_one():
    claims = [claim._replace(at_most_once=True) for claim in claims_of("tests.ping", 100)]

    assert [len(item["args"][1]) for item in contents(claims)] == [1] * 100


def test_first_attempts_and_retries_are_packed_separately():
    packed = contents(claims_of("tests.aping") + claims_of("tests.aping", 2, attempt=1))

    assert [(item["args"][0], len(item["args"][1])) for item in packed] == [(0, 1), (1, 2)]
