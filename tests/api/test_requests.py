"""Requests of the API: tokens, bodies, idempotency keys, and answers that every client understands."""

import json
import re
import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client

from schedules.models import IdempotencyKey, Job
from schedules.services import idempotency, revoke_token
from tests.api.conftest import Program, program_of
from tests.api.test_jobs import STAND_UP, fields, problem
from tests.factories import JobFactory


def test_request_without_a_usable_token_learns_where_to_make_one(owner, settings):
    settings.CRONTY_URL = "https://cronty.example"
    revoked = program_of(owner)
    revoke_token(owner, revoked.token.pk)
    junk = Program("cronty_01234567_" + "x" * 32, revoked.token)

    for program, word in ((revoked, "revoked"), (junk, "unknown")):
        answer = program.call("GET", "/me")
        assert answer.status_code == 401
        assert word in problem(answer)["detail"]
        assert "https://cronty.example/connect/" in problem(answer)["detail"]
        assert 'error="invalid_token"' in answer["WWW-Authenticate"]
    assert Client().get("/api/v1/me")["WWW-Authenticate"] == 'Bearer realm="Cronty"'


def test_session_of_a_browser_is_no_token(web, owner):
    job = JobFactory(owner=owner)

    assert web.get("/api/v1/jobs").status_code == 401
    assert web.delete(f"/api/v1/jobs/{job.public_id}").status_code == 401


def test_read_only_token_changes_nothing_and_learns_which_scope_is_missing(owner, program_with):
    job = JobFactory(owner=owner)
    program = program_with(scopes=["read"])

    answer = program.call("POST", f"/jobs/{job.public_id}/pause")

    assert answer.status_code == 403
    assert problem(answer)["code"] == "scope_missing"
    assert 'scope="write"' in answer["WWW-Authenticate"]
    assert Job.objects.get().status == "pending"


def test_token_of_one_family_sees_its_jobs_alone(owner, program_with):
    JobFactory(owner=owner, task="notify", name="Tea")
    JobFactory(owner=owner, name="Backup")
    program = program_with(families=["notifications"])

    assert [job["name"] for job in program.ok("GET", "/jobs")["jobs"]] == ["Tea"]
    assert program.call("GET", "/jobs/Backup").status_code == 404


def test_calls_are_counted_and_refused_with_the_time_to_wait(owner, settings):
    settings.CRONTY_MCP_CALLS_PER_MINUTE = 2
    program = program_of(owner)

    answers = [program.call("GET", "/me") for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert [answer["RateLimit-Remaining"] for answer in answers] == ["1", "0", "0"]
    assert int(answers[2]["Retry-After"]) == problem(answers[2])["retry_after"] > 0


NESTED = "[" * 1000 + "]" * 1000


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        ("{", "application/json", 400),
        ('{"a": NaN}', "application/json", 400),
        ('{"name": "a", "name": "b"}', "application/json", 400),
        (f'{{"args": {NESTED}}}', "application/json", 400),
        ("[" * 100_000, "application/json", 400),
        ('{"name": "\\ud800"}', "application/json", 422),
        ('{"name": "\\u0000"}', "application/json", 422),
        (b"\xff\xfe", "application/json", 400),
        ("[]", "application/json", 422),
        ("null", "application/json", 422),
        ("", "application/json", 422),
        ("name=a", "application/x-www-form-urlencoded", 415),
        ("{}", "text/plain", 415),
        ('{"name": "' + "x" * 300_000 + '"}', "application/json", 413),
    ],
)
def test_body_that_cannot_be_read_is_refused_as_a_problem(program: Program, body, content_type, status):
    answer = Client().generic(
        "POST",
        "/api/v1/jobs",
        body,
        content_type=content_type,
        headers={"Authorization": f"Bearer {program.text}"},
    )

    assert answer.status_code == status
    assert problem(answer)["status"] == status
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/jobs", {"name": "Tea", "task": "notify", "schedule": "every day at 9am", "scheduel": 1}),
        ("/bulk", {"action": "pause", "jbos": []}),
        ("/preview", {"schedule": "every hour", "time_zone": "UTC"}),
        ("/tokens", {"name": "a", "scopes": ["read"], "admin": True}),
        ("/apply", {"text": "jobs: {}", "forced": True}),
        ("/jobs/1/run", {"now": True}),
    ],
)
def test_unknown_field_is_refused_by_its_name(program: Program, path, body):
    answer = program.call("POST", path, body)

    assert answer.status_code == 422, answer.content
    assert list(body)[-1] in fields(answer)
    assert not Job.objects.exists()


