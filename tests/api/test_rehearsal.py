"""A period ahead, rehearsed over the API: whose jobs, which of them, and what gets in the way."""

from datetime import timedelta

import pytest

from schedules import clock
from schedules.models import AgentRun, Job
from tests.api.conftest import Program, program_of
from tests.api.test_jobs import fields
from tests.factories import ExecutionFactory, JobFactory


@pytest.fixture
def slow(owner) -> Job:
    return JobFactory(
        owner=owner,
        name="Slow",
        tags=["home"],
        next_run_at=clock.now() + timedelta(minutes=5),
        last_duration=timedelta(minutes=7),
    )


def test_rehearsal_tells_what_runs_and_what_is_left_out(program: Program, slow, stranger):
    JobFactory(owner=slow.owner, name="Other")
    JobFactory(owner=stranger, tags=["home"])

    told = program.ok("GET", "/rehearsal?tag=home&to=in%201%20hour")

    [job] = told["jobs"]
    assert (job["id"], job["name"]) == (slow.public_id, "Slow")
    assert told["runs"] == job["runs"] > 0
    [left_out] = job["left_out"]
    assert left_out["reason"] == "The previous run was still running."
    assert told["left_out"] == left_out["count"] > 0
    assert told["from"] < job["first"] <= job["last"] <= told["to"]
    assert told["is_worker_running"] is False
    assert Job.objects.get(name="Slow").next_run_at == slow.next_run_at


def test_one_job_and_a_whole_period_can_be_asked_for(program: Program, slow):
    JobFactory(owner=slow.owner, name="Other")

    told = program.ok("GET", "/rehearsal?job=Slow&from=tomorrow")

    assert [job["name"] for job in told["jobs"]] == ["Slow"]
    assert (told["from"][11:19], told["to"][11:19]) == ("00:00:00", "23:59:59")


def test_collisions_and_cut_lists_are_told(program: Program, owner):
    for number in range(10):
        JobFactory(owner=owner, name=f"Job {number}", cron="0 3 * * *")

    told = program.ok("GET", "/rehearsal?from=tomorrow&limit=4")

    assert (told["crowded_minutes"], told["crowds"][0]["starts"]) == (1, 10)
    assert (len(told["jobs"]), told["runs"]) == (4, 10)
    assert told["notes"] == ["Only the first 4 of 10 jobs are listed."]


def test_spend_of_agents_is_told_from_their_past_runs(program: Program, owner, use_runners):
    use_runners('[one]\ndescription = "x"\nkind = "claude"\nallow = ["everyone"]\n')
    job = JobFactory(owner=owner, task="prompt", kwargs={"prompt": "Go.", "runner": "one"}, cron="0 3 * * *")
    run = ExecutionFactory(job=job, status="succeeded")
    AgentRun.objects.create(
        **{"execution": run, "attempt": 1, "job": job, "owner": owner, "runner": "one", "kind": "claude"},
        **{"verdict": "done", "started_at": clock.now(), "ended_at": clock.now()},
        **{"tokens_in": 90, "tokens_out": 10, "cost": "0.5"},
    )

    told = program.ok("GET", "/rehearsal?from=tomorrow")

    assert (told["spend"]["runs"], told["spend"]["tokens"], told["spend"]["money"]) == (1, 100, 0.5)
    assert told["jobs"][0]["spend"]["money"] == 0.5
    assert told["jobs"][0]["has_gate"] is False


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("to=yesterday", "to"),
        ("to=in%2040%20days", "to"),
        ("from=gibberish", "from"),
        ("tag=a%1bb", "tag"),
        ("limit=0", "limit"),
        ("since=today", "since"),
        ("from_=today", "from_"),
    ],
)
def test_bad_input_is_refused_by_name(program: Program, slow, query, field):
    refused = program.call("GET", f"/rehearsal?{query}")

    assert refused.status_code == 422
    assert fields(refused) == [field]


@pytest.mark.parametrize("job", ["Slow", "Nothing"])
def test_unknown_job_and_that_of_somebody_else_are_not_found(stranger, slow, job):
    assert program_of(stranger).call("GET", f"/rehearsal?job={job}").status_code == 404
