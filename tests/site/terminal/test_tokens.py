"""The subcommands of token."""

from datetime import timedelta

from schedules import clock
from schedules.models import Event, Token
from schedules.services import issue_token


def test_token_is_printed_once_and_recorded(cronty):
    ended = cronty("token", "laptop", "--scopes", "read", "--expires-in", "30d")

    token = Token.objects.get()
    assert ended.out.startswith(f"cronty_{token.prefix}_")
    assert (token.scopes, token.expires_at is None) == (["read"], False)
    assert Event.objects.get().door == "terminal"
    assert cronty("token", "laptop").code == 1
    assert cronty("token", "phone", "--expires-in", "soon").code == 2


def test_options_may_come_before_the_name_and_any_name_can_be_given(cronty):
    assert cronty("token", "--scopes", "read", "phone").code == 0
    assert cronty("token", "create", "list", "--json").json["name"] == "list"

    assert set(Token.objects.values_list("name", flat=True)) == {"phone", "list"}


def test_tokens_are_listed_without_their_secrets(cronty, owner, stranger):
    text = issue_token(owner, name="laptop", scopes=["read"], expires_in=timedelta(days=30)).value.text
    issue_token(stranger, name="theirs")

    listed = cronty("token", "list")

    assert listed.out.split()[:7] == ["name", "kind", "scopes", "expires", "last", "used", "laptop"]
    assert text not in listed.out
    assert cronty("token").out == listed.out
    (row,) = cronty("token", "list", "--json").json
    assert (row["name"], row["scopes"], row["last_used_at"]) == ("laptop", ["read"], None)
    Token.objects.update(expires_at=clock.now() - timedelta(days=1))
    assert "expired " in cronty("token", "list").out


def test_token_is_revoked_by_its_name(cronty, owner):
    issue_token(owner, name="laptop")

    assert cronty("token", "revoke", "laptop").out == "Revoked: laptop\n"

    assert Token.objects.get().revoked_at
    assert Event.objects.get(verb="revoke token").door == "terminal"
    assert cronty("token", "list").out == "No tokens.\n"
