"""Web push against a virtual push service, with a browser that decrypts what it gets."""

import asyncio
import time
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from schedules.channels.catalog import KINDS
from schedules.channels.message import Message
from schedules.channels.sending import ChannelEnded, send
from schedules.channels.web_push import WEB_PUSH, server_key
from schedules.models import Channel
from schedules.services import Actor
from schedules.services.people.channel_tests import send_test
from schedules.services.people.channels import set_channel
from schedules.tasks.interface import Final, RetryLater
from tests.channels.push_service import Browser, claims_of, decoded
from tests.channels.test_kinds import MESSAGE
from tests.factories import UserFactory
from tests.sink import Answer
from tests.tasks.builtin.conftest import RUN


@pytest.fixture
def browser():
    return Browser()


@pytest.fixture
def values(sink, browser):
    sink.default = Answer(status=201)
    return browser.subscription(sink.url("/push/abc-secret"), server_key())


def deliver(values, message=MESSAGE):
    return asyncio.run(send(WEB_PUSH, values, message, RUN))


def test_browser_reads_the_message_and_the_service_knows_who_sent_it(sink, browser, values, settings):
    settings.CRONTY_URL = "https://cronty.example"

    deliver(values)

    (request,) = sink.requests
    assert (request.method, request.path) == ("POST", "/push/abc-secret")
    assert {
        "content-encoding": "aes128gcm",
        "urgency": "high",
        "ttl": "86400",
    }.items() <= request.headers.items()
    assert browser.decrypted(request.body) == {
        "title": "Garden",
        "body": MESSAGE.text,
        "key": "execution-42",
        "url": "https://example.com/plants",
        "links": [{"label": "Photos", "url": "https://example.com/photos"}],
    }
    claims, key = claims_of(request.headers["authorization"])
    assert key == server_key()
    assert claims["aud"] == "{0.scheme}://{0.netloc}".format(urlsplit(sink.url("")))
    assert claims["sub"] == "https://cronty.example"
    assert 0 < claims["exp"] - time.time() <= 24 * 3600


def test_browser_of_these_tests_reads_the_example_of_the_standard():
    """The message in section 5 of RFC 8291."""
    key = ec.derive_private_key(
        int.from_bytes(decoded("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94")), ec.SECP256R1()
    )
    message = decoded(
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl"
        "7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )

    assert Browser(key, decoded("BTBZMqHH6r4Tts7J_aSIgg")).opened(message) == (
        b"When I grow up, I want to be a watermelon"
    )


@pytest.mark.parametrize("text", ["x" * 20_000, "🌵" * 5000, '"\\' * 4000])
def test_long_message_is_cut_to_one_record(text, sink, browser, values):
    deliver(values, replace(MESSAGE, text=text, click="https://example.com/" + "x" * 1500))

    shown = browser.decrypted(sink.requests[0].body)
    assert shown["body"].endswith("… (shortened)")
    assert text.startswith(shown["body"].removesuffix("… (shortened)"))


def test_link_that_is_no_page_is_left_out(sink, browser, values):
    deliver(values, Message("Hello", click="javascript:alert(1)"))

    assert browser.decrypted(sink.requests[0].body)["url"] == ""


@pytest.mark.parametrize("status", [404, 410])
def test_gone_subscription_ends(status, sink, values):
    sink.default = Answer(status=status)

    with pytest.raises(ChannelEnded, match="switch them on again"):
        deliver(values)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(status=503), RetryLater),
        (Answer(manner="hang"), RetryLater),
        (Answer(manner="reset"), RetryLater),
        (Answer(status=429, headers={"Retry-After": "600"}), RetryLater),
        (Answer(status=400), Final),
        (Answer.redirect("http://10.0.0.1/", 307), Final),
    ],
)
def test_service_that_fails_is_tried_again_only_if_that_may_help(answer, error, sink, values, settings):
    settings.CRONTY_OUTBOUND_TIMEOUT = 0.3
    sink.default = answer

    with pytest.raises(error) as failed:
        deliver(values)

    assert not isinstance(failed.value, ChannelEnded)
    assert "abc-secret" not in str(failed.value)


def test_flood_is_cut_off_and_the_message_not_repeated(sink, values, settings):
    settings.CRONTY_OUTBOUND_TIMEOUT = 2
    sink.default = Answer(manner="endless")

    deliver(values)

    assert len(sink.requests) == 1


def test_address_in_a_private_network_is_refused(sink, values, settings):
    settings.CRONTY_OUTBOUND_ALLOW = []

    with pytest.raises(Final):
        deliver(values)
    assert WEB_PUSH.field("endpoint").problem_with(values["endpoint"])
    assert not sink.requests


def test_subscription_stays_valid_while_the_secret_key_is_rotated(sink, values, settings):
    before = settings.SECRET_KEY
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another key", [before]
    deliver(values)
    assert claims_of(sink.requests[0].headers["authorization"])[1] == values["key"]

    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(Final, match="switch notifications on again"):
        deliver(values)


@pytest.mark.parametrize(
    ("name", "value"),
    [("p256dh", "AAAA"), ("p256dh", "not base64!"), ("auth", "short"), ("endpoint", "http://push.example/x")],
)
def test_subscription_that_no_browser_makes_is_refused(name, value):
    assert KINDS["webpush"].field(name).problem_with(value)


@pytest.mark.django_db
def test_channel_that_has_ended_is_not_used_until_it_is_replaced(sink, values):
    actor = Actor(UserFactory())
    set_channel(actor, "phone", "webpush", values)
    assert send_test(actor, "phone").value.is_sent
    stored = Channel.objects.get()
    assert not any(value in f"{stored.options} {stored.sealed}" for value in values.values())

    sink.default = Answer(status=410)
    tested = send_test(actor, "phone").value
    assert not tested.is_sent
    assert "switch them on again" in tested.message
    assert Channel.objects.get().confirmed_at is None

    set_channel(actor, "phone", "webpush", values)
    assert Channel.objects.get().confirmed_at is not None


@pytest.mark.django_db
def test_page_switches_it_on_for_this_browser(client, sink, values, browser):
    client.force_login(UserFactory())

    form = client.get("/channels/new/?kind=webpush").content.decode()
    assert f'data-push="{server_key()}"' in form
    assert "On an iPhone or iPad" in form
    saved = client.post("/channels/new/?kind=webpush", {"name": "laptop", **values}, follow=True)
    assert "laptop" in saved.content.decode()
    assert "Test notification" in browser.decrypted(sink.requests[0].body)["body"]
    assert "abc-secret" not in saved.content.decode()

    refused = client.post("/channels/new/?kind=webpush", {"name": "x"})
    assert refused.status_code == 422
    assert "Tap the button, and allow notifications." in refused.content.decode()

    sink.default = Answer(status=410)
    client.post(f"/channels/{Channel.objects.get().pk}/test/")
    assert "Switch on again" in client.get("/notifications/").content.decode()
