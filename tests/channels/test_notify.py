"""The task notify, against a real ntfy server and a recording one."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta

import pytest

from schedules.channels.notify import notify
from schedules.tasks.interface import Final, RetryLater
from tests.sink import Answer, Sink
from tests.tasks.builtin.conftest import RUN, perform, problems

pytest_plugins = ["tests.ntfy"]


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


def test_plain_notification_has_no_extra_fields(ntfy, settings):
    settings.NTFY_URL, settings.NTFY_TOKEN = ntfy.url + "/", ""

    perform("notify", message="Hello", topic="plain")

    (message,) = ntfy.messages("plain")
    assert set(message) == {"id", "time", "expires", "event", "topic", "message"}


@pytest.mark.parametrize(
    "message",
    ["x" * 5000, "x" * 4096, "🌵" * 2000, "a\n" * 3000, '"' * 9000, "\x01" * 4000],
    ids=["ascii", "one too many", "emoji", "line breaks", "quotes", "control characters"],
)
def test_long_notification_is_shortened_instead_of_attached(message, ntfy, settings, request):
    settings.NTFY_URL, settings.NTFY_TOKEN = ntfy.url, ""
    topic = f"long-{request.node.callspec.id.replace(' ', '-')}"

    perform("notify", message=message, topic=topic)

    (arrived,) = ntfy.messages(topic)
    assert "attachment" not in arrived
    assert len(arrived["message"].encode()) <= 4096
    text = arrived["message"].removesuffix("… (shortened)")
    assert text
    assert message.startswith(text)


@pytest.mark.parametrize("message", ["x" * 4095, '"' * 4095, "ü" * 2000], ids=["ascii", "quotes", "umlauts"])
def test_message_beside_long_links_fills_the_room_that_is_left(message, sink, ntfy, settings):
    link = f"https://example.com/{'x' * 2000}"
    given = {"message": message, "topic": "plants", "click": link, "icon": link, "attach": link}

    perform("notify", **given)
    settings.NTFY_URL = ntfy.url
    perform("notify", **given)

    assert 8188 <= len(sink.requests[0].body) <= 8191


def test_name_of_a_file_is_sent_only_with_a_file(ntfy, settings):
    settings.NTFY_URL, settings.NTFY_TOKEN = ntfy.url, ""

    perform("notify", message="Hello", topic="nofile", filename="a.pdf")

    assert [message["message"] for message in ntfy.messages("nofile")] == ["Hello"]


def test_message_of_exactly_the_limit_is_unchanged(sink):
    perform("notify", message="x" * 4095, topic="plants")

    assert json.loads(sink.requests[0].body)["message"] == "x" * 4095


def test_token_is_accepted_by_a_protected_server(start_ntfy, settings):
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
    await asyncio.gather(*(notify("Hello", "busy", run=RUN) for _ in range(count)))


def test_delay_for_a_busy_server_grows_with_each_attempt(sink):
    sink.default = Answer(status=429)

    with pytest.raises(RetryLater) as caught:
        perform("notify", replace(RUN, attempt=4), message="Hello", topic="busy")

    assert timedelta(seconds=40) <= caught.value.after <= timedelta(seconds=80)


def test_busy_server_is_not_asked_again_before_it_says(sink):
    sink.default = Answer(status=429, headers={"Retry-After": "600"})

    with pytest.raises(RetryLater) as caught:
        perform("notify", message="Hello", topic="busy")

    assert caught.value.after == timedelta(seconds=600)


def test_refusal_by_a_real_server_is_final_and_quoted(ntfy, settings):
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


def test_unreachable_server_is_retried(settings):
    with Sink() as gone:
        settings.NTFY_URL = gone.url("")

    with pytest.raises(RetryLater):
        perform("notify", message="Hello", topic="plants")


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b"[" * 60_000], ids=["empty", "list", "broken", "deep"])
def test_success_that_is_not_that_of_an_ntfy_server_is_not_retried(body, sink):
    sink.default = Answer(body=body)

    with pytest.raises(Final, match="answered 200, but not as an ntfy server does: check NTFY_URL"):
        perform("notify", message="Hello", topic="plants")


def test_message_is_not_sent_again_because_the_answer_broke_off(sink):
    sink.default = Answer(manner="cut", body=b'{"id": "ab')

    assert perform("notify", message="Hello", topic="plants")["id"] is None


def test_redirect_of_the_ntfy_server_says_what_to_set(sink):
    sink.default = Answer.redirect("https://ntfy.example/", status=301)

    with pytest.raises(Final) as caught:
        perform("notify", message="Hello", topic="plants")

    assert str(caught.value) == (
        "127.0.0.1 answered 301: redirects are not followed; set NTFY_URL to the final address: https://ntfy.example/"
    )
    assert caught.value.server_message == "https://ntfy.example/"


def test_configured_ntfy_server_needs_no_outbound_permission(sink, settings):
    settings.CRONTY_OUTBOUND_ALLOW = []

    perform("notify", message="Hello", topic="plants")

    assert len(sink.requests) == 1


def test_invalid_notification_is_refused_before_it_is_scheduled():
    for fields, words in [
        ({"message": ""}, "message: must not be blank"),
        ({"topic": "no spaces"}, "topic: topics can't contain spaces."),
        ({"topic": "x" * 65}, "topic: topics can't be longer than 64 characters."),
        ({"topic": "plants\n"}, "topic: topics can't contain line breaks."),
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
        ({"actions": [HTTP | {"method": "GET", "body": "x"}]}, "actions.0: a request with GET has no body"),
        ({"topic": None}, "topic: enter a topic or a channel."),
        ({"channel": "phone"}, "channel: give a topic or a channel, not both"),
        ({"topic": "docs"}, "topic: ntfy reserves this name. Choose another."),
        ({"colour": "red"}, "colour: unknown argument"),
    ]:
        (problem,) = problems("notify", **({"message": "Hello", "topic": "plants"} | fields))

        assert problem.startswith(words)
