"""The tool that copies a job."""

import pytest

from schedules.models import Event, Job
from tests.factories import JobFactory

SECRET = {"url": "https://example.com/", "headers": {"X-Api-Key": "hush"}}


def copied(answer):
    return Job.objects.get(public_id=answer["job_id"])


def test_copy_has_everything_but_what_is_changed(call, owner, noon):
    job = JobFactory(
        owner=owner,
        name="Bins",
        task="notify",
        kwargs={"message": "Bins", "topic": "mine", "priority": 4},
        timezone="Europe/Berlin",
        tags=["home"],
        label="Street",
        attempts=4,
        fixed_backoff=True,
        catch_up="none",
        max_runs=7,
        run_count=3,
        slot_count=3,
        skips="2026-12-24",
        last_error="offline",
    )

    answer = call("copy_job", job_id="Bins", name="Bins for Anna", kwargs={"topic": "anna"})

    copy = copied(answer)
    assert (copy.name, copy.kwargs) == ("Bins for Anna", {"message": "Bins", "topic": "anna", "priority": 4})
    same = ("task", "cron", "timezone", "tags", "label", "attempts", "fixed_backoff", "catch_up", "max_runs")
    assert [getattr(copy, name) for name in same] == [getattr(job, name) for name in same]
    assert copy.skips == "2026-12-24"
    assert (copy.run_count, copy.slot_count, copy.last_error, copy.status) == (0, 0, "", "pending")
    assert answer["tags"] == ["home"]
    assert Event.objects.get(job=copy).verb == "create"
    assert call("undo_change")["undone"] == 1


def test_secret_goes_along_only_to_the_same_address(call, owner, noon):
    JobFactory(owner=owner, name="Ping", task="webhook", kwargs=SECRET)

    same = call("copy_job", job_id="Ping", trigger_config={"expression": "0 5 * * *"})
    other = call("copy_job", job_id="Ping", kwargs={"url": "https://evil.example/"})

    assert copied(same).kwargs == SECRET
    assert "headers.X-Api-Key: write it again" in other["error"]
    assert Job.objects.count() == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"trigger_type": "cron"}, "give trigger_config together with trigger_type"),
        ({"trigger_config": {"expression": "0 25 * * *"}}, "Invalid cron expression: 0 25 * * *"),
        ({"kwargs": {"body": "••••••"}}, "write the real value instead"),
        ({"name": "x" * 201}, "Invalid name"),
        ({"job_id": "nope"}, "Job not found: nope"),
    ],
)
def test_bad_change_makes_no_copy(call, owner, noon, arguments, words):
    JobFactory(owner=owner, name="Ping", task="webhook", kwargs=SECRET)

    assert words in call("copy_job", **{"job_id": "Ping", **arguments})["error"]
    assert Job.objects.count() == 1


def test_repeated_copy_with_the_same_key_makes_no_second_job(call, owner, noon):
    JobFactory(owner=owner, name="Ping")

    first, second = (call("copy_job", job_id="Ping", idempotency_key="one") for _ in range(2))

    assert first["job_id"] == second["job_id"]
    assert second["existing"] is True
