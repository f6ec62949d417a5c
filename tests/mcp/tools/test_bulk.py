"""bulk_jobs: what it would change, the confirmation, and its refusals."""

import re
from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from schedules import clock, engine, services
from schedules.mcp.auth import local_caller, set_local_caller
from schedules.models import Event, Job
from schedules.services.jobs import bulk
from schedules.services.jobs.pause_all import read_state, resume_everything
from tests.factories import JobFactory

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


def test_run_between_the_question_and_the_answer_does_not_spoil_the_confirmation(call, home, cluster):
    confirm = call("bulk_jobs", **HOME)["confirm"]
    assert engine.claim_runs(cluster.pk, clock.now() + timedelta(days=400), 10)

    assert call("bulk_jobs", **HOME, confirm=confirm)["changed"] == 2


def test_old_forged_and_foreign_confirmations_are_refused(call, home, owner, stranger):
    confirm = call("bulk_jobs", **HOME)["confirm"]

    assert "not a confirmation" in call("bulk_jobs", **HOME, confirm="yes")["error"]
    assert "not a confirmation" in call("bulk_jobs", **HOME, confirm=f"{confirm}x")["error"]
    with time_machine.travel(clock.now() + timedelta(minutes=11)):
        assert "too old" in call("bulk_jobs", **HOME, confirm=confirm)["error"]
    set_local_caller(local_caller(stranger))
    assert "have changed since" in call("bulk_jobs", **HOME, confirm=confirm)["error"]
    assert not Job.objects.exclude(status="pending").exists()


def test_nothing_to_change_needs_no_confirmation(call, home):
    answer = call("bulk_jobs", action="resume", tag="home", confirm="yes")

    assert answer["would_change"] == 0
    assert "confirm" not in answer


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


def test_undo_leaves_a_job_that_was_cancelled_again(call, owner, actor):
    jobs = [JobFactory(owner=owner), JobFactory(owner=owner)]
    done = call("bulk_jobs", action="cancel", confirm=call("bulk_jobs", action="cancel")["confirm"])
    services.restore(actor, jobs[0].public_id)
    services.cancel(actor, jobs[0].public_id)

    call("undo_change", change=done["undo"])

    assert [job.status for job in Job.objects.order_by("pk")] == ["cancelled", "pending"]


def test_undo_names_the_jobs_that_a_quota_keeps(call, owner, settings):
    for _ in range(3):
        JobFactory(owner=owner)
    done = call("bulk_jobs", action="cancel", confirm=call("bulk_jobs", action="cancel")["confirm"])
    settings.CRONTY_MAX_ACTIVE_JOBS = 2

    answer = call("undo_change", change=done["undo"])

    assert answer["undone"] == 2
    assert "1 could not be undone" in answer["note"]


def test_pause_says_until_when_and_what_ends_with_it(call, owner):
    JobFactory(owner=owner, name="Dentist", once=True, run_at=clock.now() + timedelta(days=1))
    JobFactory(owner=owner, name="Daily")

    first = call("bulk_jobs", action="pause", until="in 7 days")
    done = call("bulk_jobs", action="pause", until="in 7 days", confirm=first["confirm"])

    assert "have no run left after this pause, and end: 1." in first["next_step"]
    assert first["paused_until"][:10] == done["paused_until"][:10]
    assert "and end: 1." in done["note"]


@pytest.mark.parametrize(
    ("asked", "reason", "resumed"),
    [
        ({}, "Everything was paused.", 2),
        ({"reason": "Trip", "until": "in 2 days"}, "Everything was paused. Trip", 2),
        ({"status": "pending"}, "Everything was paused.", 2),
        ({"query": "Job"}, "", 0),
    ],
)
def test_pause_without_a_filter_is_ended_by_resume_everything(call, actor, owner, asked, reason, resumed):
    JobFactory.create_batch(2, owner=owner, name="Job")
    JobFactory(owner=owner, name="Job", paused=True, pause_reason="Broken")

    asked = {"action": "pause", **asked}
    call("bulk_jobs", **asked, confirm=call("bulk_jobs", **asked)["confirm"])

    assert set(Job.objects.values_list("pause_reason", flat=True)) == {reason, "Broken"}
    assert read_state(actor).paused == resumed
    assert len(resume_everything(actor).jobs) == resumed


