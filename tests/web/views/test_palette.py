"""The command palette: jobs and actions for what was typed."""

from django.contrib.auth.models import User
from django.test import Client

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


def test_names_are_escaped_and_nothing_is_found_without_a_text(web: Client, owner: User):
    JobFactory(owner=owner, name="<b>Backup")

    assert "<b>" not in found(web, "backup")
    assert "option" not in found(web, " ")
