"""The tasks Cronty ships, against real servers and real processes."""

import asyncio
import hashlib
import hmac
import json
import os
import signal
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psutil
import pytest

from schedules.tasks import builtin, registry
from schedules.tasks.registry import WAITING, Final, RetryLater, Run
from tests.sink import Answer, Sink

pytest_plugins = ["tests.ntfy"]

RUN = Run(
    execution_id=42,
    key="execution-42",
    job_id="job_17_1738764000",
    job_name="Water the plants",
    attempt=1,
    scheduled_for=datetime(2026, 2, 4, 9, tzinfo=UTC),
    owner_id=1,
    signing_key="owner's key",
    timeout=10.0,
)
VIEW = {"action": "view", "label": "Open", "url": "https://example.com/plants"}
HTTP = {
    "action": "http",
    "label": "Done",
    "url": "https://example.com/done",
    "method": "PUT",
    "headers": {"X-Key": "k"},
    "body": "ok",
    "clear": True,
}
BROADCAST = {"action": "broadcast", "label": "Photo", "intent": "cam.SHOOT", "extras": {"lens": "wide"}}


@pytest.fixture
def sink(settings):
    """A stand-in for the other side, allowed by the operator and used as the ntfy server too."""
    with Sink() as server:
        settings.CRONTY_OUTBOUND_ALLOW = ["127.0.0.1"]
        settings.NTFY_URL = server.url("")
        settings.NTFY_TOKEN = ""
        yield server


def perform(name, run=RUN, **kwargs):
    """Run a task as a worker does: by name, checked, with its run."""
    return asyncio.run(registry.get(name).call(run, [], kwargs))


def problems(name, **kwargs):
    return registry.get(name).check([], kwargs)


def test_shipped_tasks_are_registered_like_anybodys():
    limits = {
        found.name: (found.attempts, found.timeout) for found in registry.all_tasks(include_system=True)
    }

    assert limits["notify"] == (5, timedelta(seconds=60))
    assert limits["webhook"] == (3, timedelta(seconds=60))
    assert limits["prompt"] == (1, timedelta(minutes=10))
    assert limits["prune_history"] == (1, timedelta(minutes=5))
    assert {"notify", "webhook", "prompt"} <= set(registry.names())
    assert not {"prune_history", "check_cluster"} & set(registry.names())


def test_notification_arrives_at_a_real_server_with_every_field(ntfy, settings):
    settings.NTFY_URL, settings.NTFY_TOKEN = ntfy.url, ""

    result = perform(
        "notify",
        message='Water 🌵\nand feed 🐟 "now"',
        topic="plants_1-A",
        title="Gärtner 🌱",
        priority=4,
        tags=["warning", "seedling", "garden"],
        markdown=True,
        click="https://example.com/plants",
        icon="https://example.com/icon.png",
        attach="https://example.com/photo.jpg",
        filename="photo.jpg",
        actions=[VIEW, HTTP, BROADCAST],
    )

    (message,) = ntfy.messages("plants_1-A")
    assert result == {"id": message["id"], "topic": "plants_1-A", "server": "127.0.0.1"}
    assert message["message"] == 'Water 🌵\nand feed 🐟 "now"'
    assert message["title"] == "Gärtner 🌱"
    assert message["priority"] == 4
    assert message["tags"] == ["warning", "seedling", "garden"]
    assert message["content_type"] == "text/markdown"
    assert message["click"] == "https://example.com/plants"
    assert message["icon"] == "https://example.com/icon.png"
    assert message["attachment"] == {"name": "photo.jpg", "url": "https://example.com/photo.jpg"}
    kept = [
        {key: action[key] for key in sent}
        for sent, action in zip([VIEW, HTTP, BROADCAST], message["actions"], strict=True)
    ]
    assert kept == [VIEW, HTTP, BROADCAST]


def test_plain_notification_has_nothing_that_was_not_asked_for(ntfy, settings):
    settings.NTFY_URL, settings.NTFY_TOKEN = ntfy.url + "/", ""

    perform("notify", message="Hello", topic="plain")

    (message,) = ntfy.messages("plain")
    assert set(message) == {"id", "time", "expires", "event", "topic", "message"}


