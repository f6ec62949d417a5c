"""bulk_jobs and undo_change: what is shown, the confirmation, and what an agent may undo."""

from datetime import timedelta

import pytest
import time_machine

from schedules import clock, services
from schedules.mcp.auth import local_caller, set_local_caller
from schedules.models import Event, Job
from tests.factories import JobFactory

HOME = {"action": "pause", "tag": "home"}


@pytest.fixture
def home(owner, stranger):
    """Two jobs of Olga's that are tagged home, one that is not, and one of somebody else."""
    JobFactory(owner=stranger, name="Sam's", tags=["home"])
    JobFactory(owner=owner, name="Other")
    return [JobFactory(owner=owner, name=name, tags=["home"]) for name in ("Lights", "Heating")]


def test_change_of_many_jobs_is_shown_then_confirmed_then_undone(call, home, owner):
    asked = HOME | {"until": "monday", "reason": "Trip", "since": None}

    shown = call("bulk_jobs", **asked)
    assert (shown["is_done"], shown["count"]) == (False, 2)
    assert {job["name"] for job in shown["jobs"]} == {"Lights", "Heating"}
    assert "Nothing has been changed" in shown["next_step"]
    assert not Job.objects.filter(status="paused").exists()

    done = call("bulk_jobs", **asked, confirm=shown["confirm"])
    assert (done["is_done"], done["count"], "next_step" in done) == (True, 2, False)
    assert set(Job.objects.filter(status="paused").values_list("name", "pause_reason")) == {
        ("Lights", "Trip"),
        ("Heating", "Trip"),
    }
    assert Event.objects.filter(verb="pause", owner=owner, actor="laptop", door="mcp").count() == 2

    assert len(call("undo_change", change=done["undo"])["jobs"]) == 2
    assert not Job.objects.filter(status="paused").exists()


def test_update_of_many_jobs_shows_each_change(call, owner):
    JobFactory(owner=owner, name="Tea", cron="30 8 * * *", tags=["old"])
    asked = {"action": "update", "shift": "30m", "add_tags": ["new"], "remove_tags": ["old"]}

    done = call("bulk_jobs", **asked, confirm=call("bulk_jobs", **asked)["confirm"])

    assert "Tags old → new" in done["jobs"][0]["change"]
    job = Job.objects.get()
    assert (job.cron, job.tags) == ("0 9 * * *", ["new"])


@pytest.mark.parametrize("change", ["job", "filter", "action", "forged", "old", "another person", "used"])
def test_only_the_confirmation_of_exactly_this_is_accepted(call, home, owner, stranger, change):
    confirm = call("bulk_jobs", **HOME)["confirm"]
    asked, later = dict(HOME), clock.now()
    match change:
        case "job":
            JobFactory(owner=owner, name="New", tags=["home"])
        case "filter":
            asked["query"] = "Lights"
        case "action":
            asked["action"] = "cancel"
        case "forged":
            confirm += "x"
        case "old":
            later += timedelta(minutes=11)
        case "another person":
            set_local_caller(local_caller(stranger))
        case _:
            call("undo_change", change=call("bulk_jobs", **HOME, confirm=confirm)["undo"])

    with time_machine.travel(later):
        refused = call("bulk_jobs", **asked, confirm=confirm)

    reason = {"forged": "not a confirmation", "old": "too old"}.get(change, "have changed since")
    assert reason in refused["error"]
    assert not Job.objects.exclude(status="pending").exists()


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"action": "explode"}, "Invalid action: choose one of: pause"),
        ({"action": "pause", "status": "nope"}, "Unknown status"),
        ({"action": "pause", "task": "nope"}, "Unknown task"),
        ({"action": "cancel", "until": "monday"}, "only a pause"),
    ],
)
def test_invalid_request_is_refused(call, home, asked, error):
    assert error in call("bulk_jobs", **asked)["error"]


def test_last_call_of_this_agent_is_undone_and_nothing_else(call, owner, actor):
    mine, theirs = JobFactory(owner=owner, name="Mine"), JobFactory(owner=owner, name="Theirs")
    call("pause_job", job_id=mine.public_id)
    services.pause(actor, theirs.public_id)

    assert call("undo_change")["jobs"] == [{"id": mine.public_id, "name": "Mine"}]
    assert dict(Job.objects.values_list("name", "status")) == {"Mine": "pending", "Theirs": "paused"}


@pytest.mark.parametrize(
    ("tool", "named"),
    [("set_preferences", "set preferences (timezone was Europe/Berlin)"), ("run_job", "cannot be undone")],
)
def test_call_that_cannot_be_undone_is_named_and_an_older_one_stays(call, owner, tool, named):
    job, other = JobFactory(owner=owner), JobFactory(owner=owner)
    call("cancel_job", job_id=job.public_id)
    call(tool, **({"job_id": other.public_id} if tool == "run_job" else {"timezone": "Asia/Tokyo"}))

    refusal = call("undo_change")["error"]

    assert named in refusal
    assert "list_changes" in refusal
    assert Job.objects.get(pk=job.pk).status == "cancelled"


def test_change_of_somebody_else_is_unknown(call, stranger):
    services.pause(services.Actor(stranger, Event.Door.WEB), JobFactory(owner=stranger).public_id)

    for change in (Event.objects.get().pk, "undo_change(change=404)"):
        assert "no such change" in call("undo_change", change=change)["error"]
    assert Job.objects.get().status == "paused"