@pytest.mark.parametrize("path", ["/nothing", "/runs/x", "/jobs/a/b/c", "/", "/prompts/a%0Ab/complete"])
def test_unknown_address_is_a_problem(program: Program, path):
    answer = program.call("GET", path)

    assert (answer.status_code, problem(answer)["code"]) == (404, "not_found")


def test_other_method_is_a_problem_that_names_the_right_ones(program: Program):
    answer = program.call("PUT", "/jobs")

    assert (answer.status_code, answer["Allow"]) == (405, "GET, POST")
    assert problem(answer)["code"] == "method_not_allowed"


def test_unknown_parameter_of_an_address_without_any_is_refused(program: Program):
    assert fields(program.call("GET", "/me?verbose=1")) == ["verbose"]


def test_repeated_request_with_a_key_is_done_once(program: Program):
    key = {"Idempotency-Key": "order-1"}

    first = program.call("POST", "/jobs", STAND_UP, **key)
    again = program.call("POST", "/jobs", STAND_UP, **key)
    other = program.call("POST", "/jobs", STAND_UP | {"name": "Other"}, **key)

    assert (first.content, first["Location"], first["ETag"]) == (
        again.content,
        again["Location"],
        again["ETag"],
    )
    assert "Idempotent-Replayed" in again
    assert "Idempotent-Replayed" not in first
    assert (other.status_code, problem(other)["code"]) == (422, "idempotency_key_reused")
    assert Job.objects.count() == 1


def test_refused_request_does_not_use_up_its_key(program: Program):
    key = {"Idempotency-Key": "order-1"}

    assert program.call("POST", "/jobs", STAND_UP | {"task": "no_such"}, **key).status_code == 422
    assert program.call("POST", "/jobs", STAND_UP, **key).status_code == 201


def test_keys_of_different_people_are_different(program: Program, strange_program: Program):
    for each in (program, strange_program):
        each.ok("POST", "/jobs", STAND_UP, **{"Idempotency-Key": "same"})

    assert Job.objects.count() == 2


def test_key_is_forgotten_after_a_day_and_keys_are_bounded(program: Program, monkeypatch):
    monkeypatch.setattr(idempotency, "MAX_KEYS_KEPT", 3)
    monkeypatch.setattr(idempotency, "_CHECK_EVERY", 1)
    job = JobFactory(owner=program.token.owner)

    for number in range(6):
        program.ok("POST", f"/jobs/{job.public_id}/skip", **{"Idempotency-Key": f"k{number}"})
    assert set(IdempotencyKey.objects.values_list("key", flat=True)) == {"k3", "k4", "k5"}
    newest = IdempotencyKey.objects.get(key="k5")
    IdempotencyKey.objects.update(created_at=newest.created_at - timedelta(days=2))

    answer = program.call("POST", f"/jobs/{job.public_id}/skip", {"undo": True}, **{"Idempotency-Key": "k5"})

    assert answer.status_code == 200
    assert IdempotencyKey.objects.count() == 1


NO_KEY = {"create_token", "open_trigger", "rotate_channel_secret"}


def test_changes_by_post_take_a_key_and_others_say_that_they_do_not(program: Program, owner):
    job = JobFactory(owner=owner)
    document = json.loads(Client().get("/api/v1/openapi.json").content)
    posts = [each["post"] for each in document["paths"].values() if "post" in each]

    keyless = {
        each["operationId"]
        for each in posts
        if each["x-scope"] == "write"
        and not any(parameter["name"] == "Idempotency-Key" for parameter in each["parameters"])
    }
    answer = program.call("PATCH", f"/jobs/{job.pk}", {}, **{"Idempotency-Key": "a", "If-Match": "*"})
    stopped = [program.call("POST", "/agents/stop", **{"Idempotency-Key": "b"}) for _ in range(2)]

    assert keyless == NO_KEY | {"test_channel", "ping_heartbeat"}
    assert fields(answer) == ["Idempotency-Key"]
    assert stopped[0].content == stopped[1].content
    assert stopped[1]["Idempotent-Replayed"] == "true"


