"""The page of channels: add and test, what went wrong, and what is never shown again."""

import pytest

from schedules.models import Channel
from tests.sink import Answer, Sink

pytestmark = pytest.mark.django_db(transaction=True)

PAGE = "/notifications/"
TOKEN = "123456:AAbbCCdd-eeFFgg"


@pytest.fixture
def sink(settings):
    with Sink(Answer(body=b'{"ok": true, "result": {"message_id": 7}}')) as server:
        settings.CRONTY_OUTBOUND_ALLOW = ["127.0.0.1"]
        yield server


def add(web, sink, **values):
    data = {"name": "phone", "token": TOKEN, "chat": "17", "server": sink.url("")} | values
    return web.post("/channels/new/?kind=telegram", data, follow=True)


def test_new_channel_is_tested_at_once_and_its_secret_never_shown(web, sink):
    page = add(web, sink)

    assert "Saved phone. Sent." in page.content.decode()
    assert len(sink.requests) == 1
    assert TOKEN not in page.content.decode()
    number = Channel.objects.get().pk
    assert TOKEN not in web.get(f"/channels/new/?channel={number}").content.decode()


def test_failed_test_is_shown_with_its_reason(web, sink):
    sink.then(Answer(status=400, body=b'{"description": "chat not found"}'))

    page = add(web, sink)

    assert "chat not found" in page.content.decode()


def test_mistake_names_the_field_and_stores_nothing(web, sink):
    page = add(web, sink, chat="alice", token="wrong-token-1")

    assert page.status_code == 422
    assert "A chat id is a number" in page.content.decode()
    assert "wrong-token-1" not in page.content.decode()
    assert not Channel.objects.exists()


def test_channel_is_renamed_used_and_deleted_on_the_page(web, sink, owner):
    add(web, sink)
    number = Channel.objects.get().pk

    web.post(f"/channels/{number}/rename/", {"name": "mobile"})
    web.post(f"/channels/{number}/use/", {"purpose": "alerts"})
    owner.cronty_profile.refresh_from_db()
    assert owner.cronty_profile.alert_channel == "mobile"
    assert "alerts" in web.get(PAGE).content.decode()

    web.post(f"/channels/{number}/delete/")
    assert not Channel.objects.exists()


def test_every_kind_has_a_form(web):
    for kind in ["ntfy", "email", "telegram", "slack", "discord", "gotify", "pushover", "matrix", "x"]:
        assert web.get(f"/channels/new/?kind={kind}").status_code == 200