@pytest.mark.parametrize(
    "message",
    ["x" * 5000, "x" * 4096, "🌵" * 2000, "a\n" * 3000, '"' * 9000, "\x01" * 4000],
    ids=["ascii", "one too many", "emoji", "line breaks", "quotes", "control characters"],
)
def test_long_notification_is_shortened_and_still_a_message(message, ntfy, settings, request):
    settings.NTFY_URL, settings.NTFY_TOKEN = ntfy.url, ""
    topic = f"long-{request.node.callspec.id.replace(' ', '-')}"

    perform("notify", message=message, topic=topic)

    (arrived,) = ntfy.messages(topic)
    assert "attachment" not in arrived
    assert len(arrived["message"].encode()) <= 4096
    text = arrived["message"].removesuffix("… (shortened)")
    assert text
    assert message.startswith(text)


def test_message_of_exactly_the_limit_is_left_alone(sink):
    perform("notify", message="x" * 4095, topic="plants")

    assert json.loads(sink.requests[0].body)["message"] == "x" * 4095


def test_token_opens_a_closed_server(start_ntfy, settings):
    with start_ntfy(auth_default_access="deny-all") as closed:
        settings.NTFY_URL = closed.url
        settings.NTFY_TOKEN = ""
        with pytest.raises(Final, match="answered 403: forbidden"):
            perform("notify", message="Hello", topic="secret")
        settings.NTFY_TOKEN = "tk_wrong"
        with pytest.raises(Final, match="answered 401: unauthorized"):
            perform("notify", message="Hello", topic="secret")
        settings.NTFY_TOKEN = closed.token
        perform("notify", message="Hello", topic="secret")

        assert [message["message"] for message in closed.messages("secret")] == ["Hello"]


def test_busy_server_is_retried_after_five_seconds_or_more(start_ntfy, settings):
    limits = {"visitor_request_limit_exempt_hosts": "", "visitor_request_limit_burst": 1}
    with start_ntfy(**limits) as busy:
        settings.NTFY_URL, settings.NTFY_TOKEN = busy.url, ""
        with pytest.raises(RetryLater, match="answered 429: limit reached") as caught:
            asyncio.run(notify_many(5))

    assert timedelta(seconds=5) <= caught.value.after <= timedelta(seconds=10)


async def notify_many(count):
    await asyncio.gather(*(builtin.notify("Hello", "busy", run=RUN) for _ in range(count)))


def test_busy_server_is_left_alone_for_longer_with_each_attempt(sink):
    sink.default = Answer(status=429)

    with pytest.raises(RetryLater) as caught:
        perform("notify", replace(RUN, attempt=4), message="Hello", topic="busy")

    assert timedelta(seconds=40) <= caught.value.after <= timedelta(seconds=80)


def test_refusal_of_a_real_server_is_final_and_quotes_it(ntfy, settings):
    settings.NTFY_URL, settings.NTFY_TOKEN = ntfy.url, ""
    many_headers = HTTP | {"headers": {f"X-{number}": "k" * 100 for number in range(80)}}

    with pytest.raises(Final, match=r"answered 4\d\d: .*too large"):
        perform("notify", message="Hello", topic="plants", actions=[many_headers])


@pytest.mark.parametrize("status", [500, 502, 503])
def test_failing_server_is_retried(status, sink):
    sink.default = Answer(status=status, body=b"<html>Oh no")

    with pytest.raises(RetryLater, match=f"answered {status}: <html>Oh no") as caught:
        perform("notify", message="Hello", topic="plants")

    assert caught.value.after is None


def test_server_that_is_away_is_retried(settings):
    with Sink() as gone:
        settings.NTFY_URL = gone.url("")

    with pytest.raises(RetryLater):
        perform("notify", message="Hello", topic="plants")


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b"[" * 60_000], ids=["empty", "list", "broken", "deep"])
def test_strange_success_has_no_message_id(body, sink):
    sink.default = Answer(body=body)

    assert perform("notify", message="Hello", topic="plants") == {
        "id": None,
        "topic": "plants",
        "server": "127.0.0.1",
    }


