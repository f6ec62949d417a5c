"""The exact request of each service, and what becomes of its answers, against a server on loopback."""

import asyncio
import json
from dataclasses import replace

import pytest

from schedules.channels import push
from schedules.channels.catalog import KINDS
from schedules.channels.message import Message, count_units, fit, text_with_links
from schedules.channels.sending import send
from schedules.tasks.interface import Final, RetryLater
from tests.sink import Answer
from tests.site.smtp import MailSink
from tests.tasks.builtin.conftest import RUN

MESSAGE = Message(
    "Water <the> plants & *me* 🌵",
    title="Garden",
    priority=5,
    tags=["seedling"],
    click="https://example.com/plants",
    actions=[
        {"action": "view", "label": "Photos", "url": "https://example.com/photos"},
        {"action": "http", "label": "Done", "url": "https://example.com/done"},
    ],
    key="execution-42",
)
TOKEN = "123456:AAbbCCdd-eeFFgg"
LINKS = "Open: https://example.com/plants\nPhotos: https://example.com/photos"


def deliver(kind, values, message=MESSAGE, run=RUN):
    return asyncio.run(send(KINDS[kind], values, message, run))


@pytest.fixture
def values(sink, monkeypatch):
    """What a person fills in for each kind, all at the server on loopback."""
    monkeypatch.setattr(push, "PUSHOVER_SERVER", sink.url(""))
    server = sink.url("")
    return {
        "ntfy": {"topic": "plants", "server": server, "token": "tk_secret"},
        "telegram": {"token": TOKEN, "chat": "-1001", "server": server},
        "slack": {"webhook": sink.url("/services/T0/B0/verysecret")},
        "discord": {"webhook": sink.url("/api/webhooks/17/very-secret")},
        "gotify": {"server": f"{server}/", "token": "Asecret-token"},
        "pushover": {"user": "u" * 30, "token": "t" * 30, "device": "phone"},
        "matrix": {"server": server, "room": "!abc:example.org", "token": "syt_secret"},
    }


ANSWERS = {
    "ntfy": {"id": "n1"},
    "telegram": {"ok": True, "result": {"message_id": 7}},
    "slack": None,
    "discord": {"id": "99"},
    "gotify": {"id": 3},
    "pushover": {"status": 1, "request": "r1"},
    "matrix": {"event_id": "$e"},
}
HTTP_KINDS = list(ANSWERS)


def answer_of(kind):
    return Answer(body=b"ok" if kind == "slack" else json.dumps(ANSWERS[kind]).encode())


