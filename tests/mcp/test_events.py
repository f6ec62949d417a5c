"""MCP Events: an app lists events, proves its address, is told of what happens, renews, and ends it."""

import base64
import json
import ssl
from types import SimpleNamespace

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from cronty_site.asgi import build_application
from schedules import clock, engine
from schedules.channels import event_requests
from schedules.models import Event, EventSubscription, Execution, Job, Token
from schedules.models.event_subscriptions import GONE
from schedules.services import issue_token, revoke_token
from schedules.services.people import app_event_subscriptions
from schedules.services.people.connected_apps import connect_app
from schedules.services.people.event_subscriptions import (
    delete_subscription,
    list_subscriptions,
    switch_subscription,
)
from schedules.services.people.hourly_limits import HourlyLimit
from schedules.tasks.outbound import connections
from tests.factories import ClusterFactory, JobFactory
from tests.mcp.over_http import ADDRESS, browser, running
from tests.receivers import deliver, is_genuine, person, sent
from tests.sink import Answer, Sink
from tests.tasks.outbound.conftest import names
from tests.tasks.outbound.test_connections import certificate

__all__ = ["certificate", "names"]

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = f"whsec_{base64.b64encode(b'k' * 32).decode()}"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "app", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture(autouse=True)
def switched_on(settings, monkeypatch):
    settings.CRONTY_MCP_EVENTS = True
    monkeypatch.setattr(app_event_subscriptions, "_challenges", HourlyLimit(1000))


@pytest.fixture
def token(owner):
    return issue_token(owner, name="ChatGPT").value


@pytest.fixture
def app(certificate, settings, names, monkeypatch):
    """The receiver of an app, which answers challenges as it should."""
    settings.CRONTY_OUTBOUND_ALLOW = ["127.0.0.1"]
    names["service.test"] = [["127.0.0.1"]]
    monkeypatch.setattr(connections, "_ssl_context", lambda: ssl.create_default_context(cafile=certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with Sink(tls=context) as sink:
        sink.respond = echo
        yield sink


def echo(received):
    body = json.loads(received.body)
    answer = {"challenge": body["challenge"]} if body.get("type") == "verification" else {}
    return Answer(body=json.dumps(answer).encode())


def ask(token, method, params=None, era="modern"):
    """Send one request, and return its result or its error."""
    params = dict(params or {})
    headers = {"Accept": "application/json, text/event-stream"}
    if era == "modern":
        params["_meta"] = META
        headers |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    else:
        headers["MCP-Protocol-Version"] = "2025-11-25"
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}

    async def send():
        async with running(build_application()) as site, browser(site, token.text) as http:
            return await http.post(ADDRESS, json=request, headers=headers)

    answer = async_to_sync(send)()
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
    answered = json.loads(lines[-1] if lines else answer.text)
    return answered.get("result") or answered["error"]


def wanted(app, name="prompt.due", path="/hook", secret=SECRET, **more):
    url = app.url(path, host="service.test", scheme="https")
    return {"name": name, "delivery": {"mode": "webhook", "url": url, "secret": secret}, **more}


def test_events_are_listed_and_advertised_in_both_eras(token, era):
    listed = ask(token, "events/list", era=era)

    names = [each["name"] for each in listed["events"]]
    assert "prompt.due" in names
    assert "approval.requested" in names
    assert all(each["delivery"] == ["webhook"] for each in listed["events"])
    assert all(
        each["inputSchema"]["type"] == each["payloadSchema"]["type"] == "object" for each in listed["events"]
    )
    if era == "modern":
        capabilities = ask(token, "server/discover")["capabilities"]
    else:
        client = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "a", "version": "1"},
        }
        capabilities = ask(token, "initialize", client, era=era)["capabilities"]
    assert capabilities["events"] == {}
    assert capabilities["tools"]


def test_without_the_setting_there_are_no_events(token, settings):
    settings.CRONTY_MCP_EVENTS = False

    assert ask(token, "events/list")["code"] == -32601
    assert "events" not in ask(token, "server/discover")["capabilities"]


def test_app_is_told_of_a_due_prompt_as_the_draft_says(token, owner, app, era):
    subscribed = ask(token, "events/subscribe", wanted(app), era=era)
    (challenge,) = app.requests
    assert subscribed["id"].startswith("sub_")
    assert subscribed["refreshBefore"].endswith("Z")
    assert (subscribed["cursor"], subscribed["truncated"]) == (None, False)
    assert is_genuine(challenge, SECRET)
    assert challenge.headers["x-mcp-subscription-id"] == subscribed["id"]

    job = JobFactory(owner=owner, task="prompt", kwargs={"prompt": "Read my inbox"}, name="Inbox")
    row = Execution.of(job, clock.now(), status="running")
    row.save()
    engine.event_deliveries.publish_prompts(
        [engine.Outcome(row.pk, 1, job.pk, Execution.Status.WAITING, clock.now())], clock.now()
    )
    deliver(ClusterFactory())

    event = app.requests[1]
    assert is_genuine(event, SECRET)
    assert event.headers["x-mcp-subscription-id"] == subscribed["id"]
    body = sent(event)
    assert set(body) == {"eventId", "name", "timestamp", "data", "cursor"}
    assert body["eventId"] == event.headers["webhook-id"]
    assert (body["name"], body["data"]["job"]["name"], body["cursor"]) == ("prompt.due", "Inbox", None)
    assert len(event.body) < event_requests.LONGEST_BODY