def test_ntfy_server_of_the_operator_needs_no_other_permission(sink, settings):
    settings.CRONTY_OUTBOUND_ALLOW = []

    perform("notify", message="Hello", topic="plants")

    assert len(sink.requests) == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"message": ""}, "message: must not be blank"),
        ({"topic": "no spaces"}, "topic: string should match pattern"),
        ({"topic": "x" * 65}, "topic: string should match pattern"),
        ({"topic": "plants\n"}, "topic: string should match pattern"),
        ({"priority": 0}, "priority: input should be greater than or equal to 1"),
        ({"priority": 6}, "priority: input should be less than or equal to 5"),
        ({"priority": "high"}, "priority: input should be a valid integer"),
        ({"tags": "warning"}, "tags: input should be a valid array"),
        ({"icon": "file:///etc/passwd"}, "icon: string should match pattern"),
        ({"attach": "photo.jpg"}, "attach: string should match pattern"),
        ({"actions": [VIEW] * 4}, "actions: list should have at most 3 items"),
        ({"actions": [{"action": "explode", "label": "x"}]}, "actions.0: "),
        ({"actions": [{"action": "view", "label": "x"}]}, "actions.0.view.url: required, but missing"),
        ({"actions": [VIEW | {"colour": "red"}]}, "actions.0.view.colour: extra inputs are not permitted"),
        ({"actions": [HTTP | {"method": "BREW"}]}, "actions.0.http.method: input should be 'GET'"),
        ({"colour": "red"}, "colour: unknown argument"),
    ],
)
def test_bad_notification_is_refused_before_it_is_scheduled(fields, words):
    (problem,) = problems("notify", **({"message": "Hello", "topic": "plants"} | fields))

    assert problem.startswith(words)


def test_webhook_is_signed_and_carries_the_execution(sink):
    sink.default = Answer(status=202, body=b"thanks")
    before = int(time.time())

    result = perform("webhook", replace(RUN, attempt=2), url=sink.url("/hook?a=1"), body={"text": "Grüße"})

    (received,) = sink.requests
    timestamp = received.headers["cronty-timestamp"]
    signature = hmac.new(
        b"owner's key", timestamp.encode() + b"." + received.body, hashlib.sha256
    ).hexdigest()
    assert result == {"status": 202, "body": "thanks"}
    assert (received.method, received.path) == ("POST", "/hook?a=1")
    assert json.loads(received.body) == {"text": "Grüße"}
    assert before <= int(timestamp) <= time.time()
    assert received.headers["cronty-signature"] == f"v1={signature}"
    assert received.headers["idempotency-key"] == "execution-42"
    assert received.headers["cronty-execution"] == "42"
    assert received.headers["cronty-attempt"] == "2"
    assert received.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("body", "sent", "content_type"),
    [
        (None, b"", None),
        ("plain ☃", "plain ☃".encode(), "text/plain; charset=utf-8"),
        ([1, None, True], b"[1, null, true]", "application/json"),
        (0, b"0", "application/json"),
        (False, b"false", "application/json"),
    ],
    ids=["nothing", "text", "list", "zero", "false"],
)
def test_webhook_sends_text_as_text_and_the_rest_as_json(body, sent, content_type, sink):
    perform("webhook", url=sink.url(), body=body)

    (received,) = sink.requests
    assert received.body == sent
    assert received.headers.get("content-type") == content_type


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"])
def test_webhook_uses_the_method(method, sink):
    assert perform("webhook", url=sink.url(), method=method)["status"] == 200
    assert sink.requests[0].method == method


def test_webhook_headers_are_sent_and_win_over_the_defaults(sink):
    headers = {"Content-Type": "application/xml", "Authorization": "Bearer t", "X-Team": "garden"}

    perform("webhook", url=sink.url(), body="<a/>", headers=headers)

    received = sink.requests[0].headers
    assert {name: received[name.lower()] for name in headers} == headers


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "internal"},
        {"Content-Length": "0"},
        {"Transfer-Encoding": "chunked"},
        {"Connection": "close"},
        {"Cookie": "a=b"},
        {"Cronty-Signature": "v1=0"},
        {"Idempotency-Key": "mine"},
        {"X-Forwarded-For": "127.0.0.1"},
        {"x-real-ip": "127.0.0.1"},
        {"X Team": "a"},
        {"X-Team:": "a"},
        {"X-Team\r\nHost": "a"},
        {"X-Team": "a\r\nHost: b"},
        {"X-Team": "a\nb"},
        {"X-Team": "☃"},
        {"X-Team": "a" * 2049},
        {"X-" + "a" * 63: "b"},
        {f"X-{number}": "a" for number in range(21)},
        {"X-Team": 7},
    ],
)
def test_webhook_header_that_could_do_harm_is_refused(headers):
    (problem,) = problems("webhook", url="https://example.com/", headers=headers)

    assert problem.startswith("headers")