REQUESTS = {
    "ntfy": (
        "POST",
        "/",
        {"authorization": "Bearer tk_secret"},
        {
            "topic": "plants",
            "title": "Garden",
            "message": MESSAGE.text,
            "priority": 5,
            "tags": ["seedling"],
            "click": MESSAGE.click,
            "actions": list(MESSAGE.actions),
        },
    ),
    "telegram": (
        "POST",
        f"/bot{TOKEN}/sendMessage",
        {},
        {
            "chat_id": "-1001",
            "text": f"Garden\n\n{MESSAGE.text}\n\n{LINKS}",
            "entities": [{"type": "bold", "offset": 0, "length": 6}],
            "disable_notification": False,
            "link_preview_options": {"is_disabled": True},
        },
    ),
    "slack": (
        "POST",
        "/services/T0/B0/verysecret",
        {},
        {
            "text": "*Garden*\nWater &lt;the&gt; plants &amp; *me* 🌵\n"
            "<https://example.com/plants|Open>\n<https://example.com/photos|Photos>",
            "unfurl_links": False,
        },
    ),
    "discord": (
        "POST",
        "/api/webhooks/17/very-secret?wait=true",
        {},
        {
            "embeds": [
                {
                    "title": "Garden",
                    "description": f"{MESSAGE.text}\n\n{LINKS}",
                    "color": 0xD03B3B,
                    "url": MESSAGE.click,
                }
            ],
            "allowed_mentions": {"parse": []},
        },
    ),
    "gotify": (
        "POST",
        "/message",
        {"x-gotify-key": "Asecret-token"},
        {
            "title": "Garden",
            "message": f"{MESSAGE.text}\n\n{LINKS}",
            "priority": 10,
            "extras": {
                "client::display": {"contentType": "text/plain"},
                "client::notification": {"click": {"url": MESSAGE.click}},
            },
        },
    ),
    "pushover": (
        "POST",
        "/1/messages.json",
        {},
        {
            "token": "t" * 30,
            "user": "u" * 30,
            "device": "phone",
            "title": "Garden",
            "message": MESSAGE.text,
            "priority": 1,
            "url": MESSAGE.click,
            "url_title": "Open",
        },
    ),
    "matrix": (
        "PUT",
        "/_matrix/client/v3/rooms/%21abc%3Aexample.org/send/m.room.message/execution-42",
        {"authorization": "Bearer syt_secret"},
        {
            "msgtype": "m.text",
            "body": f"Garden\n\n{MESSAGE.text}\n\n{LINKS}",
            "format": "org.matrix.custom.html",
            "formatted_body": "<strong>Garden</strong><br>Water &lt;the&gt; plants &amp; *me* 🌵"
            '<br><a href="https://example.com/plants">Open</a>'
            '<br><a href="https://example.com/photos">Photos</a>',
        },
    ),
}


@pytest.mark.parametrize("kind", HTTP_KINDS)
def test_service_gets_the_request_that_it_documents(kind, values, sink):
    sink.then(answer_of(kind))

    receipt = deliver(kind, values[kind])

    (request,) = sink.requests
    method, path, headers, body = REQUESTS[kind]
    assert (request.method, request.path) == (method, path)
    assert headers.items() <= request.headers.items()
    assert request.headers["content-type"] == "application/json"
    assert json.loads(request.body) == body
    assert receipt["server"] == "127.0.0.1"


def test_shortest_message_is_complete(values, sink):
    for kind in HTTP_KINDS:
        sink.then(answer_of(kind))

        deliver(kind, values[kind], Message("Hello", key="k"))

        assert b"Hello" in sink.requests[-1].body
        assert b"null" not in sink.requests[-1].body


@pytest.mark.parametrize("kind", HTTP_KINDS)
def test_refusal_is_final_and_says_why_without_secrets(kind, values, sink):
    secrets = [values[kind][field.name] for field in KINDS[kind].fields if field.is_secret]
    said = json.dumps({"description": f"chat not found for {' '.join(secrets)}"}).encode()
    sink.then(Answer(status=400, body=said))

    with pytest.raises(Final, match=r"127\.0\.0\.1 answered 400: chat not found") as refused:
        deliver(kind, values[kind])

    assert not any(secret in str(refused.value) for secret in secrets)


@pytest.mark.parametrize("kind", ["telegram", "ntfy"])
def test_redirect_is_not_followed(kind, values, sink):
    sink.then(Answer.redirect(sink.url("/elsewhere"), 307))

    with pytest.raises(Final, match="redirects are not followed"):
        deliver(kind, values[kind])

    assert len(sink.requests) == 1


@pytest.mark.parametrize(("kind", "manner"), [("telegram", "endless"), ("ntfy", "drip")])
def test_flood_is_cut_off_and_the_message_not_repeated(kind, manner, values, sink, settings):
    settings.CRONTY_OUTBOUND_TIMEOUT = 2
    sink.then(Answer(manner=manner))

    deliver(kind, values[kind])

    assert len(sink.requests) == 1


