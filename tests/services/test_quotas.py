"""Quotas: active jobs per owner, and job creations per minute."""

from datetime import timedelta

import pytest

from schedules.result import Code, Err
from schedules.services import profile_of
from schedules.services.quotas import quota_problem, rate_problem
from tests.factories import JobFactory
from tests.services.conftest import NOW


@pytest.fixture(autouse=True)
def small_quotas(settings):
    settings.CRONTY_MAX_ACTIVE_JOBS = 3
    settings.CRONTY_MAX_CREATES_PER_MINUTE = 2


def test_active_jobs_count_against_the_quota(owner):
    JobFactory(owner=owner)
    JobFactory(owner=owner, paused=True)
    JobFactory(owner=owner, status="running", next_run_at=None)

    refusal = quota_problem(profile_of(owner))

    assert isinstance(refusal, Err)
    assert refusal.code == Code.QUOTA
    assert "at most 3 active jobs" in refusal.message


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"ended": True}, id="ended"),
        pytest.param({"deleted_at": NOW}, id="in the trash"),
        pytest.param({"owner": None}, id="somebody else's"),
    ],
)
def test_other_jobs_do_not_count(owner, stranger, fields):
    JobFactory.create_batch(2, owner=owner)
    JobFactory(**({"owner": owner} | fields | ({"owner": stranger} if "owner" in fields else {})))

    assert quota_problem(profile_of(owner)) is None


def test_refused_create_says_when_to_try_again(owner):
    JobFactory(owner=owner, created_at=NOW - timedelta(seconds=50))
    JobFactory(owner=owner, created_at=NOW - timedelta(seconds=5), ended=True, deleted_at=NOW)

    refusal = rate_problem(profile_of(owner), NOW)

    assert isinstance(refusal, Err)
    assert (refusal.code, refusal.retry_after) == (Code.TOO_FAST, 10)
    assert "in 10 seconds" in refusal.message


def test_stated_wait_is_rounded_up(owner):
    JobFactory.create_batch(2, owner=owner, created_at=NOW - timedelta(seconds=49.6))

    refusal = rate_problem(profile_of(owner), NOW)

    assert isinstance(refusal, Err)
    assert refusal.retry_after == pytest.approx(10.4)
    assert "in 11 seconds" in refusal.message


def test_creates_older_than_a_minute_do_not_count(owner, stranger):
    JobFactory(owner=owner, created_at=NOW - timedelta(minutes=1))
    JobFactory(owner=owner, created_at=NOW)
    JobFactory(owner=stranger, created_at=NOW)

    assert rate_problem(profile_of(owner), NOW) is None
