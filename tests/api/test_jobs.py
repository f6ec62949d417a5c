"""Jobs over the API: created, changed without lost updates, stopped and brought back, by the rules of the services."""

import json
from datetime import datetime, timedelta

import pytest

from schedules.models import Event, Job, Question
from tests.api.conftest import Program, program_of
from tests.factories import JobFactory, QuestionFactory, reminder_job

STAND_UP = {
    "name": "Stand up",
    "schedule": "every weekday at 8:30",
    "task": "notify",
    "kwargs": {"message": "Stand up", "topic": "phone"},
    "tags": ["home"],
}


def problem(answer) -> dict:
    assert answer["Content-Type"] == "application/problem+json"
    return json.loads(answer.content)


def fields(answer) -> list[str]:
    return [each["field"] for each in problem(answer)["errors"]]


def test_new_job_is_stored_and_its_answer_says_where_it_is(owner, program: Program):
    answer = program.call(
        "POST", "/jobs", STAND_UP | {"timeout": "5m", "backoff": 30, "ends_at": "2030-12-24"}
    )

    job = Job.objects.get()
    shown = json.loads(answer.content)
    assert answer.status_code == 201
    assert answer["Location"] == f"/api/v1/jobs/{job.public_id}"
    assert (job.cron, job.timezone, job.timeout.total_seconds(), job.tags) == (
        "30 8 * * 1-5",
        "Europe/Berlin",
        300,
        ["home"],
    )
    assert (shown["id"], shown["ends_at"], shown["backoff"]) == (
        job.public_id,
        "2030-12-24T23:59:59+01:00",
        "30s",
    )
    assert (Event.objects.get(verb="create").door, job.made_by) == ("api", "n8n")


def test_agents_token_gets_no_more_than_through_its_tools(owner):
    agent = program_of(owner, name="laptop", kind="conversation")
    often = STAND_UP | {"schedule": "every 5 seconds"}

    assert fields(agent.call("POST", "/jobs", often)) == ["every"]
    assert program_of(owner).ok("POST", "/jobs", often)["task"] == "notify"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"nmae": "x"}, "nmae"),
        ({"name": 7}, "name"),
        ({"schedule": "sometime"}, "schedule"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"task": "no_such"}, "task"),
        ({"kwargs": {"message": "x", "colour": "red"}}, "kwargs"),
        ({"attempts": True}, "attempts"),
        ({"timeout": "soon"}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"ends_at": "never ever"}, "ends_at"),
        ({"overlap": "maybe"}, "overlap"),
        ({"tags": "home"}, "tags"),
    ],
)
def test_wrong_value_is_refused_by_the_name_of_its_field(program: Program, change, field):
    answer = program.call("POST", "/jobs", STAND_UP | change)

    assert answer.status_code == 422
    assert field in fields(answer)
    assert not Job.objects.exists()


def test_change_needs_the_tag_of_the_job_that_was_seen(owner, program: Program):
    job = JobFactory(owner=owner)
    seen = program.call("GET", f"/jobs/{job.public_id}")["ETag"]

    without = program.call("PATCH", f"/jobs/{job.pk}", {"name": "A"})
    first = program.call("PATCH", f"/jobs/{job.pk}", {"name": "B"}, **{"If-Match": seen})
    second = program.call("PATCH", f"/jobs/{job.pk}", {"name": "C"}, **{"If-Match": seen})
    anyway = program.call("PATCH", f"/jobs/{job.pk}", {"label": "D"}, **{"If-Match": "*"})

    job.refresh_from_db()
    assert [each.status_code for each in (without, first, second, anyway)] == [428, 200, 412, 200]
    assert (job.name, job.label) == ("B", "D")
    assert first["ETag"] != seen
    assert problem(second)["code"] == "job_changed"


def test_deletion_respects_the_tag_and_can_be_undone(owner, program: Program):
    job = JobFactory(owner=owner)

    assert program.call("DELETE", f"/jobs/{job.public_id}", **{"If-Match": '"r99"'}).status_code == 412
    too_long = program.call("DELETE", f"/jobs/{job.public_id}", **{"If-Match": "x" * 101})
    assert (too_long.status_code, too_long.json()["errors"][0]["field"]) == (422, "If-Match")
    assert program.call("DELETE", f"/jobs/{job.public_id}").status_code == 204
    assert program.ok("GET", f"/jobs/{job.public_id}")["deleted_at"]
    assert program.ok("POST", f"/jobs/{job.public_id}/restore")["deleted_at"] is None
    assert Job.objects.get(deleted_at=None) == job


def test_job_is_paused_resumed_skipped_run_and_cancelled(owner, program: Program):
    job = JobFactory(owner=owner, name="Backup")

    assert (
        program.ok("POST", "/jobs/Backup/pause", {"until": "in 3 days", "reason": "holidays"})["status"]
        == "paused"
    )
    assert program.ok("POST", f"/jobs/{job.pk}/resume")["status"] == "pending"
    assert len(program.ok("POST", f"/jobs/{job.pk}/skip")["skips"]) == 1
    assert program.ok("POST", f"/jobs/{job.pk}/skip", {"undo": True})["skips"] == []
    run = program.call("POST", f"/jobs/{job.pk}/run")
    assert run.status_code == 202
    assert program.ok("GET", run["Location"].removeprefix("/api/v1"))["status"] == "queued"
    assert program.ok("POST", f"/jobs/{job.pk}/cancel", {})["status"] == "cancelled"
    assert problem(program.call("POST", f"/jobs/{job.pk}/resume"))["code"] == "job_not_paused"


