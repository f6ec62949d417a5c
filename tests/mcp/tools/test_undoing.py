"""undo_change: the last call of an agent, or any change by its number."""

import pytest

from schedules import services
from schedules.models import Event, Job
from tests.factories import JobFactory


def test_last_call_of_this_agent_is_undone_and_nothing_else(call, owner, actor):
    mine, theirs = JobFactory(owner=owner, name="Mine"), JobFactory(owner=owner, name="Theirs")
    call("pause_job", job_id=mine.public_id)
    services.pause(actor, theirs.public_id)

    assert call("undo_change")["jobs"] == [{"job_id": mine.public_id, "name": "Mine"}]
    assert dict(Job.objects.values_list("name", "status")) == {"Mine": "pending", "Theirs": "paused"}


@pytest.mark.parametrize(
    ("last", "named"),
    [
        (("set_preferences", {"timezone": "Asia/Tokyo"}), "set preferences (timezone was Europe/Berlin)"),
        (("stop_agents", {}), "stop agents"),
        (("run_job", {}), "a run cannot be undone"),
    ],
    ids=["set_preferences", "stop_agents", "run_job"],
)
def test_call_that_cannot_be_undone_is_named_and_an_older_one_stays(call, owner, last, named):
    job, other = JobFactory(owner=owner), JobFactory(owner=owner)
    call("cancel_job", job_id=job.public_id)
    tool, arguments = last
    call(tool, **arguments, **({"job_id": other.public_id} if tool == "run_job" else {}))

    refusal = call("undo_change")["error"]

    assert named in refusal
    assert "list_changes" in refusal
    assert Job.objects.get(pk=job.pk).status == "cancelled"


@pytest.mark.parametrize("change", ["undo_change(change=404)", 404])
def test_unknown_change_is_refused(call, owner, change):
    assert "no change with this number" in call("undo_change", change=change)["error"]


def test_change_of_somebody_else_is_unknown(call, stranger):
    services.pause(services.Actor(stranger, Event.Door.WEB), JobFactory(owner=stranger).public_id)

    answer = call("undo_change", change=Event.objects.get().pk)

    assert "no change with this number" in answer["error"]
    assert Job.objects.get().status == "paused"


CHANGES = {
    "a message": ({"kwargs": {"message": "Coffee"}}, "Message Tea → Coffee"),
    "a schedule": ({"trigger_config": {"minutes": 5}}, "Every day at 09:00 → Every 5 minutes"),
    "a zone": ({"timezone": "Asia/Tokyo"}, "Time zone UTC → Asia/Tokyo"),
    "policies": ({"attempts": 3}, "Attempts 1 → 3"),
}


@pytest.mark.parametrize(("asked", "changed"), CHANGES.values(), ids=CHANGES)
def test_answer_names_old_and_new_values(call, owner, asked, changed):
    kwargs = {"message": "Tea", "topic": "home"}
    job = JobFactory(
        owner=owner, name="Drink", task="notify", kwargs=kwargs, cron="0 9 * * *", timezone="UTC"
    )

    assert call("update_job", job_id=job.public_id, **asked)["changed"] == changed


def test_pause_and_resume_name_the_states(call, owner):
    job = JobFactory(owner=owner, timezone="UTC")

    paused = call("pause_job", job_id=job.public_id, until="2030-01-01T00:00")
    later = call("pause_job", job_id=job.public_id, until="2031-01-01T00:00")
    resumed = call("resume_job", job_id=job.public_id)

    assert paused["changed"] == "pending → paused"
    assert "2030" in later["changed"]
    assert "2031" in later["changed"]
    assert resumed["changed"] == "paused → pending"
    assert call("undo_change", change=resumed["undo"])["undone"] == 1
    assert Job.objects.get().paused_until.year == 2031
