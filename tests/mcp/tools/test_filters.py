"""Filters of list_jobs: what an agent finds in one call, and how it goes on to the next page."""

from datetime import timedelta

import pytest

from schedules import clock
from tests.factories import ExecutionFactory, JobFactory


@pytest.fixture
def rows(owner, stranger):
    """Olga's jobs of several kinds, and one of somebody else."""
    now = clock.now()
    backup = JobFactory(
        owner=owner, name="Nightly backup", task="webhook", tags=["Home", "nas"], recent="SF", last_run_at=now
    )
    ExecutionFactory(job=backup, status="failed", scheduled_for=now - timedelta(days=2))
    ExecutionFactory(job=backup, status="failed", scheduled_for=now - timedelta(days=3))
    tea = JobFactory(
        owner=owner,
        name="Tea",
        task="notify",
        kwargs={"message": "Check the Backup disk", "topic": "home", "tags": ["coffee"]},
        recent="FS",
    )
    ExecutionFactory(job=tea, status="failed", scheduled_for=now - timedelta(days=20))
    ExecutionFactory(job=tea, status="missed", scheduled_for=now - timedelta(days=1))
    paused = {"status": "paused", "next_run_at": None, "label": "Küche", "tags": ["home-office", "Büro"]}
    JobFactory(owner=owner, name="Paused one", task="prompt", kwargs={"prompt": "Dust it"}, **paused)
    JobFactory(owner=stranger, name="Backup of Sam", tags=["home"], recent="F")


FOUND = [
    ({"query": "backup"}, {"Nightly backup", "Tea"}),
    ({"query": "disk backup"}, {"Tea"}),
    ({"query": "NAS"}, {"Nightly backup"}),
    ({"query": "dust KüCHE Büro"}, {"Paused one"}),
    ({"query": "home"}, {"Nightly backup", "Paused one", "Tea"}),
    ({"query": "100%"}, set()),
    ({"tag": "home"}, {"Nightly backup"}),
    ({"tag": "Coffee"}, {"Tea"}),
    ({"task": "notify"}, {"Tea"}),
    ({"outcome": "failed"}, {"Nightly backup"}),
    ({"outcome": "failed", "since": "7 days ago"}, {"Nightly backup"}),
    ({"outcome": "failed", "since": "30 days ago"}, {"Nightly backup", "Tea"}),
    ({"outcome": "missed"}, {"Tea"}),
    ({"since": "1 hour ago"}, {"Nightly backup"}),
    ({"status": "paused", "query": "one"}, {"Paused one"}),
    ({"status": "pending", "query": "one"}, set()),
    ({"query": "backup", "outcome": "succeeded"}, {"Tea"}),
]


@pytest.mark.parametrize(("asked", "names"), FOUND)
def test_filters_find_jobs_of_the_caller_in_one_call(call, rows, asked, names):
    answer = call("list_jobs", **asked)

    assert {job["name"] for job in answer["jobs"]} == names
    assert answer["total"] == len(names)


def test_rows_say_how_often_and_when_last_the_outcome_occurred(call, rows):
    [job] = call("list_jobs", outcome="failed", since="7 days ago")["jobs"]

    assert job["matching_runs"] == 2
    assert job["last_match"] > job["last_run"][:4]
    assert "matching_runs" not in call("list_jobs", outcome="failed")["jobs"][0]


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"task": "nope"}, "Unknown task: nope"),
        ({"outcome": "broken"}, "Invalid outcome: choose one of: succeeded, failed"),
        ({"since": "some day"}, "Invalid since"),
        ({"query": "a\0b"}, "Invalid query"),
        ({"tag": "x" * 1000}, "Invalid tag"),
    ],
)
def test_invalid_filter_is_refused(call, asked, error):
    assert call("list_jobs", **asked)["error"].startswith(error)


@pytest.mark.parametrize("asked", [{}, {"query": "job"}, {"status": "pending"}])
def test_answer_says_how_to_go_on_until_the_last_page(call, owner, asked):
    JobFactory.create_batch(5, owner=owner, name="One job")
    seen, offset = [], 0
    while offset is not None:
        page = call("list_jobs", **asked, limit=2, offset=offset)
        assert page["total"] == 5
        seen += [job["job_id"] for job in page["jobs"]]
        offset = page.get("next_offset")

    assert len(seen) == len(set(seen)) == 5
    assert "next_offset" not in call("list_jobs", **asked, limit=2, offset=10)


@pytest.mark.parametrize(("limit", "offset"), [(2, 0), (2, 4), (10, 0), (2, 9)])
def test_list_of_more_jobs_than_are_counted_says_so(call, owner, monkeypatch, limit, offset):
    for module in ("models.counting", "mcp.answers.jobs", "services.job_list"):
        monkeypatch.setattr(f"schedules.{module}.COUNTED", 3)
    JobFactory.create_batch(3, owner=owner)
    exactly = call("list_jobs", limit=2)
    JobFactory.create_batch(2, owner=owner)

    answer = call("list_jobs", limit=limit, offset=offset)

    assert (exactly["total"], "note" in exactly) == (3, False)
    assert (answer["total"], answer["note"]) == (3, "More than 3 jobs match; only the first 3 are counted.")
