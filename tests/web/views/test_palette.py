"""The command palette: jobs and actions for what was typed."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from schedules.services import job_list
from tests.factories import JobFactory


def found(web: Client, typed: str) -> str:
    return web.get("/palette/", {"q": typed}).content.decode()


def test_jobs_whose_names_begin_with_the_text_come_first(web: Client, owner: User):
    JobFactory(owner=owner, name="Backup of photos")
    JobFactory(owner=owner, name="Nightly backup")

    page = found(web, "backup")

    assert page.index("Backup of photos") < page.index("Nightly backup")


def test_verb_before_a_name_offers_the_action(web: Client, owner: User):
    job = JobFactory(owner=owner, name="Backup")
    for typed, address in [
        ("run backup", "run/"),
        ("Pause  BACK", "pause/"),
        ("edit backup", "edit/"),
        ("backup", ""),
    ]:
        assert f'href="/jobs/{job.public_id}/{address}"' in found(web, typed)


def test_only_what_is_possible_is_offered(web: Client, owner: User):
    job = JobFactory(owner=owner, name="Backup", paused=True)

    assert f"{job.public_id}/pause/" not in found(web, "pause backup")
    assert "data-send" in found(web, "resume backup")
    assert "data-send" not in found(web, "edit backup")


def test_pages_outside_the_navigation_are_offered(web: Client):
    palette = web.get("/").content.decode().partition('id="palette-list"')[2].partition("</dialog>")[0]
    for name in [
        "agents",
        "events",
        "calendars",
        "api-reference",
        "pause-all",
        "secrets",
        "undo",
    ]:
        assert f'href="{reverse(f"schedules:{name}")}"' in palette


def test_names_are_escaped_and_nothing_is_found_without_a_text(web: Client, owner: User):
    JobFactory(owner=owner, name="<b>Backup")

    assert "<b>" not in found(web, "backup")
    assert "option" not in found(web, " ")


def test_of_many_jobs_only_the_newest_are_looked_through(
    web: Client, owner: User, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(job_list, "SCANNED", 3)
    JobFactory(owner=owner, name="My old backup")
    JobFactory.create_batch(3, owner=owner)
    JobFactory(owner=owner, name="Backup")

    assert "old" not in found(web, "backup")
