"""The tools that read what happened: the runs of a period."""

from datetime import timedelta

import pytest
import time_machine

from schedules import clock, services
from tests.factories import ExecutionFactory, JobFactory


def ended(job, hours, status="succeeded", **more):
    slot = clock.now() - timedelta(hours=hours)
    return ExecutionFactory(
        job=job, status=status, scheduled_for=slot, started_at=slot, finished_at=slot, attempt=1, **more
    )


def test_runs_of_a_job_that_ended_alike_are_one_line(call, owner, stranger, noon):
    ping, backup = JobFactory(owner=owner, name="Ping"), JobFactory(owner=owner, name="Backup")
    for hours in (5, 4, 3):
        newest = ended(ping, hours)
    failed = ended(ping, 2, "failed", error="no answer\nat all")
    ended(backup, 1)
    ended(JobFactory(owner=stranger), 1)

    answer = call("list_runs")

    assert answer["runs"] == [
        {
            "at": "2026-02-04T11:00:00+01:00",
            "job_id": backup.public_id,
            "name": "Backup",
            "task": backup.task,
            "status": "succeeded",
            "execution_id": backup.executions.get().pk,
        },
        {
            "at": "2026-02-04T10:00:00+01:00",
            "job_id": ping.public_id,
            "name": "Ping",
            "task": ping.task,
            "status": "failed",
            "execution_id": failed.pk,
            "error": "no answer at all",
        },
        {
            "at": "2026-02-04T09:00:00+01:00",
            "job_id": ping.public_id,
            "name": "Ping",
            "task": ping.task,
            "status": "succeeded",
            "execution_id": newest.pk,
            "runs": 3,
            "first": "2026-02-04T07:00:00+01:00",
        },
    ]
    assert (answer["total"], answer["totals"]) == (5, {"succeeded": 4, "failed": 1})
    assert (answer["since"], answer["until"]) == ("2026-01-28T12:00:00+01:00", "2026-02-04T12:00:00+01:00")


def test_runs_are_narrowed_by_period_words_task_and_outcome(call, owner, noon):
    bins = JobFactory(owner=owner, name="Bins", task="notify", kwargs={"message": "Paper", "topic": "garden"})
    other = JobFactory(owner=owner, name="Other", tags=["home"])
    ended(bins, 1)
    ended(bins, 30, "lost")
    ended(other, 2, "failed", error="timed out")
    ended(other, 24 * 20)

    def totals(**arguments):
        return call("list_runs", **arguments)["totals"]

    assert totals() == {"succeeded": 1, "lost": 1, "failed": 1}
    assert (
        totals(query="garden")
        == totals(query="PAPER")
        == totals(task="notify")
        == {"succeeded": 1, "lost": 1}
    )
    assert totals(query="home") == totals(query="timed out") == {"failed": 1}
    assert totals(outcome="failed") == {"lost": 1, "failed": 1}
    assert totals(**{"from": "today"}) == {"succeeded": 1, "failed": 1}
    assert totals(**{"from": "yesterday"}) == {"lost": 1}
    assert totals(**{"from": "30 days ago"})["succeeded"] == 2
    assert totals(**{"from": "30 days ago", "to": "10 days ago"}) == {"succeeded": 1}


def test_more_runs_than_are_looked_through_are_mentioned(call, owner, noon, monkeypatch):
    monkeypatch.setattr("schedules.services.run_list.COUNTED", 2)
    monkeypatch.setattr("schedules.models.counting.COUNTED", 2)
    job = JobFactory(owner=owner)
    for hours in (3, 2, 1):
        ended(job, hours)

    answer = call("list_runs")

    assert answer["total"] == 2
    assert answer["note"].startswith("Only the newest ")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"job_id": "nothing"}, "Job not found: nothing"),
        ({"task": "nope"}, "Unknown task: nope"),
        ({"outcome": "sad"}, "Invalid outcome: choose one of: succeeded"),
        ({"from": "whenever"}, "Invalid from: "),
        ({"from": "tomorrow"}, "Invalid from: "),
        ({"from": "today", "to": "yesterday"}, "Invalid to: the period ends before it begins"),
        ({"to": "0001-01-01T12:00:00Z"}, "Invalid to: the period ends before it begins"),
        ({"limit": 0}, "Invalid limit: choose 1 to 1000"),
    ],
)
def test_question_about_runs_that_cannot_be_answered_is_refused(call, owner, noon, arguments, error):
    assert call("list_runs", **arguments)["error"].startswith(error)


def test_changes_are_listed_old_and_new_with_the_call_that_undoes_them(call, owner, actor, stranger, noon):
    job = JobFactory(owner=owner, name="Backup", tags=[])
    JobFactory(owner=stranger)
    call("update_job", job_id=job.public_id, tags=["home"], timeout="10m")
    services.pause(actor, job.public_id, reason="Away")

    paused, edited = call("list_changes")["changes"]
    (mine,) = call("list_changes", mine=True)["changes"]

    assert mine == edited
    assert edited["changed"] == ["Tags none → home", "Timeout 1 min → 10 min"]
    assert (edited["action"], edited["job_id"], edited["name"]) == ("edit", job.public_id, "Backup")
    assert edited["undo"].startswith("undo_change(change=")
    assert (paused["action"], paused["by"]) == ("pause", actor.label)
    assert call("undo_change", change=paused["undo"])["undone"] == 1
    undone, before, _ = call("list_changes")["changes"]
    assert (undone["action"], "undo" in undone, "undo" in before) == ("undo: resume", False, False)


def test_changes_of_one_job_are_listed_since_a_moment_and_after_it_was_deleted(call, owner, noon):
    job, other = JobFactory(owner=owner, name="Tea"), JobFactory(owner=owner)
    with time_machine.travel("2026-01-10T11:00:00+00:00", tick=False):
        call("update_job", job_id=job.public_id, label="L")
    call("update_job", job_id=other.public_id, label="L")
    call("delete_schedule", schedule_id=job.public_id)

    def actions(**arguments):
        return [line["action"] for line in call("list_changes", **arguments)["changes"]]

    assert actions() == ["delete", "edit"]
    assert actions(job_id="tea") == ["delete"]
    assert actions(job_id=job.public_id, since="30 days ago") == ["delete", "edit"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [({"since": "whenever"}, "Invalid since: "), ({"job_id": "nothing"}, "Job not found: nothing")],
)
def test_question_about_changes_that_cannot_be_answered_is_refused(call, owner, arguments, error):
    assert call("list_changes", **arguments)["error"].startswith(error)
