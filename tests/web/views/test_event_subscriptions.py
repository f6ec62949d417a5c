"""The pages of receivers of events: add, look, test, switch, repeat and delete; a secret is shown once."""

import pytest

from schedules import clock
from schedules.models import EventSubscription, Execution
from tests.factories import JobFactory
from tests.receivers import deliveries, listen

pytestmark = pytest.mark.django_db
FORM = {"name": "n8n", "url": "https://example.com/hook", "types": ["run.failed", "prompt.due"]}


def content(response):
    return response.content.decode()


def page_of(opened):
    return f"/events/{opened.subscription.public_id}/"


def test_empty_list_says_what_a_receiver_is(web):
    assert "Nobody is told of events yet" in content(web.get("/events/"))
    assert "/events/" in content(web.get("/notifications/"))


def test_new_receiver_shows_its_secret_once(web):
    first = web.post("/events/new/", FORM, follow=True)

    row = EventSubscription.objects.get()
    assert first.redirect_chain == [(f"/events/{row.public_id}/", 303)]
    assert "whsec_" in content(first)
    assert "whsec_" not in content(web.get(f"/events/{row.public_id}/"))
    assert row.types == ["prompt.due", "run.failed"]


def test_mistake_is_shown_beside_its_field(web):
    refused = web.post("/events/new/", FORM | {"url": "http://example.com/"})

    assert refused.status_code == 422
    assert "Use an https address" in content(refused)
    assert not EventSubscription.objects.exists()


def test_form_without_events_asks_for_one(web):
    refused = web.post("/events/new/", {"name": "n8n", "url": "https://example.com/"})

    assert refused.status_code == 422


def test_receiver_is_edited(web, owner):
    opened = listen(owner)
    JobFactory(owner=owner, name="Backup")
    address = f"{page_of(opened)}edit/"
    assert 'value="https://example.com/events"' in content(web.get(address))

    page = web.post(address, FORM | {"name": "Zapier", "job": "Backup"}, follow=True)

    assert "Zapier" in content(page)
    assert "Backup" in content(page)
    assert "whsec_" not in content(page)


def test_test_is_queued_and_shown_among_the_deliveries(web, owner):
    opened = listen(owner)

    page = web.post(f"{page_of(opened)}test/", follow=True)

    assert "A test event is on its way" in content(page)
    (row,) = deliveries(opened)
    assert f"/runs/{row.pk}/" in content(page)


def test_answer_of_a_receiver_is_escaped(web, owner):
    opened = listen(owner)
    web.post(f"{page_of(opened)}test/")
    Execution.objects.update(
        status="succeeded",
        finished_at=clock.now(),
        result={"status": 200, "said": "<script>alert(1)</script>"},
    )

    page = content(web.get(page_of(opened)))

    assert "&lt;script&gt;" in page
    assert "<script>alert" not in page


def test_delivery_is_sent_again(web, owner):
    opened = listen(owner)
    web.post(f"{page_of(opened)}test/")
    Execution.objects.update(status="failed", finished_at=clock.now())
    (row,) = deliveries(opened)

    web.post(f"{page_of(opened)}{row.pk}/")

    assert [each.given["event"]["id"] for each in deliveries(opened)] == [row.given["event"]["id"]] * 2


def test_receiver_is_switched_rotated_and_deleted(web, owner):
    opened = listen(owner)

    assert "Off" in content(web.post(f"{page_of(opened)}switch/", {"on": "no"}, follow=True))
    assert "Switch off" in content(web.post(f"{page_of(opened)}switch/", {"on": "yes"}, follow=True))
    rotated = content(web.post(f"{page_of(opened)}rotate/", follow=True))
    assert "whsec_" in rotated
    assert "signs too, until" in rotated
    assert "Deleted Receiver." in content(web.post(f"{page_of(opened)}delete/", follow=True))
    assert not EventSubscription.objects.exists()


@pytest.mark.parametrize("action", ["", "edit/", "test/", "switch/", "rotate/", "delete/", "1/"])
def test_strangers_find_nothing(other, owner, action):
    opened = listen(owner)
    address = f"{page_of(opened)}{action}"

    response = other.get(address) if action in ("", "edit/") else other.post(address)

    assert response.status_code == 404
    assert EventSubscription.objects.exists()


def test_list_takes_the_same_queries_for_many_receivers(web, owner, django_assert_max_num_queries):
    for number in range(10):
        listen(owner, name=f"Receiver {number}")

    with django_assert_max_num_queries(14):
        page = web.get("/events/")

    assert content(page).count("Receiver ") >= 10
