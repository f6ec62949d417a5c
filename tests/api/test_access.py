"""Secrets and tokens over the API: never more than the token that asks."""

from datetime import timedelta

from schedules import clock
from schedules.models import Event, Secret, Token
from tests.api.conftest import Program, program_of
from tests.api.test_jobs import fields, problem


def test_secret_is_written_and_never_shown(owner, program: Program):
    given = {"value": "s3cret-value", "hosts": ["api.github.com"]}

    answer = program.call("PUT", "/secrets/GITHUB_TOKEN", given)

    assert (answer.status_code, b"s3cret" in answer.content) == (200, False)
    assert Secret.objects.get(owner=owner).hosts == ["api.github.com"]
    assert b"s3cret" not in program.call("GET", "/events").content
    assert program.call("GET", "/secrets/GITHUB_TOKEN").status_code == 405
    assert program.call("DELETE", "/secrets/GITHUB_TOKEN").status_code == 204
    assert problem(program.call("DELETE", "/secrets/GITHUB_TOKEN"))["code"] == "secret_not_found"


def test_expiry_of_a_secret_is_set_and_moved_without_its_value(owner, program: Program):
    given = {"value": "s3cret-value", "hosts": ["api.github.com"], "expires_at": "2030-03-31"}

    assert program.ok("PUT", "/secrets/KEY", given)["expires_at"].startswith("2030-03-31T23:59")
    sealed = Secret.objects.get().sealed
    moved = program.ok("PATCH", "/secrets/KEY", {"expires_at": "2031-03-31"})

    assert (moved["expires_at"][:10], moved["expired"]) == ("2031-03-31", False)
    assert program.ok("PATCH", "/secrets/KEY", {"expires_at": None})["expires_at"] is None
    assert Secret.objects.get().sealed == sealed
    assert fields(program.call("PATCH", "/secrets/KEY", {"expires_at": "blue moon"})) == ["expires_at"]
    assert program.call("PATCH", "/secrets/OTHER", {"expires_at": None}).status_code == 404


def test_agents_token_reaches_neither_secrets_nor_other_tokens(owner, program: Program):
    agent = program_of(owner, name="laptop", kind="conversation")

    secret = agent.call("PUT", "/secrets/A", {"value": "0123456789", "hosts": ["example.com"]})
    new = agent.call("POST", "/tokens", {"name": "mine"})
    others = agent.call("DELETE", f"/tokens/{program.token.pk}")

    assert [answer.status_code for answer in (secret, new, others)] == [403] * 3
    assert "type Program" in problem(new)["detail"]
    assert agent.call("DELETE", f"/tokens/{agent.token.pk}").status_code == 204
    assert agent.call("GET", "/me").status_code == 401


def test_new_token_may_do_no_more_and_ends_no_later_than_its_maker(owner):
    maker = program_of(owner, scopes=["write"], families=["prompts"], expires_in=timedelta(days=2))
    wide = program_of(owner, name="wide")

    assert fields(maker.call("POST", "/tokens", {"name": "a", "scopes": ["read"]})) == ["scopes"]
    assert fields(maker.call("POST", "/tokens", {"name": "a", "scopes": ["write"], "tools": ["jobs"]})) == [
        "tools"
    ]
    made = maker.ok("POST", "/tokens", {"name": "a", "scopes": ["write"]})
    own = wide.ok("POST", "/tokens", {"name": "b"})

    token = Token.objects.get(pk=made["id"])
    assert (token.families, token.scopes) == (["prompts"], ["write"])
    assert token.expires_at <= maker.token.expires_at
    assert Token.objects.get(pk=own["id"]).expires_at <= clock.now() + timedelta(days=30)
    assert Program(own["text"], token).ok("GET", "/me")["scopes"] == ["read"]
    assert Event.objects.filter(verb="issue token", door="api").count() == 2


def test_tokens_are_listed_without_their_texts(owner, program: Program, strange_program: Program):
    listed = program.call("GET", "/tokens")

    assert program.text.encode() not in listed.content
    assert [token["name"] for token in program.ok("GET", "/tokens")["tokens"]] == ["n8n"]
    assert strange_program.call("DELETE", f"/tokens/{program.token.pk}").status_code == 404