def test_same_request_renews_and_another_secret_is_taken_over(token, app):
    first = ask(token, "events/subscribe", wanted(app, ttlMs=7_200_000))
    new = f"whsec_{base64.b64encode(b'n' * 24).decode()}"

    second = ask(token, "events/subscribe", wanted(app, secret=new, ttlMs=86_400_000))

    assert first["id"] == second["id"]
    assert first["refreshBefore"] < second["refreshBefore"]
    assert len(app.requests) == 1
    row = EventSubscription.objects.get()
    assert event_requests.signing_secrets(row, clock.now()) == (new, SECRET)


def test_other_arguments_are_another_subscription(token, owner, app):
    JobFactory(owner=owner, name="Inbox")
    one = ask(token, "events/subscribe", wanted(app))
    two = ask(token, "events/subscribe", wanted(app, arguments={"job": "Inbox"}))

    assert one["id"] != two["id"]
    assert {row.only_job and row.only_job.name for row in EventSubscription.objects.all()} == {None, "Inbox"}


def test_app_ends_its_subscription(token, app):
    ask(token, "events/subscribe", wanted(app))
    request = wanted(app)
    del request["delivery"]["secret"]

    assert not set(ask(token, "events/unsubscribe", request) or {}) & {"code", "message"}
    assert not EventSubscription.objects.exists()
    again = ask(token, "events/unsubscribe", request)
    assert (again["code"], again["data"]) == (-32011, {"kind": "subscription"})


WRONG_ECHOES = {
    "another text": Answer(body=b'{"challenge": "guess"}'),
    "no JSON": Answer(body=b"ok"),
    "a list": Answer(body=b"[]"),
    "nested deeply": Answer(body=b"[" * 4000),
    "an error": Answer(status=500),
    "a redirect": Answer.redirect("https://service.test/elsewhere"),
    "a flood": Answer(body=b"x" * 3_000_000),
}


@pytest.mark.parametrize("answer", WRONG_ECHOES.values(), ids=WRONG_ECHOES)
def test_wrong_answer_to_the_challenge_is_refused(token, app, answer):
    app.respond, app.default = None, answer

    refused = ask(token, "events/subscribe", wanted(app))

    assert refused["code"] == -32015
    assert refused["data"]["reason"] in ("challenge_failed", "http_5xx", "http_3xx")
    assert not EventSubscription.objects.exists()
    assert not Job.objects.exists()


def test_receiver_that_hangs_at_the_challenge_is_given_up(token, app, monkeypatch):
    monkeypatch.setattr(event_requests, "TIMEOUT_SECONDS", 0.3)
    app.respond, app.default = None, Answer(manner="hang")

    refused = ask(token, "events/subscribe", wanted(app))

    assert (refused["code"], refused["data"]["reason"]) == (-32015, "timeout")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"name": "run.exploded"}, -32011),
        ({"name": 7}, -32602),
        ({"delivery": None}, -32602),
        ({"delivery": {"mode": "push"}}, -32014),
        ({"arguments": {"color": "red"}}, -32602),
        ({"arguments": {"job": "no such job"}}, -32602),
        ({"arguments": ["job"]}, -32602),
        ({"ttlMs": -1}, -32602),
        ({"ttlMs": True}, -32602),
        ({"secret": "whsec_short"}, -32602),
        ({"secret": "whsec_" + base64.b64encode(b"k" * 23).decode()}, -32602),
        ({"secret": "whsec_" + base64.b64encode(b"k" * 65).decode()}, -32602),
        ({"url": "http://service.test/"}, -32602),
        ({"url": "https://10.0.0.1/"}, -32602),
        ({"url": "https://localhost/"}, -32602),
        ({"url": "x" * 5000}, -32602),
    ],
)
def test_mistakes_are_protocol_errors_and_store_nothing(token, app, settings, change, code):
    settings.CRONTY_OUTBOUND_ALLOW = []
    request = wanted(app)
    for name, value in change.items():
        if name in ("secret", "url"):
            request["delivery"][name] = value
        else:
            request[name] = value

    refused = ask(token, "events/subscribe", request)

    assert refused["code"] == code
    assert not EventSubscription.objects.exists()
    assert app.requests == []


