"""The task webhook."""

import hashlib
import hmac
import json
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from schedules.tasks.interface import Final, RetryLater, Run
from tests.sink import Answer
from tests.tasks.builtin.conftest import RUN, perform, problems


def test_webhook_is_signed_and_identifies_the_execution(sink):
    sink.default = Answer(status=202, body=b"thanks")
    before = int(time.time())

    result = perform("webhook", replace(RUN, attempt=2), url=sink.url("/hook?a=1"), body={"text": "Grüße"})

    (received,) = sink.requests
    timestamp = received.headers["cronty-timestamp"]
    signed = timestamp.encode() + b"\nexecution-42\n" + received.body
    signature = hmac.new(b"job's key", signed, hashlib.sha256).hexdigest()
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


def test_webhook_headers_are_sent_and_override_the_defaults(sink):
    headers = {"Content-Type": "application/xml", "Authorization": "Bearer t", "X-Custom-Team": "garden"}

    perform("webhook", url=sink.url(), body="<a/>", headers=headers)

    received = sink.requests[0].headers
    assert {name: received[name.lower()] for name in headers} == headers


def test_dangerous_webhook_header_is_refused():
    for headers in [
        {"Host": "internal"},
        {"Content-Length": "0"},
        {"Transfer-Encoding": "chunked"},
        {"Connection": "close"},
        {"Cookie": "a=b"},
        {"Cronty-Signature": "v1=0"},
        {"Idempotency-Key": "mine"},
        {"X-Forwarded-For": "127.0.0.1"},
        {"x-real-ip": "127.0.0.1"},
        {"X-Team": "a"},
        {"X-Custom Team": "a"},
        {"X-Custom-Team:": "a"},
        {"X-Custom-Team\r\nHost": "a"},
        {"X-Custom-Team": "a\r\nHost: b"},
        {"X-Custom-Team": "a\nb"},
        {"X-Custom-Team": "a "},
        {"X-Custom-Team": "☃"},
        {"X-Custom-Team": "a" * 2049},
        {"X-Custom-" + "a" * 56: "b"},
        {f"X-Custom-{number}": "a" for number in range(21)},
        {"X-Custom-Team": 7},
    ]:
        (problem,) = problems("webhook", url="https://example.com/", headers=headers)

        assert problem.startswith("headers")


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
def test_webhook_is_retried_as_late_as_the_receiver_asks(retry_after, seconds, sink):
    status = 503
    headers = {"Retry-After": retry_after.encode().decode("latin-1")} if retry_after else {}
    sink.default = Answer(status=status, headers=headers, body=b"busy")

    with pytest.raises(RetryLater, match=f"127.0.0.1 answered {status}: busy") as caught:
        perform("webhook", url=sink.url())

    assert caught.value.after == (None if seconds is None else timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        ("Wed, 04 Feb 2026 09:02:00 GMT", 120),
        ("Sun, 04 Feb 2099 09:02:00 GMT", 3600),
        ("Wed, 04 Feb 2026 08:59:00 GMT", None),
        ("Wed, 04 Feb 2026 09:02:00 -0000", None),
    ],
)
def test_webhook_is_retried_at_the_moment_that_the_receiver_names(retry_after, seconds, sink, time_machine):
    time_machine.move_to(RUN.scheduled_for, tick=False)
    sink.default = Answer(status=503, headers={"Retry-After": retry_after})

    with pytest.raises(RetryLater) as caught:
        perform("webhook", url=sink.url())

    assert caught.value.after == (None if seconds is None else timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(status=404, body=b"no such hook"), "answered 404: no such hook"),
        (Answer(status=400, body=b"x" * 500), f"answered 400: {'x' * 200}…"),
        (Answer(status=410), "answered 410"),
        (
            Answer.redirect("https://example.com/"),
            "answered 302: redirects are not followed; use the final address: https://example.com/",
        ),
        (Answer(status=300), "answered 300: redirects are not followed; use the final address"),
    ],
)
def test_refused_webhook_is_not_retried(answer, words, sink):
    sink.default = answer

    with pytest.raises(Final) as caught:
        perform("webhook", url=sink.url())

    assert str(caught.value) == f"127.0.0.1 {words}"


def test_answer_that_nothing_has_changed_is_a_success(sink):
    sink.default = Answer(status=304)

    assert perform("webhook", url=sink.url(), method="GET") == {"status": 304, "body": ""}


def test_webhook_stores_of_a_binary_answer_what_can_be_shown(sink):
    sink.default = Answer(body=b"\x89PNG\r\n\x1a\n\0IHDR")

    assert perform("webhook", url=sink.url())["body"] == "\ufffdPNG\n\nIHDR"


def test_webhook_stores_the_start_of_a_long_answer(sink):
    sink.default = Answer(body=b"x" * 100_000)

    assert perform("webhook", url=sink.url())["body"] == "x" * 2048 + "…"


def with_secrets(asked: list, **values: str) -> Run:
    async def find(names, **where):
        asked.append((sorted(names), where))
        return {name: values[name] for name in names}

    return replace(RUN, secrets=find)


def test_secrets_are_filled_in_for_the_host_of_the_address(sink):
    asked = []
    run = with_secrets(asked, KEY="k/1", BODY="b2")

    perform(
        "webhook",
        run,
        url=sink.url("/bot${secret:KEY}/send?key=${secret:KEY}"),
        headers={"Authorization": "Bearer ${secret:KEY}"},
        body={"deep": ["${secret:BODY}"]},
    )

    (received,) = sink.requests
    assert received.path == "/botk%2F1/send?key=k%2F1"
    assert received.headers["authorization"] == "Bearer k/1"
    assert json.loads(received.body) == {"deep": ["b2"]}
    assert asked == [(["BODY", "KEY"], {"host": sink.url("").removeprefix("http://").rstrip("/")})]


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://API.example/${secret:KEY}", "api.example"),
        ("https://api.example:443/${secret:KEY}", "api.example"),
        ("https://api.example:8443/${secret:KEY}", "api.example:8443"),
        ("http://api.example/${secret:KEY}", "api.example:80"),
        ("https://[2606:4700::1]/${secret:KEY}", "2606:4700::1"),
        ("https://[2606:4700::1]:8443/${secret:KEY}", "[2606:4700::1]:8443"),
    ],
)
def test_clear_text_and_other_ports_are_places_of_their_own(url, place):
    asked = []

    async def refuse(names, **where):
        asked.append(where)
        raise Final("no")

    with pytest.raises(Final, match="no"):
        perform("webhook", replace(RUN, secrets=refuse), url=url)
    assert asked == [{"host": place}]


def test_secret_cannot_choose_the_host():
    for url in [
        "https://${secret:KEY}/",
        "https://${secret:KEY}.evil.example/${secret:KEY}",
        "https://${secret:KEY}@evil.example/",
        "https://evil.example:${secret:KEY}/",
    ]:
        assert problems("webhook", url=url)


def test_secret_that_does_not_fit_into_a_header_is_not_sent(sink):
    run = with_secrets([], KEY="two\nlines")

    with pytest.raises(Final, match="A secret does not fit: the value of header 'authorization'") as caught:
        perform("webhook", run, url=sink.url(), headers={"authorization": "${secret:KEY}"})

    assert "lines" not in str(caught.value)
    assert sink.requests == []