@pytest.mark.parametrize(
    "url", ["ftp://example.com/", "http://127.0.0.1/", "http://a:b@example.com/", "nonsense"]
)
def test_webhook_url_is_checked_before_it_is_scheduled(url):
    (problem,) = problems("webhook", url=url)

    assert problem.startswith("url: ")


def test_webhook_to_a_private_name_is_final(monkeypatch):
    async def getaddrinfo(self, host, port, **options):
        return [(2, 1, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)

    with pytest.raises(Final, match="not a public address"):
        perform("webhook", url="http://evil.test/")


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        (None, None),
        ("120", 120),
        ("999999", 3600),
        ("soon", None),
        ("-1", None),
        ("٣", None),
        ("9" * 50, None),
    ],
)
@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_webhook_is_retried_when_the_receiver_asks_for_it(status, retry_after, seconds, sink):
    headers = {"Retry-After": retry_after.encode().decode("latin-1")} if retry_after else {}
    sink.default = Answer(status=status, headers=headers, body=b"busy")

    with pytest.raises(RetryLater, match=f"127.0.0.1 answered {status}: busy") as caught:
        perform("webhook", url=sink.url())

    assert caught.value.after == (None if seconds is None else timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(status=404, body=b"no such hook"), "answered 404: no such hook"),
        (Answer(status=400, body=b"x" * 500), f"answered 400: {'x' * 200}…"),
        (Answer(status=410), "answered 410"),
        (Answer.redirect("https://example.com/"), "answered 302: redirects are not followed"),
    ],
)
def test_webhook_that_is_refused_is_final(answer, words, sink):
    sink.default = answer

    with pytest.raises(Final) as caught:
        perform("webhook", url=sink.url())

    assert str(caught.value) == f"127.0.0.1 {words}"


def test_webhook_keeps_the_first_part_of_a_long_answer(sink):
    sink.default = Answer(body=b"x" * 100_000)

    assert perform("webhook", url=sink.url())["body"] == "x" * 2048 + "…"


def test_prompt_waits_for_an_agent_when_no_command_is_set(settings):
    settings.CRONTY_AGENT_COMMAND = []

    assert perform("prompt", prompt="Summarise my day") is WAITING


@pytest.mark.parametrize("prompt", ["", "x" * 16_385, "ä" * 8193])
def test_prompt_must_have_a_sensible_size(prompt):
    assert problems("prompt", prompt="ä" * 8192) == []
    assert len(problems("prompt", prompt=prompt)) == 1


@pytest.fixture
def agent_command(settings):
    """Set the agent command to a Python program."""

    def use(program: str, *arguments: object) -> None:
        settings.CRONTY_AGENT_COMMAND = [sys.executable, "-c", program, *map(str, arguments)]

    return use


def test_agent_command_gets_the_prompt_and_its_output_is_the_result(agent_command):
    agent_command("import sys; print('You said: ' + sys.stdin.read(), end='')")

    assert perform("prompt", prompt="Grüße 🌵; $(rm -rf /)\n") == "You said: Grüße 🌵; $(rm -rf /)\n"


def test_agent_command_sees_only_a_small_environment(agent_command, settings, monkeypatch):
    monkeypatch.setenv("CRONTY_SECRET_KEY", "hush")
    monkeypatch.delenv("LANG", raising=False)
    settings.CRONTY_URL = "https://cronty.example"
    agent_command("import json, os; print(json.dumps(dict(os.environ)))")

    environment = json.loads(perform("prompt", prompt="Hello"))

    assert {name: environment[name] for name in environment if name.startswith("CRONTY_")} == {
        "CRONTY_EXECUTION": "42",
        "CRONTY_JOB": "job_17_1738764000",
        "CRONTY_URL": "https://cronty.example",
    }
    assert set(environment) <= {"PATH", "HOME", "LC_CTYPE", "CRONTY_EXECUTION", "CRONTY_JOB", "CRONTY_URL"}