def test_reason_of_a_pause_of_everything_must_fit_with_its_own(call, owner):
    JobFactory(owner=owner)

    assert "at most 200" in call("bulk_jobs", action="pause", reason="x" * 190)["error"]


def test_command_that_is_not_for_agents_stays_paused_and_others_go_on(call, owner, use_commands):
    use_commands('[backup]\ndescription = "Back up."\nprogram = "/bin/true"\nallow = ["everyone"]\n')
    JobFactory(owner=owner, name="Closed", task="backup", paused=True)
    JobFactory(owner=owner, name="Open", paused=True)

    done = call("bulk_jobs", action="resume", confirm=call("bulk_jobs", action="resume")["confirm"])

    assert (done["changed"], dict(Job.objects.values_list("name", "status"))) == (
        1,
        {"Closed": "paused", "Open": "pending"},
    )
    assert "1 stayed paused, like Closed" in done["note"]


def test_preview_names_fifty_jobs_and_leaves_alerts_out(call, owner, unlimited):
    JobFactory.create_batch(51, owner=owner, tags=["home"])
    JobFactory(owner=owner, tags=["home"], public_id="notice_1_1")

    asked = call("bulk_jobs", action="delete", tag="home")

    assert (asked["would_change"], len(asked["jobs"])) == (51, 50)


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


@pytest.mark.parametrize(
    ("cron", "asked"),
    [
        ("30 23 * * 5", {"shift": "1h"}),
        ("*/5 * * * *", {"time": "9:00"}),
        ("0 8,20 * * *", {"time": "9:00"}),
        ("0 9 * * *", {"topic": "family"}),
    ],
)
def test_job_that_an_update_cannot_change_stays_and_is_named(call, owner, cron, asked):
    JobFactory(owner=owner, name="Odd", cron=cron)

    answer = call("bulk_jobs", action="update", **asked)

    assert answer["would_change"] == 0
    assert answer["next_step"].startswith("1 stay as they are, like Odd: it ")
    assert Job.objects.get().cron == cron


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


def test_update_of_a_job_that_was_edited_since_is_shown_again(call, owner, actor):
    job = JobFactory(owner=owner, cron="0 9 * * *")
    confirm = call("bulk_jobs", action="update", shift="1h")["confirm"]
    services.edit(actor, job.public_id, cron="0 12 * * *")

    answer = call("bulk_jobs", action="update", shift="1h", confirm=confirm)

    assert "have changed since" in answer["error"]
    assert Job.objects.get().cron == "0 12 * * *"


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"action": "update"}, "an update takes shift"),
        ({"action": "update", "time": "noon"}, "write HH:MM"),
        ({"action": "update", "time": "9:00", "shift": "1h"}, "give shift or time"),
        ({"action": "pause", "time": "9:00"}, 'only action "update" takes it'),
        ({"action": "update", "time": "9:00", "starting": "2020-01-01"}, "starting: it is in the past"),
        ({"action": "update", "time": "9:00", "starting": "some day"}, "starting: "),
    ],
)
def test_update_that_says_too_little_or_too_much_is_refused(call, owner, asked, error):
    assert error in call("bulk_jobs", **asked)["error"]


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


@time_machine.travel("2026-11-02T09:00:00Z", tick=False)
def test_planned_update_can_be_taken_back(call, owner):
    JobFactory(owner=owner, name="Tea", cron="30 8 * * *")
    change = re.fullmatch(
        r"undo_change\(change=(\d+)\)", update(call, shift="1h", starting="2026-12-01")[1]["undo"]
    )

    call("undo_change", change=int(change[1]))

    assert not Job.objects.kept().filter(task="move_jobs", status="pending").exists()
