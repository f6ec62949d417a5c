"""The tools that say what happened: runs, changes, and why."""

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
        ended(ping, hours)
    failed = ended(ping, 2, "failed", error="no answer\nat all")
    ended(backup, 1)
    ended(JobFactory(owner=stranger), 1)

    answer = call("list_runs")

    first, second, third = answer["runs"]
    assert (first["name"], first["status"], "runs" in first) == ("Backup", "succeeded", False)
    assert (second["run"], second["error"]) == (failed.pk, "no answer at all")
    assert (third["at"], third["runs"], third["first"]) == (
        "2026-02-04T09:00:00+01:00",
        3,
        "2026-02-04T07:00:00+01:00",
    )
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
    assert totals(query="garden") == totals(task="notify") == {"succeeded": 1, "lost": 1}
    assert totals(outcome="failed") == {"lost": 1, "failed": 1}
    assert totals(**{"from": "yesterday"}) == {"lost": 1}
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
    ("tool", "arguments", "error"),
    [
        ("list_runs", {"job_id": "nothing"}, "Job not found: nothing"),
        ("list_runs", {"outcome": "sad"}, "Invalid outcome: choose one of: succeeded"),
        ("list_runs", {"from": "tomorrow"}, "Invalid from: "),
        ("list_runs", {"to": "0001-01-01T12:00:00Z"}, "Invalid to: the period ends before it begins"),
        ("list_changes", {"since": "whenever"}, "Invalid since: "),
        ("list_changes", {"job_id": "nothing"}, "Job not found: nothing"),
    ],
)
def test_question_that_cannot_be_answered_is_refused(call, owner, noon, tool, arguments, error):
    assert call(tool, **arguments)["error"].startswith(error)


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
    assert (paused["action"], paused["by"]) == ("pause", actor.label)
    call("undo_change", change=paused["undo"])
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


def test_why_explains_the_run_nearest_to_a_time_in_the_zone_of_the_job(olga, owner, noon):
    job = JobFactory(owner=owner, timezone="Europe/Berlin", created_at=clock.now() - timedelta(days=2))
    run = ended(job, 1, "failed", error="it broke\x1b[31m")

    answer = olga.call("why", job_id=job.public_id, at="2026-02-04T11:00")

    assert (answer["id"], answer["verdict"], answer["run"]["run"]) == (job.public_id, "failed", run.pk)
    assert answer["detail"] == "it broke[31m"
    assert olga.call("why", job_id=job.public_id, at="2020-01-01T00:00")["verdict"] == "nothing"
    olga.call("delete_schedule", schedule_id=job.public_id)
    assert "restore_job" in olga.call("why", job_id=job.public_id)["deleted"]
