"""bulk_jobs: what it would change, the confirmation, and its refusals."""

import re
from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from schedules import clock
from schedules.mcp.auth import local_caller, set_local_caller
from schedules.models import Event, Job
from schedules.services.jobs import bulk
from tests.factories import ExecutionFactory, JobFactory

HOME = {"action": "pause", "tag": "home"}


@pytest.fixture
def home(owner, stranger):
    """Two jobs of Olga's that are tagged home, one that is not, and one of somebody else."""
    JobFactory(owner=stranger, name="Sam's", tags=["home"])
    JobFactory(owner=owner, name="Other")
    return [JobFactory(owner=owner, name=name, tags=["home"]) for name in ("Lights", "Heating")]


def test_first_call_only_says_what_it_would_change(call, home):
    answer = call("bulk_jobs", **HOME, until="monday")

    assert answer["would_change"] == 2
    assert {job["name"] for job in answer["jobs"]} == {"Lights", "Heating"}
    assert "Nothing has been changed" in answer["next_step"]
    assert not Job.objects.filter(status="paused").exists()


def test_confirmed_call_changes_all_of_them_and_can_be_undone(call, home, owner):
    first = call("bulk_jobs", **HOME, until="monday", reason="Trip")

    done = call("bulk_jobs", **HOME, until="monday", reason="Trip", confirm=first["confirm"])

    assert done["changed"] == 2
    paused = Job.objects.filter(status="paused")
    assert {job.name for job in paused} == {"Lights", "Heating"}
    assert {(job.pause_reason, job.paused_until > clock.now()) for job in paused} == {("Trip", True)}
    assert Event.objects.filter(verb="pause", owner=owner, actor="laptop", door="mcp").count() == 2

    change = re.fullmatch(r"undo_change\(change=(\d+)\)", done["undo"])[1]
    assert call("undo_change", change=int(change))["undone"] == 2
    assert not Job.objects.filter(status="paused").exists()


def test_pause_of_everything_says_what_goes_on(call, home, owner):
    held = JobFactory(owner=owner, once=True, status="running", next_run_at=None)
    ExecutionFactory(job=held, status="queued", finished_at=None)

    first = call("bulk_jobs", action="pause")

    assert "Not paused: 1 job" in first["next_step"]
    assert "Not paused: 1 job" in call("bulk_jobs", action="pause", confirm=first["confirm"])["note"]
    assert "Not paused" not in call("bulk_jobs", **HOME)["next_step"]


@pytest.mark.parametrize("change", ["job", "filter", "action"])
def test_confirmation_of_something_else_is_refused_with_a_new_one(call, home, owner, change):
    confirm = call("bulk_jobs", **HOME)["confirm"]
    if change == "job":
        JobFactory(owner=owner, name="New", tags=["home"])
    asked = HOME | {"filter": {"query": "Lights"}, "action": {"action": "cancel"}}.get(change, {})

    refused = call("bulk_jobs", **asked, confirm=confirm)

    assert "have changed since" in refused["error"]
    assert not Job.objects.exclude(status="pending").exists()
    assert call("bulk_jobs", **asked, confirm=refused["confirm"])["changed"] == refused["would_change"]


def test_confirmation_works_once(call, home, owner):
    confirm = call("bulk_jobs", **HOME)["confirm"]
    assert call("bulk_jobs", **HOME, confirm=confirm)["changed"] == 2
    resumed = call("bulk_jobs", action="resume", tag="home")
    assert call("bulk_jobs", action="resume", tag="home", confirm=resumed["confirm"])["changed"] == 2

    again = call("bulk_jobs", **HOME, confirm=confirm)

    assert "have changed since" in again["error"]
    assert not Job.objects.filter(status="paused").exists()