@pytest.mark.django_db(transaction=True)
def test_equal_requests_at_once_are_done_once(owner):
    program, answers = program_of(owner), []

    def ask() -> None:
        answers.append(program.call("POST", "/jobs", STAND_UP, **{"Idempotency-Key": "once"}))
        connection.close()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [answer.status_code for answer in answers] == [201] * 4
    assert len({answer.content for answer in answers}) == 1
    assert Job.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_edits_that_saw_the_same_job_one_wins(owner):
    program, job, statuses = program_of(owner), JobFactory(owner=owner), []
    seen = program.call("GET", f"/jobs/{job.pk}")["ETag"]

    def edit(name: str) -> None:
        statuses.append(
            program.call("PATCH", f"/jobs/{job.pk}", {"name": name}, **{"If-Match": seen}).status_code
        )
        connection.close()

    threads = [threading.Thread(target=edit, args=[f"Name {number}"]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(statuses) == [200, 412, 412, 412]


def test_client_that_compresses_changes_the_job_that_it_saw(program: Program, owner):
    gzip = {"Accept-Encoding": "gzip"}
    job = JobFactory(owner=owner)
    seen = program.call("GET", f"/jobs/{job.pk}", **gzip)["ETag"]

    changed = program.call("PATCH", f"/jobs/{job.pk}", {"name": "New"}, **gzip, **{"If-Match": seen})
    again = program.call("PATCH", f"/jobs/{job.pk}", {"name": "Newer"}, **gzip, **{"If-Match": seen})

    assert seen.startswith("W/")
    assert [changed.status_code, again.status_code] == [200, 412]
    assert program.call("DELETE", f"/jobs/{job.pk}", **{"If-Match": changed["ETag"]}).status_code == 204


def test_long_answer_is_compressed(program: Program, owner):
    JobFactory.create_batch(20, owner=owner)

    answer = program.call("GET", "/jobs", **{"Accept-Encoding": "gzip"})

    assert answer["Content-Encoding"] == "gzip"


def test_document_describes_every_address_and_its_refusals(db, settings):
    document = json.loads(Client().get("/api/v1/openapi.json").content)

    assert document["openapi"].startswith("3.1")
    for path, methods in document["paths"].items():
        assert path.startswith("/api/v1/")
        for operation in methods.values():
            assert {"401", "429"} <= operation["responses"].keys()
            assert operation["x-scope"] in {"read", "write"}
            assert operation["summary"]
            body = operation.get("requestBody")
            assert body is None or "anyOf" not in json.dumps(body)
    assert document["servers"] == [{"url": settings.CRONTY_URL}]
    run = document["components"]["schemas"]["RunOut"]["properties"]
    assert run["scheduled_for"]["format"] == run["started_at"]["anyOf"][0]["format"] == "date-time"


def test_examples_of_the_document_are_accepted(program: Program):
    document = json.loads(Client().get("/api/v1/openapi.json").content)
    models = document["components"]["schemas"]
    refused = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            model = models[reference(operation)] if "requestBody" in operation else {}
            properties = model.get("properties", {})
            fields = {name: each["examples"][0] for name, each in properties.items() if "examples" in each}
            address = re.sub(r"[{](\w+)[}]", "1", path.removeprefix("/api/v1"))
            match = {"If-Match": "*"} if method == "patch" else {}
            for example in model.get("examples", []):
                # Tools put the examples of fields together; their kind decides which belong to it.
                body = example | fields if "kind" in example else example
                if program.call(method.upper(), address, body, **match).status_code == 422:
                    refused.append((path, body))

    assert not refused


def reference(operation) -> str:
    [content] = operation["requestBody"]["content"].values()
    return content["schema"]["$ref"].rpartition("/")[2]


def test_false_is_no_first_day_of_the_week(program: Program):
    assert fields(program.call("PATCH", "/preferences", {"week_start": False})) == ["week_start"]
    assert program.ok("PATCH", "/preferences", {"week_start": 0})["week_start"] == 0
