"""Trigger addresses over HTTP: keys, signatures, replays, bodies, limits and circles."""

import base64
import hashlib
import hmac
import json
from datetime import timedelta

import pytest
from django.db import connections
from django.test import Client

from schedules import clock
from schedules.models import Event, Execution, Secret, TriggerAddress
from schedules.result import Code, Err
from schedules.secrets.encryption import seal
from schedules.services import Actor, long_answers
from schedules.services.jobs.addresses import close_trigger, open_trigger
from schedules.tasks.outbound.signing import signature_header, standard_headers
from schedules.web.pings import limits
from schedules.web.pings.limits import PingLimits
from schedules.web.views import triggers
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db

KEY = f"whsec_{base64.b64encode(b'k' * 32).decode()}"


@pytest.fixture(autouse=True)
def fresh_limits(monkeypatch):
    # No minute ends in the middle of a test.
    monkeypatch.setattr(limits, "WINDOW_SECONDS", 10**9)
    monkeypatch.setattr(triggers, "limits", PingLimits("CRONTY_TRIGGERS_PER_MINUTE"))


@pytest.fixture
def no_connections_left():
    """Close the connection that reads for all who wait, or the database could not be dropped."""
    yield
    long_answers._reader.submit(connections.close_all).result()


@pytest.fixture
def job(owner):
    return JobFactory(owner=owner, cron="@manual")


def opened(job, scheme="", secret=KEY):
    if scheme:
        row = Secret(owner=job.owner, name="HOOK", created_at=clock.now(), updated_at=clock.now())
        row.sealed = seal(secret, row.place)
        row.save()
    result = open_trigger(Actor(job.owner, Event.Door.WEB), job.public_id, scheme=scheme, secret_name="HOOK")
    return "/trigger/" + result.value.url.rpartition("/")[2]


def post(path, body=b"", **headers):
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    content_type = given.pop("content-type", "application/json")
    return Client().post(path, body, content_type=content_type, headers=given)


def runs():
    return Execution.objects.order_by("pk")


def test_request_starts_a_run_and_names_its_address(job):
    response = post(opened(job))

    run = runs().get()
    assert (response.status_code, response["Location"]) == (202, f"/runs/{run.pk}/")
    assert response.json()["run"] == run.pk
    assert (run.cause, run.status, run.owner_id) == ("trigger", "queued", job.owner_id)
    assert Event.objects.filter(verb="run").get().door == "trigger"


def test_wrong_keys_are_limited_without_a_query(job, django_assert_num_queries):
    for number in range(60):
        assert post(f"/trigger/wrong{number}").status_code == 404

    with django_assert_num_queries(0):
        responses = {post(f"/trigger/another{number}").status_code for number in range(50)}

    assert responses == {429}


def test_requests_of_one_client_to_one_address_are_limited(job, settings):
    settings.CRONTY_TRIGGERS_PER_MINUTE = 2
    path = opened(job)

    assert [post(path).status_code for _ in range(3)] == [202, 202, 429]


def test_old_key_works_during_the_overlap_and_none_after_closing(job, time_machine):
    old, actor = opened(job), Actor(job.owner, Event.Door.WEB)
    new = opened(job)
    assert [post(old).status_code, post(new).status_code] == [202, 202]

    time_machine.move_to(clock.now() + timedelta(days=8), tick=False)
    assert [post(old).status_code, post(new).status_code] == [404, 202]
    close_trigger(actor, job.public_id)
    assert post(new).status_code == 404


def test_nobody_but_the_owner_opens_an_address_and_no_agent(job, stranger):
    for actor, code in [
        (Actor(stranger, Event.Door.WEB), Code.JOB_NOT_FOUND),
        (Actor(job.owner, Event.Door.MCP), Code.SECRETS_HIDDEN_FROM_AGENTS),
    ]:
        result = open_trigger(actor, job.public_id)
        assert isinstance(result, Err)
        assert result.code == code