def test_old_forged_and_foreign_confirmations_are_refused(call, home, owner, stranger):
    confirm = call("bulk_jobs", **HOME)["confirm"]

    assert "not a confirmation" in call("bulk_jobs", **HOME, confirm="yes")["error"]
    assert "not a confirmation" in call("bulk_jobs", **HOME, confirm=f"{confirm}x")["error"]
    with time_machine.travel(clock.now() + timedelta(minutes=11)):
        assert "too old" in call("bulk_jobs", **HOME, confirm=confirm)["error"]
    set_local_caller(local_caller(stranger))
    assert "have changed since" in call("bulk_jobs", **HOME, confirm=confirm)["error"]
    assert not Job.objects.exclude(status="pending").exists()


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"action": "explode"}, "Invalid action"),
        ({"action": "pause", "status": "nope"}, "Unknown status"),
        ({"action": "cancel", "until": "monday"}, "only a pause"),
        ({"action": "pause", "until": "yesterday"}, "Invalid until"),
        ({"action": "pause", "task": "nope"}, "Unknown task"),
        ({"action": "undo"}, "choose one of: pause"),
    ],
)
def test_invalid_request_is_refused(call, home, asked, error):
    assert error in call("bulk_jobs", **asked)["error"]


def test_more_jobs_than_one_call_may_change_are_refused(call, home, monkeypatch):
    monkeypatch.setattr(bulk, "MAX_JOBS", 1)

    assert "More than 1 jobs match" in call("bulk_jobs", **HOME)["error"]
    assert call("bulk_jobs", **HOME, query="lights")["would_change"] == 1


def test_deleted_jobs_come_back(call, home):
    confirm = call("bulk_jobs", action="delete", tag="home")["confirm"]
    call("bulk_jobs", action="delete", tag="home", confirm=confirm)
    assert call("list_jobs", tag="home")["total"] == 0

    call("undo_change")

    assert call("list_jobs", tag="home")["total"] == 2


def update(call, **asked):
    asked = {"action": "update", **asked}
    first = call("bulk_jobs", **asked)
    return first, call("bulk_jobs", **asked, confirm=first["confirm"])


@pytest.mark.parametrize(
    ("cron", "asked", "moved"),
    [
        ("30 8 * * 1-5", {"shift": "30m"}, "0 9 * * 1-5"),
        ("30 8 * * *", {"shift": "-1h"}, "30 7 * * *"),
        ("0 8,20 * * *", {"shift": "90m"}, "30 9,21 * * *"),
        ("30 8 1 * *", {"time": "15:05"}, "5 15 1 * *"),
    ],
)
def test_update_moves_cron_jobs_on_the_clock(call, owner, cron, asked, moved):
    JobFactory(owner=owner, cron=cron)

    assert update(call, **asked)[1]["changed"] == 1
    assert Job.objects.get().cron == moved


def test_update_of_tags_and_topic_shows_each_change_and_is_undone_as_one(call, owner):
    for name in ("Tea", "Cake"):
        JobFactory(
            owner=owner, name=name, task="notify", kwargs={"message": name, "topic": "home"}, tags=["old"]
        )

    first, done = update(call, add_tags=["new"], remove_tags=["old"], topic="family")

    assert {job["change"] for job in first["jobs"]} == {job["change"] for job in done["jobs"]}
    assert all("Tags old → new" in job["change"] for job in done["jobs"])
    assert {(job.tags[0], job.kwargs["topic"]) for job in Job.objects.all()} == {("new", "family")}
    assert call("undo_change")["undone"] == 2
    assert {(job.tags[0], job.kwargs["topic"]) for job in Job.objects.all()} == {("old", "home")}


@time_machine.travel("2026-11-02T09:00:00Z", tick=False)
def test_update_from_a_day_on_is_shown_confirmed_once_and_made_by_a_job(call, owner):
    for name in ("Tea", "Cake"):
        JobFactory(owner=owner, name=name, cron="30 8 * * *", timezone="Europe/Berlin")

    first, done = update(call, timezone="Lisbon", starting="2026-12-01")

    assert first["would_change"] == 2
    assert first["starting"] == done["starting"] == "2026-12-01T00:00:00+01:00"
    assert done["changed"] == 0
    mover = Job.objects.get(task="move_jobs")
    assert mover.public_id in done["note"]
    assert mover.run_at == datetime(2026, 11, 30, 23, tzinfo=UTC)
    assert set(Job.objects.exclude(pk=mover.pk).values_list("timezone", flat=True)) == {"Europe/Berlin"}
