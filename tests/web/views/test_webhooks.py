"""The pages of webhooks: add, look, test, switch, repeat and delete; a secret is shown once."""

import pytest

from schedules import clock
from schedules.models import Channel, Execution
from tests.factories import JobFactory
from tests.receivers import deliveries, listen

pytestmark = pytest.mark.django_db
NEW = "/channels/new/?kind=webhook"
FORM = {"name": "n8n", "url": "https://example.com/hook", "events": ["run.failed", "prompt.due"]}


def content(response):
    return response.content.decode()


def page_of(opened):
    return f"/channels/{opened.channel.pk}/"


def test_new_webhook_shows_its_secret_once(web):
    form = content(web.get(NEW))
    # The receiver does not know the secret yet.
    assert "Webhook" in form
    assert "test message" not in form
    first = web.post(NEW, FORM, follow=True)

    row = Channel.objects.get()
    assert first.redirect_chain == [(f"/channels/{row.pk}/", 303)]
    assert "whsec_" in content(first)
    assert "whsec_" not in content(web.get(f"/channels/{row.pk}/"))
    assert row.event_types == ["prompt.due", "run.failed"]
    assert f"/channels/{row.pk}/" in content(web.get("/notifications/"))


def test_mistake_is_shown_beside_its_field(web):
    refused = web.post(NEW, FORM | {"url": "http://example.com/"})

    assert refused.status_code == 422
    assert "Use https://" in content(refused)
    assert not Channel.objects.exists()


def test_form_without_events_makes_a_webhook_for_messages_only(web):
    web.post(NEW, {"name": "n8n", "url": "https://example.com/"})

    assert Channel.objects.get().event_types == []


def test_webhook_is_edited_with_its_own_events(web, owner):
    opened = listen(owner, events="run.failed")
    JobFactory(owner=owner, name="Backup")
    address = f"/channels/new/?channel={opened.channel.pk}"
    form = content(web.get(address))
    assert 'value="https://example.com/events"' in form
    assert form.count("checked") == 1

    page = content(web.post(address, FORM | {"name": "Receiver", "job": "Backup"}, follow=True))

    assert "A prompt is due, a run failed" in page
    assert "Backup" in page
    assert "whsec_" not in page


def test_answer_of_a_receiver_is_escaped_and_the_delivery_sent_again(web, owner):
    opened = listen(owner)
    page = content(web.post(f"{page_of(opened)}test/", follow=True))
    assert "A test event is on its way" in page
    (row,) = deliveries(opened)
    assert f"/runs/{row.pk}/" in page
    answer = {"status": 200, "said": "<script>alert(1)</script>"}
    Execution.objects.update(status="succeeded", finished_at=clock.now(), result=answer)

    page = content(web.get(page_of(opened)))
    assert "&lt;script&gt;" in page
    assert "<script>alert" not in page
    web.post(f"{page_of(opened)}{row.pk}/")

    assert [each.given["event"]["id"] for each in deliveries(opened)] == [row.given["event"]["id"]] * 2


def test_webhook_is_switched_rotated_and_deleted(web, owner):
    opened = listen(owner)

    assert "Off" in content(web.post(f"{page_of(opened)}switch/", {"on": "no"}, follow=True))
    assert "Switch off" in content(web.post(f"{page_of(opened)}switch/", {"on": "yes"}, follow=True))
    rotated = content(web.post(f"{page_of(opened)}rotate/", follow=True))
    assert "whsec_" in rotated
    assert "signs too, until" in rotated
    assert "Deleted Receiver." in content(web.post(f"{page_of(opened)}delete/", follow=True))
    assert not Channel.objects.exists()


@pytest.mark.parametrize("action", ["", "test/", "switch/", "rotate/", "delete/", "1/"])
def test_strangers_find_nothing(other, owner, action):
    opened = listen(owner)
    address = f"{page_of(opened)}{action}"

    response = other.get(address) if action == "" else other.post(address)

    assert response.status_code == 404
    assert Channel.objects.exists()
