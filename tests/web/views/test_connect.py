"""The page that connects agents: issuing, rotating and revoking tokens."""

from typing import Any

from django.contrib.auth.models import User
from django.test import Client
from django.utils.html import strip_tags

from schedules import clock
from schedules.models import Token
from schedules.services import verify_token
from tests.factories import TokenFactory


def test_token_is_shown_once_and_works(web: Client, owner: User):
    answer = web.post("/connect/", {"name": "laptop", "scopes": "read", "expires": "30"})

    text = answer.context["text"]
    token = verify_token(text)
    assert token is not None
    assert (token.owner, token.name, token.scopes) == (owner, "laptop", ["read"])
    assert token.expires_at is not None
    assert answer["Cache-Control"] == "no-store"
    assert answer.content.decode().count(text) >= 4
    assert text not in web.get("/connect/").content.decode()


def test_page_shows_connected_after_the_first_call(web: Client, owner: User):
    token = TokenFactory(owner=owner, name="laptop")
    path = f"/connect/{token.pk}/"
    assert strip_tags(web.get(path).content.decode()).strip() == "Waiting for laptop to connect…"

    Token.objects.filter(pk=token.pk).update(last_used_at=clock.now())

    assert strip_tags(web.get(path).content.decode()).strip().startswith("laptop is connected: it called")


def test_rotated_token_keeps_its_name_and_replaces_the_old_text(web: Client):
    old = web.post("/connect/", {"name": "laptop", "scopes": "read", "expires": "30"}).context

    new = web.post(f"/connect/{old['token'].pk}/rotate/").context

    assert verify_token(old["text"]) is None
    fresh = verify_token(new["text"])
    assert fresh is not None
    assert (fresh.name, fresh.scopes) == ("laptop", ["read"])


def test_every_program_has_a_snippet_with_the_address(web: Client, settings: Any):
    settings.CRONTY_URL = "https://cronty.example"

    texts = {snippet.key: snippet.text for snippet in web.get("/connect/").context["snippets"]}

    assert {key for key, text in texts.items() if "https://cronty.example/mcp" not in text} == {"desktop"}
    assert len(texts) == 11