def test_somebody_elses_job_does_not_exist(owner, strange_program: Program):
    job = JobFactory(owner=owner, name="Backup")

    for reference in (job.public_id, job.pk, "Backup"):
        for method, path in (
            ("GET", ""),
            ("DELETE", ""),
            ("POST", "/run"),
            ("POST", "/pause"),
            ("GET", "/why"),
        ):
            assert strange_program.call(method, f"/jobs/{reference}{path}").status_code == 404


def test_pages_by_cursor_leave_out_and_repeat_nothing_while_jobs_are_made(owner, program: Program):
    jobs = JobFactory.create_batch(7, owner=owner)
    seen, cursor = [], ""
    for _ in range(4):
        page = program.ok("GET", f"/jobs?limit=2&cursor={cursor}")
        seen += [job["number"] for job in page["jobs"]]
        cursor = page["next_cursor"]
        JobFactory(owner=owner)
        if not cursor:
            break

    assert seen == [job.pk for job in reversed(jobs)]


def test_filters_find_what_the_page_of_jobs_finds(owner, program: Program):
    failed = JobFactory(owner=owner, recent="SF", failure_streak=1, name="Failing")
    tagged = JobFactory(owner=owner, tags=["home"], name="Tea")
    paused = JobFactory(owner=owner, paused=True)
    asked = {
        "outcome=failed": [failed],
        "tag=home": [tagged],
        "query=tea": [tagged],
        "status=paused": [paused],
        "order=next&limit=1": [failed],
        "trash=true": [],
    }

    for query, expected in asked.items():
        assert [job["number"] for job in program.ok("GET", f"/jobs?{query}")["jobs"]] == [
            job.pk for job in expected
        ]


@pytest.mark.parametrize(
    "query", ["statsu=paused", "cursor=junk", "order=next&cursor=junk", "limit=0", "since=whenever"]
)
def test_wrong_parameter_of_a_list_is_refused_by_name(program: Program, query):
    answer = program.call("GET", f"/jobs?{query}")

    assert answer.status_code == 422
    assert query.rpartition("&")[2].partition("=")[0] in fields(answer)


def test_job_of_a_careful_token_waits_until_a_program_confirms_it(owner, program: Program):
    agent = program_of(owner, name="laptop", kind="conversation", confirm="always")
    careful = program_of(owner, name="desk", confirm="always")

    made = agent.ok("POST", "/jobs", STAND_UP)

    assert (made["status"], made["next_run"]) == ("paused", None)
    for client in (agent, careful):
        refused = problem(client.call("POST", f"/jobs/{made['id']}/confirm"))
        assert refused["code"] == "confirmed_by_people"
        for action in ("resume", "run"):
            answer = client.call("POST", f"/jobs/{made['id']}/{action}")
            assert (answer.status_code, problem(answer)["code"]) == (409, "job_unconfirmed"), action
    assert program.call("POST", f"/jobs/{made['id']}/confirm", **{"If-Match": '"0"'}).status_code == 412
    assert Job.objects.get().status == "paused"
    assert program.ok("POST", f"/jobs/{made['id']}/confirm")["status"] == "pending"
    assert problem(program.call("POST", f"/jobs/{made['id']}/confirm"))["code"] == "job_not_proposed"


def test_careful_program_issues_no_careless_token(owner):
    careful = program_of(owner, name="desk", confirm="prompts")

    refused = careful.call("POST", "/tokens", {"name": "sub", "confirm": "never"})

    assert fields(refused) == ["confirm"]
    assert careful.ok("POST", "/tokens", {"name": "sub"})["confirm"] == "prompts"


def test_reminder_is_answered_and_its_state_shown(owner, program: Program):
    job = reminder_job(owner=owner, name="Pills")
    assert program.ok("GET", "/jobs/Pills")["reminder_state"] is None
    run = QuestionFactory(execution__job=job).execution

    later = program.ok("POST", "/jobs/Pills/answer", {"answer": "snooze", "until": "1h"})["reminder_state"]
    done = program.ok("POST", "/jobs/Pills/answer", {"answer": "done"})
    assert (later["status"], later["run"]) == ("snoozed", run.pk)
    waited = datetime.fromisoformat(later["next_at"]) - datetime.fromisoformat(later["answered_at"])
    # Both are shown without fractions of a second.
    assert abs(waited - timedelta(hours=1)) <= timedelta(seconds=1)
    assert done["reminder"].startswith("Done by n8n, after ")
    assert (done["reminder_state"]["status"], done["reminder_state"]["answered_by"]) == ("done", "n8n")

    assert (
        problem(program.call("POST", "/jobs/Pills/answer", {"answer": "snooze"}))["code"]
        == "already_answered"
    )
    assert (
        program.ok("POST", "/jobs/Pills/answer", {"answer": "undo"})["reminder_state"]["status"] == "snoozed"
    )
    skipped = program.ok("POST", "/jobs/Pills/answer", {"answer": "skip"})
    assert (skipped["reminder_state"]["status"], len(skipped["skips"])) == ("skipped", 1)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"answer": "later"}, "answer"),
        ({"answer": "done", "until": "1h"}, "until"),
        ({"answer": "snooze", "until": "the day after never"}, "until"),
    ],
)
def test_answer_that_cannot_be_given_is_refused_by_its_field(owner, program: Program, body, field):
    QuestionFactory(execution__job=reminder_job(owner=owner, name="Pills"))

    assert fields(program.call("POST", "/jobs/Pills/answer", body)) == [field]
    assert Question.objects.get().answers == []


def test_job_that_has_asked_nothing_takes_no_answer(owner, program: Program):
    reminder_job(owner=owner, name="Pills")

    answer = program.call("POST", "/jobs/Pills/answer", {"answer": "done"})

    assert (answer.status_code, problem(answer)["code"]) == (409, "nothing_asked")