def test_agent_command_that_fails_shows_the_end_of_its_complaints(agent_command):
    agent_command("import sys; sys.stderr.write('noise ' * 10_000 + 'disk full'); sys.exit(3)")

    with pytest.raises(RetryLater, match=r"ended with code 3: .*disk full$") as caught:
        perform("prompt", prompt="Hello")

    assert len(str(caught.value)) < 2200


def test_agent_command_may_ignore_its_input(agent_command):
    agent_command("import os, sys; os.close(0); print('done')")

    assert perform("prompt", prompt="x" * 16_384) == "done\n"


def test_output_of_the_agent_command_is_bounded(agent_command):
    agent_command("import sys; sys.stdout.write('ä' * 5_000_000); sys.stderr.write('y' * 5_000_000)")

    output = perform("prompt", prompt="Hello")

    assert output.endswith("… (shortened)")
    assert len(output.encode()) <= 16_384


@pytest.mark.parametrize("command", ["/nonexistent/agent", "/etc"])
def test_agent_command_that_cannot_start_is_final(command, settings):
    settings.CRONTY_AGENT_COMMAND = [command]

    with pytest.raises(Final, match="cannot be started"):
        perform("prompt", prompt="Hello")


@pytest.fixture
def family_command(settings, tmp_path):
    """Set the agent command to one that starts a long-lived child, notes its number, and goes on for a while."""

    def use(*, child: str = "sleep 600", seconds: int) -> None:
        script = f"{child} & echo $! > {tmp_path}/child; echo started; sleep {seconds}"
        settings.CRONTY_AGENT_COMMAND = ["/bin/sh", "-c", script]

    return use


def ends(path):
    """Wait for the process whose number is in the file; False if it is still there after a while."""
    try:
        child = psutil.Process(int(path.read_text()))
        # Where nobody collects orphans, a dead one stays as a zombie.
        return child.status() == psutil.STATUS_ZOMBIE or child.wait(timeout=5) is None
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return child.status() == psutil.STATUS_ZOMBIE


def test_agent_command_that_takes_too_long_is_killed_with_its_children(family_command, tmp_path):
    family_command(seconds=600)

    with pytest.raises(RetryLater, match="did not finish within 1 s"):
        perform("prompt", replace(RUN, timeout=1.0), prompt="Hello")

    assert ends(tmp_path / "child")


def test_cancelled_agent_command_is_killed_with_its_children(family_command, tmp_path):
    family_command(seconds=600)

    async def scenario():
        running = asyncio.create_task(builtin.prompt("Hello", run=RUN))
        while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(scenario())

    assert ends(tmp_path / "child")


@pytest.mark.parametrize("turns", range(6))
def test_agent_command_can_be_cancelled_while_it_starts(turns, settings):
    settings.CRONTY_AGENT_COMMAND = ["/bin/sh", "-c", "sleep 600"]

    async def scenario():
        running = asyncio.create_task(builtin.prompt("Hello", run=RUN))
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        async with asyncio.timeout(20):
            with pytest.raises(asyncio.CancelledError):
                await running

    asyncio.run(scenario())

    assert not [child for child in psutil.Process().children() if "sleep 600" in " ".join(child.cmdline())]


def test_nothing_an_agent_started_outlives_its_run(family_command, tmp_path):
    family_command(child="sleep 600 > /dev/null 2>&1", seconds=0)

    assert perform("prompt", prompt="Hello") == "started\n"
    assert ends(tmp_path / "child")


def test_child_that_left_the_group_but_keeps_the_pipes_does_not_hold_a_good_run_up(family_command, tmp_path):
    family_command(child="setsid sleep 600", seconds=0)

    try:
        assert perform("prompt", prompt="Hello") == "started\n"
    finally:
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_child_that_left_the_group_but_keeps_the_pipes_does_not_hold_a_late_run_up(family_command, tmp_path):
    family_command(child="setsid sleep 600", seconds=600)

    try:
        with pytest.raises(RetryLater, match="did not finish"):
            perform("prompt", replace(RUN, timeout=0.5), prompt="Hello")
    finally:
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)
