"""The subcommands run, pause, resume, skip, cancel, rm and restore."""

import json
import re
from datetime import timedelta

import pytest

from schedules import clock, engine, services
from schedules.models import Execution, Job
from schedules.tasks.interface import OutputText
from tests.factories import ExecutionFactory, JobFactory


def status_of(job: Job) -> str:
    job.refresh_from_db()
    return "deleted" if job.deleted_at else job.status


def test_jobs_go_through_their_states(cronty, owner):
    job = JobFactory(owner=owner, name="Backup")

    for command, after in [
        ("pause", "paused"),
        ("resume", "pending"),
        ("cancel", "cancelled"),
        ("restore", "pending"),
        ("rm", "deleted"),
        ("restore", "pending"),
    ]:
        ended = cronty(command, "Backup")
        assert (ended.code, status_of(job)) == (0, after), command


def test_pause_keeps_its_end_and_reason(cronty, owner):
    job = JobFactory(owner=owner, timezone="Asia/Tokyo")

    cronty("pause", str(job.pk), "--until", "2028-01-01 09:00", "--reason", "holidays")

    job.refresh_from_db()
    assert job.paused_until.isoformat() == "2028-01-01T00:00:00+00:00"
    assert job.pause_reason == "holidays"


def test_resumed_job_is_shown_with_its_next_run_that_is_not_skipped(cronty, owner):
    job = JobFactory(owner=owner, cron="0 0 1 1 *", timezone="UTC", paused=True)
    year = clock.now().year + 1
    Job.objects.filter(pk=job.pk).update(skips=f"{year}-01-01")

    said = cronty("resume", str(job.pk))

    assert f"{year + 1}-01-01 00:00" in said.out


def test_several_jobs_are_changed_and_the_first_refusal_is_the_exit_code(cronty, owner):
    first, last = JobFactory(owner=owner), JobFactory(owner=owner)

    ended = cronty("pause", str(first.pk), "987654", str(last.pk), "--json")

    assert ended.code == 3
    assert [job["number"] for job in ended.json] == [first.pk, last.pk]
    assert json.loads(ended.err) == {"error": "Job not found: 987654", "code": "not_found"}


def test_ambiguous_name_keeps_no_other_job_from_being_changed(cronty, owner):
    JobFactory.create_batch(2, owner=owner, name="Twin")
    last = JobFactory(owner=owner)

    ended = cronty("pause", "Twin", str(last.pk))

    assert ended.code == 1
    assert ended.err.count("cronty: ") == 1
    assert f"Paused: {last.name}" in ended.out


def test_wrong_state_is_refused(cronty, owner):
    job = JobFactory(owner=owner)

    ended = cronty("resume", str(job.pk))

    assert (ended.code, ended.err) == (1, f"cronty: Job is not paused: {job.public_id}\n")


def test_skip_leaves_out_the_next_run_or_a_day(cronty, owner):
    job = JobFactory(owner=owner)
    day = f"{clock.now() + timedelta(days=400):%Y-%m-%d}"

    cronty("skip", str(job.pk), day)
    said = cronty("skip", str(job.pk))

    job.refresh_from_db()
    assert len(job.skips.split()) == 2
    assert day in job.skips
    assert cronty("skip", str(job.pk), "someday").code == 2
    assert re.search(rf"leaves out \w{{3}} \d{{4}}-\d\d-\d\d \d\d:\d\d(:\d\d)?, {day}\n", said.out)
    assert cronty("skip", str(job.pk), "--undo", "--json").json["skips"] == []


def test_run_is_queued(cronty, owner):
    job = JobFactory(owner=owner, name="Backup")

    ended = cronty("run", "Backup")

    run = Execution.objects.get(job=job)
    assert (run.cause, run.status) == ("manual", "queued")
    assert (ended.code, ended.out) == (0, f"Queued: Backup, run {run.pk}\n")
    assert "No cluster is running" in ended.err


@pytest.mark.parametrize(
    ("status", "code"), [("succeeded", 0), ("failed", 4), ("cancelled", 4), ("queued", 4)]
)
def test_run_waits_for_its_outcome(cronty, owner, monkeypatch, status, code):
    job = JobFactory(owner=owner, name="Backup")

    def settle(seconds: float) -> None:
        Execution.objects.filter(job=job).update(
            status=status, attempt=1, started_at=clock.now(), finished_at=clock.now(), error="it failed"
        )

    monkeypatch.setattr("cronty_site.terminal.logs.time.sleep", settle)

    # A run that stays queued is given up after this time.
    ended = cronty("run", "Backup", "--wait", "--timeout", "0.05" if status == "queued" else "300")

    assert ended.code == code
    assert ("still queued" in ended.err) == (status == "queued")


