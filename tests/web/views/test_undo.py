"""Undo on the pages: which changes offer it, what the preview says, and what a click changes."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from schedules import services
from schedules.models import Event, Job
from schedules.services import Actor
from tests.factories import JobFactory
from tests.web.html import html_of


@pytest.fixture
def weekly(owner: User) -> Job:
    job: Job = JobFactory(owner=owner, name="Vacuum", cron="0 4 * * 0", timezone="UTC")
    return job


def reverted(web: Client, job: Job, **data: object) -> Job:
    web.post("/activity/undo/", {"event": str(Event.objects.latest("pk").pk)} | data)
    job.refresh_from_db()
    return job


@pytest.mark.parametrize("address", ["/activity/", "/jobs/{}/?tab=history"])
def test_change_offers_to_revert_it_until_it_is_undone(web: Client, actor: Actor, weekly: Job, address: str):
    address = address.format(weekly.public_id)
    services.edit(actor, weekly.public_id, cron="0 3 * * 0")
    offered = html_of(web.get(address))

    job = reverted(web, weekly)
    after = html_of(web.get(address))

    assert ">Revert</a>" in offered
    assert job.cron == "0 4 * * 0"
    assert ">Revert</a>" not in after
    assert ">Undone</span>" in after
    assert "to undo a change" in after


def test_preview_shows_what_becomes_what_and_changes_nothing(web: Client, actor: Actor, weekly: Job):
    services.edit(actor, weekly.public_id, cron="0 3 * * 0")

    page = html_of(web.get("/activity/undo/", {"event": Event.objects.get().pk, "next": "/?q=x"}))

    assert '<del dir="auto">Sundays at 03:00</del>' in page
    assert '<ins dir="auto">04:00</ins>' in page
    assert 'href="/?q=x"' in page
    weekly.refresh_from_db()
    assert weekly.cron == "0 3 * * 0"


def test_everything_that_an_agent_did_is_undone_at_once(web: Client, agent: Actor, actor: Actor, weekly: Job):
    other = JobFactory(owner=weekly.owner, name="Mine")
    services.edit(agent, weekly.public_id, cron="0 3 * * 0")
    services.edit(agent, weekly.public_id, cron="0 2 * * 0")
    services.edit(agent, weekly.public_id, name="Hoover")
    services.pause(actor, other.public_id)

    preview = web.get("/activity/undo/", {"actor": agent.label, "since": "today"})
    web.post("/activity/undo/", {"event": preview.context["ids"]})

    assert "Undo 3 changes" in html_of(preview)
    weekly.refresh_from_db()
    other.refresh_from_db()
    assert (weekly.name, weekly.cron, other.status) == ("Vacuum", "0 4 * * 0", "paused")


def test_preview_says_what_cannot_be_undone_and_why(web: Client, actor: Actor, agent: Actor, weekly: Job):
    services.edit(agent, weekly.public_id, cron="0 3 * * 0")
    services.edit(actor, weekly.public_id, cron="0 2 * * 0")

    page = html_of(web.get("/activity/undo/", {"actor": agent.label, "since": "yesterday"}))

    assert "Can’t be undone" in page
    assert "Changed again since then." in page
    assert '<button class="btn primary">Undo' not in page


def test_one_of_several_changes_of_one_click_offers_to_undo_them_all(web: Client, owner: User):
    jobs = JobFactory.create_batch(3, owner=owner)
    web.post("/jobs/bulk/", {"verb": "pause", "job": [job.public_id for job in jobs]})
    event = Event.objects.latest("pk")

    one = html_of(web.get("/activity/undo/", {"event": event.pk}))
    every = web.get("/activity/undo/", {"call": event.pk})

    assert "Undo all 3 changes" in one
    assert len(every.context["steps"]) == 3


def test_odd_requests_find_nothing_to_undo(web: Client):
    for asked in [{"event": "x"}, {"event": "9" * 30}, {"call": "0"}, {"actor": "nobody", "since": "today"}]:
        assert "Nothing to undo" in html_of(web.get("/activity/undo/", asked))
        assert "There is nothing to undo" in html_of(web.post("/activity/undo/", asked, follow=True))


def test_address_of_another_site_is_not_followed(web: Client):
    page = web.get("/activity/undo/", {"next": "javascript:alert(1)"})

    assert "javascript:" not in page.content.decode()