@pytest.mark.parametrize("kind", sorted(set(HTTP_KINDS) - {"slack"}))
def test_success_of_another_kind_of_server_is_no_success(kind, values, sink):
    sink.then(Answer(body=b"<html>Welcome"))

    with pytest.raises(Final, match="but not as a"):
        deliver(kind, values[kind])


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        ("telegram", {"parameters": {"retry_after": 120}}),
        ("discord", {"retry_after": 120.5, "global": False}),
        ("matrix", {"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 120_500}),
    ],
)
def test_busy_service_is_left_alone_as_long_as_it_asks(kind, asked, values, sink):
    sink.then(Answer(status=429, body=json.dumps(asked).encode()))

    with pytest.raises(RetryLater) as busy:
        deliver(kind, values[kind])

    assert busy.value.after.total_seconds() >= 120


@pytest.mark.parametrize("kind", HTTP_KINDS)
def test_private_server_is_refused_unless_the_operator_allows_it(kind, values, settings, sink):
    settings.CRONTY_OUTBOUND_ALLOW, settings.NTFY_URL = [], "https://ntfy.sh"

    with pytest.raises(Final):
        deliver(kind, values[kind])

    assert not sink.requests


def test_value_that_cannot_be_right_is_refused():
    for kind, field, value in [
        ("telegram", "token", "not a token"),
        ("telegram", "chat", "alice"),
        ("telegram", "server", "http://api.telegram.org"),
        ("slack", "webhook", "http://169.254.169.254/latest"),
        ("slack", "webhook", "https://user:pass@hooks.slack.com/x"),
        ("discord", "webhook", "https://discord.com/channels/17"),
        ("gotify", "server", "ftp://gotify.example"),
        ("gotify", "token", "two\nlines"),
        ("pushover", "user", "short"),
        ("matrix", "room", "#alias:example.org"),
        ("email", "address", "not an address"),
        ("email", "address", "a@b.example\nBcc: c@d.example"),
        ("ntfy", "topic", "no spaces"),
    ]:
        assert KINDS[kind].field(field).problem_with(value)


def test_long_text_is_cut_so_that_links_stay():
    text = text_with_links(replace(MESSAGE, text="🌵" * 5000), 4096, title="Garden")

    assert count_units(text) <= 4096
    assert text.endswith(LINKS)
    assert count_units(fit("🌵" * 10, 15)) <= 15


@pytest.fixture
def mail(settings):
    with MailSink() as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        settings.DEFAULT_FROM_EMAIL = "Cronty <cronty@cronty.example>"
        yield server


def test_mail_has_subject_text_and_links(mail):
    deliver("email", {"address": "olga@example.org"})

    (message,) = mail.messages
    assert (message["To"], message["Subject"]) == ("olga@example.org", "Garden")
    assert message["Message-ID"] == "<execution.42@cronty.example>"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message.get_content().replace("\r\n", "\n") == f"{MESSAGE.text}\n\n{LINKS}\n"


def test_title_cannot_add_headers_to_a_mail(mail):
    deliver("email", {"address": "olga@example.org"}, replace(MESSAGE, title="Hi\r\nBcc: eve@example.org"))

    (message,) = mail.messages
    assert message["Bcc"] is None


def test_mail_without_a_server_says_what_to_set(settings):
    settings.EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"

    with pytest.raises(Final, match="EMAIL_URL"):
        deliver("email", {"address": "olga@example.org"})


def test_mail_server_that_is_away_is_tried_again(settings, mail):
    settings.EMAIL_PORT = 1

    with pytest.raises(RetryLater, match="Can't reach the mail server"):
        deliver("email", {"address": "olga@example.org"})


@pytest.mark.parametrize("kind", HTTP_KINDS)
def test_server_that_fails_is_tried_again(kind, values, sink):
    sink.then(Answer(status=503))

    with pytest.raises(RetryLater):
        deliver(kind, values[kind])


def test_server_that_hangs_or_breaks_off_is_tried_again(values, sink, settings):
    settings.CRONTY_OUTBOUND_TIMEOUT = 0.3
    for manner in ("hang", "reset"):
        sink.then(Answer(manner=manner))

        with pytest.raises(RetryLater):
            deliver("telegram", values["telegram"])