def test_private_address_is_refused_at_the_challenge(token, app, settings):
    settings.CRONTY_OUTBOUND_ALLOW = []

    refused = ask(token, "events/subscribe", wanted(app))

    assert refused["code"] == -32015
    assert app.requests == []


def test_app_hears_nothing_after_its_access_was_revoked(token, owner, app):
    ask(token, "events/subscribe", wanted(app, name="run.failed"))
    job = JobFactory(owner=owner)
    revoke_token(owner, Token.objects.get().pk)

    engine.event_deliveries.publish(
        [engine.event_deliveries.Happening(engine.event_deliveries.EventType.RUN_FAILED, job.pk)], clock.now()
    )
    deliver(ClusterFactory())

    assert len(app.requests) == 1


def test_token_for_prompts_hears_of_prompts_only(owner, app):
    narrow = issue_token(owner, name="inbox", families=["prompts"]).value

    listed = [each["name"] for each in ask(narrow, "events/list")["events"]]
    refused = ask(narrow, "events/subscribe", wanted(app, name="run.failed"))

    assert listed == ["prompt.due"]
    assert refused["code"] == -32012
    assert ask(narrow, "events/subscribe", wanted(app))["id"]


def test_people_see_and_end_what_apps_have_subscribed_to(token, owner, app):
    subscribed = ask(token, "events/subscribe", wanted(app))

    (row,) = list_subscriptions(person(owner))
    assert (row.kind, row.token.name, row.name) == ("mcp", "ChatGPT", "service.test prompt.due")
    delete_subscription(person(owner), subscribed["id"])
    assert not EventSubscription.objects.exists()


def test_what_a_person_has_switched_off_stays_off(token, owner, app):
    subscribed = ask(token, "events/subscribe", wanted(app))
    switch_subscription(person(owner), subscribed["id"], is_on=False)

    refused = ask(token, "events/subscribe", wanted(app))
    ask(token, "events/unsubscribe", wanted(app))
    again = ask(token, "events/subscribe", wanted(app))
    engine.prune_history()
    last = ask(token, "events/subscribe", wanted(app))

    words = "A person has switched off service.test prompt.due, and only a person can switch it on again."
    assert [(each["code"], each["message"]) for each in (refused, again, last)] == [(-32012, words)] * 3
    assert not EventSubscription.objects.get().is_on
    switch_subscription(person(owner), subscribed["id"], is_on=True)
    assert "id" in ask(token, "events/subscribe", wanted(app))


def give_up(job, reason):
    with transaction.atomic():
        engine.pause(job, clock.now(), reason)


@pytest.mark.parametrize("reason", ["Paused after 5 failures in a row.", GONE])
def test_renewal_switches_on_what_was_given_up_but_not_what_a_person_then_switched_off(
    token, owner, app, reason
):
    subscribed = ask(token, "events/subscribe", wanted(app))
    row = EventSubscription.objects.get()
    give_up(row.job, reason)

    ask(token, "events/subscribe", wanted(app))
    is_on = EventSubscription.objects.get().is_on
    row.job.refresh_from_db()
    give_up(row.job, reason)
    switch_subscription(person(owner), subscribed["id"], is_on=False)
    refused = ask(token, "events/subscribe", wanted(app))

    assert is_on
    assert refused["code"] == -32012


def test_narrower_consent_ends_what_it_does_not_allow(token, owner, app):
    Token.objects.update(oauth_client=7)
    for name in ("run.failed", "prompt.due"):
        ask(token, "events/subscribe", wanted(app, name=name))

    connect_app(owner, SimpleNamespace(pk=7, name="ChatGPT"), scopes=["read", "write"], families=["prompts"])
    left = list(EventSubscription.objects.values_list("name", flat=True))
    connect_app(owner, SimpleNamespace(pk=7, name="ChatGPT"), scopes=["write"], families=["prompts"])

    assert left == ["service.test prompt.due"]
    assert not EventSubscription.objects.exists()
    assert Event.objects.filter(verb="delete receiver", door="web").count() == 2
    assert Job.objects.filter(deleted_at=None).count() == 0


def test_only_so_many_subscriptions(token, app, monkeypatch):
    monkeypatch.setattr(app_event_subscriptions, "MAX_SUBSCRIPTIONS", 2)
    for path in ("/1", "/2"):
        assert "id" in ask(token, "events/subscribe", wanted(app, path=path))

    refused = ask(token, "events/subscribe", wanted(app, path="/3"))

    assert (refused["code"], refused["data"]) == (-32013, {"limit": "subscriptions", "max": 2})


def test_challenges_are_limited(token, app, monkeypatch):
    monkeypatch.setattr(app_event_subscriptions, "_challenges", HourlyLimit(1))
    ask(token, "events/subscribe", wanted(app, path="/1"))

    refused = ask(token, "events/subscribe", wanted(app, path="/2", name="run.failed"))

    assert refused["code"] == -32013
    assert len(app.requests) == 1