def github(body, secret=KEY):
    return {"x_hub_signature_256": "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}


def stripe(body, secret=KEY, at=None):
    at = at or int(clock.now().timestamp())
    signed = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return {"stripe_signature": f"t={at},v1={'0' * 64},v1={signed},v0=x"}


def standard(body, secret=KEY, at=None):
    return standard_headers([secret], "msg_1", str(at or int(clock.now().timestamp())), body)


def cronty(body, secret=KEY, at=None):
    at = str(at or int(clock.now().timestamp()))
    signature = signature_header([secret], at, "key-1", body)
    return {"cronty_timestamp": at, "idempotency_key": "key-1", "cronty_signature": signature}


OTHER = f"whsec_{base64.b64encode(b'x' * 32).decode()}"
SIGNERS = pytest.mark.parametrize(
    ("scheme", "sign"), [("github", github), ("stripe", stripe), ("standard", standard), ("cronty", cronty)]
)


@SIGNERS
def test_signed_request_starts_one_run_and_its_replay_none(job, scheme, sign):
    path, body = opened(job, scheme), b'{"id": "evt_1"}'
    headers = sign(body)

    first, replay = post(path, body, **headers), post(path, body, **headers)

    assert (first.status_code, replay.status_code) == (202, 409)
    assert (
        replay.json()["detail"] == f"This message was received before; it started run {first.json()['run']}."
    )
    assert runs().count() == 1


@SIGNERS
def test_wrong_missing_and_foreign_signatures_are_refused(job, scheme, sign):
    path, body = opened(job, scheme), b'{"id": "evt_1"}'

    responses = [
        post(path, body),
        post(path, body + b" ", **sign(body)),
        post(path, body, **sign(body, OTHER)),
    ]

    assert [response.status_code for response in responses] == [403] * 3
    assert not runs().exists()


@pytest.mark.parametrize(("scheme", "sign"), [("stripe", stripe), ("standard", standard), ("cronty", cronty)])
@pytest.mark.parametrize("minutes", [-6, 6])
def test_signature_of_another_time_is_refused(job, scheme, sign, minutes):
    body = b"{}"
    at = int((clock.now() + timedelta(minutes=minutes)).timestamp())

    assert post(opened(job, scheme), body, **sign(body, at=at)).status_code == 403


@pytest.mark.parametrize(("scheme", "sign"), [("stripe", stripe), ("standard", standard), ("cronty", cronty)])
def test_message_that_its_sender_signs_again_names_the_first_run(job, scheme, sign):
    path, body, now = opened(job, scheme), b'{"id": "evt_1"}', int(clock.now().timestamp())
    first = post(path, body, **sign(body, at=now))

    again = post(path, body, **sign(body, at=now - 60))

    assert (again.status_code, again.json()["run"], again.json()["repeated"]) == (
        200,
        first.json()["run"],
        True,
    )
    assert runs().count() == 1


def test_test_message_of_github_starts_nothing(job):
    response = post(opened(job, "github"), b"{}", x_github_event="ping", **github(b"{}"))

    assert (response.status_code, response.json()) == (200, {"run": None})
    assert not runs().exists()


def test_body_becomes_an_argument_of_its_type(owner):
    job = JobFactory(
        owner=owner,
        task="notify",
        kwargs={
            "message": "Push to {{ trigger.body.ref }}",
            "priority": "{{trigger.body.level}}",
            "topic": "t",
        },
    )
    path = opened(job)

    good = post(path, json.dumps({"ref": "main", "level": 4}))
    bad = post(path, json.dumps({"ref": "main", "level": "high"}))

    assert (good.status_code, bad.status_code) == (202, 422)
    assert "priority: " in bad.json()["detail"]
    assert runs().get().given["trigger"] == {"body": {"ref": "main", "level": 4}}


def test_bad_bodies_are_refused_and_start_nothing(owner):
    job = JobFactory(owner=owner, task="notify", kwargs={"message": "{{ trigger.body }}", "topic": "t"})
    for body, status in [
        (b"[" * 1000, 422),
        (b'{"a": ' * 1000, 422),
        (b"\xff\xfe", 422),
        (b'{"a": 1e999}', 422),
        (b"x" * 262_145, 413),
    ]:
        assert post(opened(job), body).status_code == status, body[:9]
        assert not runs().exists()


def test_webhook_that_calls_its_own_job_is_stopped_and_said(job, owner):
    other = JobFactory(owner=owner)
    first = Execution.of(job, clock.now(), status="running", cause="manual", started_at=clock.now())
    first.save()
    between = Execution.of(other, clock.now(), status="running", cause="trigger", origin=first.pk)
    between.save()
    path = opened(job)

    direct = post(path, cronty_execution=str(first.pk))
    through_another = post(path, cronty_execution=str(between.pk))

    assert (direct.status_code, through_another.status_code) == (409, 409)
    rows = Execution.objects.filter(cause="trigger", job=job)
    assert {row.status for row in rows} == {"skipped"}
    assert rows[0].reason.startswith("Stopped: it would have been started by its own run")


@pytest.mark.parametrize("status", ["paused", "cancelled"])
def test_stopped_job_is_not_started(owner, status):
    job = JobFactory(owner=owner, status=status, next_run_at=None)

    assert post(opened(job)).status_code == 409


def test_wait_is_limited(job):
    for wait in ["61", "-1", "x", "1e9", "٣"]:
        assert post(f"{opened(job)}?wait={wait}").status_code == 422


@pytest.mark.django_db(transaction=True)
def test_waiting_sender_gets_the_end_of_the_run(job, monkeypatch, no_connections_left):
    def ended(run_id):
        Execution.objects.filter(pk=run_id).update(status="succeeded", finished_at=clock.now())
        return Execution.objects.get(pk=run_id)

    monkeypatch.setattr(triggers, "run_of_trigger", ended)
    monkeypatch.setattr(triggers, "POLL_SECONDS", 0.01)

    response = post(f"{opened(job)}?wait=5")

    assert (response.status_code, response.json()["status"]) == (200, "succeeded")


def test_page_shows_a_new_address_once(web, owner, job):
    page = web.post(f"/jobs/{job.public_id}/trigger/", {"scheme": ""}, follow=True)
    url = page.text.partition('id="trigger-url">')[2].partition("<")[0]

    assert post("/trigger/" + url.rpartition("/")[2]).status_code == 202
    assert page["Cache-Control"] == "no-store"
    assert url not in web.get(f"/jobs/{job.public_id}/?tab=trigger").text
    web.post(f"/jobs/{job.public_id}/trigger/close/")
    assert not TriggerAddress.objects.exists()