def test_waiting_prints_the_output_while_it_runs(cronty, owner, monkeypatch, capsys):
    JobFactory(owner=owner, name="Backup")
    printed: list[str] = []

    def start(run: Execution) -> None:
        Execution.objects.filter(pk=run.pk).update(status="running", attempt=1, started_at=clock.now())
        engine.save_output(run.pk, 1, OutputText("copying\n", "", 8))

    def fail(run: Execution) -> None:
        printed.append(capsys.readouterr().out)
        engine.save_output(run.pk, 2, OutputText("copying again", "", 13))
        Execution.objects.filter(pk=run.pk).update(
            status="failed", attempt=2, finished_at=clock.now(), error="disk full", result={"ignored": True}
        )

    steps = iter([start, fail])
    monkeypatch.setattr(
        "cronty_site.terminal.logs.time.sleep", lambda seconds: next(steps)(Execution.objects.get())
    )

    ended = cronty("run", "Backup", "--wait")

    assert printed == ["copying\n"]
    lines = ended.out.splitlines()
    assert lines[0] == "copying again"
    assert lines[1].startswith("failed: ")
    assert lines[2:] == ["disk full"]
    assert "Attempt 2:" in ended.err
    assert ended.code == 4


def test_waiting_for_json_prints_nothing_else(cronty, owner, monkeypatch):
    job = JobFactory(owner=owner, name="Backup")

    def end(seconds: float) -> None:
        run = Execution.objects.get(job=job)
        engine.save_output(run.pk, 1, OutputText("copying\n", "", 8))
        Execution.objects.filter(pk=run.pk).update(status="succeeded", attempt=1)

    monkeypatch.setattr("cronty_site.terminal.logs.time.sleep", end)

    ended = cronty("run", "Backup", "--wait", "--json")

    assert (ended.code, ended.json["status"]) == (0, "succeeded")


def test_everything_is_paused_and_resumed(cronty, owner):
    jobs = JobFactory.create_batch(2, owner=owner)
    alone = JobFactory(owner=owner, paused=True)

    paused = cronty("pause", "--all", "--until", "2028-01-01 09:00", "--json")

    assert {job["status"] for job in paused.json} == {"paused"}
    assert len(paused.json) == 2
    assert [status_of(job) for job in jobs] == ["paused"] * 2
    assert cronty("resume", "--all").out.strip() == "Resumed: 2 jobs"
    held = JobFactory(owner=owner, once=True, status="running", next_run_at=None)
    ExecutionFactory(job=held, status="queued", finished_at=None)
    assert "Not paused: 1 job" in cronty("pause", "--all").err
    cronty("resume", "--all")
    assert [status_of(job) for job in (*jobs, alone)] == ["pending", "pending", "paused"]


@pytest.mark.parametrize(
    "words", [("pause",), ("resume",), ("pause", "--all", "Backup"), ("pause", "--all", "--reason", "trip")]
)
def test_all_and_names_exclude_each_other(cronty, owner, words):
    job = JobFactory(owner=owner, name="Backup")

    ended = cronty(*words)

    assert ended.code == 2
    assert "--all" in ended.err
    assert status_of(job) == "pending"


def propose(owner, name: str) -> Job:
    agent = services.Actor(owner, "mcp", name="laptop", confirm="always")
    schedule = {"trigger_type": "cron", "cron": "0 12 * * *", "timezone": "UTC"}
    return services.schedule(agent, name=name, task="tests.ping", **schedule).value.job


def test_what_agents_propose_is_listed_and_confirmed(cronty, owner):
    first, second, third = (propose(owner, name) for name in ("First", "Second", "Third"))

    listed = cronty("confirm")
    one = cronty("confirm", "First")

    assert (listed.code, one.code) == (0, 0)
    assert all(text in listed.out for text in ("First", "laptop"))
    assert [status_of(job) for job in (first, second, third)] == ["pending", "paused", "paused"]
    assert cronty("resume", "Second").code != 0
    shown = cronty("confirm", "--json").json
    assert [(job["name"], job["proposed_by"], len(job["would_run"])) for job in shown] == [
        ("Second", "laptop", 3),
        ("Third", "laptop", 3),
    ]
    assert cronty("confirm", "--all").code == 0
    assert [status_of(job) for job in (second, third)] == ["pending", "pending"]
    assert "Nothing waits" in cronty("confirm", "--all").out
    assert cronty("confirm", "--all", "First").code == 2
    assert cronty("confirm", "First").code == 1
