"""The page of secrets."""

from datetime import timedelta

import pytest

from schedules import clock
from schedules.models import Secret
from schedules.secrets.encryption import unseal
from tests.web.html import html_of

pytestmark = pytest.mark.django_db

TYPED = {"name": "KEY", "value": "hush-hush-7", "hosts": "a.example, b.example", "commands": ""}


def test_secret_is_added_listed_replaced_and_deleted_without_being_shown(web, other):
    assert web.post("/settings/secrets/", TYPED).status_code == 302
    page = html_of(web.get("/settings/secrets/"))
    assert "b.example" in page
    assert "hush-hush" not in page
    assert "b.example" not in html_of(other.get("/settings/secrets/"))

    web.post("/settings/secrets/", TYPED | {"value": "another-8", "hosts": "", "commands": "backup"})
    assert Secret.objects.get().commands == ["backup"]

    address = f"/settings/secrets/{Secret.objects.get().pk}/delete/"
    assert other.post(address).status_code == 404
    assert web.post(address).status_code == 303
    assert not Secret.objects.exists()


def test_lines_of_a_secret_end_as_they_were_typed(web):
    web.post("/settings/secrets/", TYPED | {"value": "BEGIN\r\nkey\r\n"})

    row = Secret.objects.get()
    assert unseal(row.sealed, row.place) == "BEGIN\nkey\n"


def test_mistake_is_shown_without_what_was_typed(web):
    answer = web.post("/settings/secrets/", TYPED | {"hosts": "not a/host"})

    assert answer.status_code == 422
    assert "not a network" in html_of(answer)
    assert "hush-hush" not in html_of(answer)
    assert not Secret.objects.exists()


def test_page_says_what_was_replaced_or_deleted_meanwhile(web):
    pages = [html_of(web.post("/settings/secrets/", TYPED, follow=True)) for _ in range(2)]
    address = f"/settings/secrets/{Secret.objects.get().pk}/delete/"
    pages += [html_of(web.post(address, {"shown": "KEY"}, follow=True)) for _ in range(2)]

    words = ["Saved KEY.", "Replaced KEY.", "Deleted KEY.", "KEY was deleted already."]
    assert [text in page for text, page in zip(words, pages, strict=True)] == [True] * 4


def test_date_is_set_moved_and_marked_when_it_has_passed(web, other):
    web.post("/settings/secrets/", TYPED | {"expires_at": "2030-03-31"})
    secret = Secret.objects.get()
    assert "31 Mar 2030" in html_of(web.get("/settings/secrets/"))

    moved = {"secret": str(secret.pk), "expires_at": "2031-03-31"}
    assert other.post("/settings/secrets/", moved).status_code == 404
    assert web.post("/settings/secrets/", moved).status_code in (302, 303)
    assert "31 Mar 2031" in html_of(web.get("/settings/secrets/"))

    Secret.objects.update(expires_at=clock.now() - timedelta(days=2))
    assert "expired" in html_of(web.get("/settings/secrets/"))
