"""Tokens for agents: shown once, stored as a digest, revoked immediately."""

from datetime import timedelta

import pytest
from django.db import OperationalError
from django.db.models import QuerySet

from schedules.models import Event, Token
from schedules.result import Err, Kind, Ok
from schedules.services import issue_token, revoke_token, verify_token
from tests.services.conftest import NOW


def issued(user, **arguments):
    answer = issue_token(user, **({"name": "laptop"} | arguments))
    assert isinstance(answer, Ok)
    return answer.value


def test_token_is_verified_but_its_text_is_not_stored(owner):
    new = issued(owner, scopes=["write", "read"], families=["more", "jobs"], expires_in=timedelta(days=1))

    token = Token.objects.get()
    assert verify_token(new.text) == token == new.token
    assert new.text not in str(Token.objects.values().get())
    assert (token.owner, token.name, token.kind) == (owner, "laptop", "conversation")
    assert (token.scopes, token.families) == (["read", "write"], ["jobs", "more"])
    assert token.expires_at == NOW + timedelta(days=1)


def test_issuing_and_revoking_each_record_an_event_without_the_secret(owner, operator):
    new = issued(owner, by=operator, door=Event.Door.ADMIN)

    revoke_token(owner, new.token.pk)

    done = list(
        Event.objects.order_by("pk").values_list("verb", "actor", "owner__username", "door", "subject")
    )
    assert done == [
        ("issue token", "otto", "olga", "admin", "laptop"),
        ("revoke token", "olga", "olga", "web", "laptop"),
    ]
    assert new.text not in str(list(Event.objects.values()))


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        pytest.param({"name": "  "}, "name", id="no name"),
        pytest.param({"name": "n" * 101}, "name", id="long name"),
        pytest.param({"name": "a\u202eb"}, "name", id="bidirectional name"),
        pytest.param({"scopes": []}, "scopes", id="no scope"),
        pytest.param({"scopes": ["root"]}, "scopes", id="unknown scope"),
        pytest.param({"families": ["secrets"]}, "families", id="unknown family"),
        pytest.param({"kind": "robot"}, "kind", id="unknown kind"),
        pytest.param({"expires_in": timedelta(0)}, "expires_in", id="expired at once"),
        pytest.param({"expires_in": timedelta.max}, "expires_in", id="never expires"),
        pytest.param({"name": "taken"}, "name", id="name of a live token"),
    ],
)
def test_invalid_token_is_not_issued(owner, arguments, field):
    issued(owner, name="taken")

    refusal = issue_token(owner, **({"name": "laptop"} | arguments))

    assert isinstance(refusal, Err)
    assert (refusal.kind, list(refusal.errors)) == (Kind.INVALID, [field])
    assert Token.objects.count() == Event.objects.count() == 1


def test_name_of_a_revoked_token_can_be_used_again(owner, stranger):
    revoke_token(owner, issued(owner).token.pk)

    issued(owner)
    issued(stranger)

    assert Token.objects.filter(name="laptop").count() == 3


def test_revoked_token_is_refused_and_cannot_be_revoked_again(owner):
    new = issued(owner)

    first, second = revoke_token(owner, new.token.pk), revoke_token(owner, new.token.pk)

    assert isinstance(first, Ok)
    assert isinstance(second, Err)
    assert second.kind == Kind.WRONG_STATE
    assert verify_token(new.text) is None


def test_expired_token_is_refused(owner, time_machine):
    new = issued(owner, expires_in=timedelta(hours=1))
    time_machine.shift(timedelta(hours=1))

    assert verify_token(new.text) is None


def test_token_of_an_inactive_owner_is_refused(owner):
    new = issued(owner)
    owner.is_active = False
    owner.save(update_fields=["is_active"])

    assert verify_token(new.text) is None


def test_wrong_token_text_is_refused(owner):
    new = issued(owner)
    for change in [
        lambda text: text[:-1] + ("A" if text[-1] != "A" else "B"),
        lambda text: text + "x",
        lambda text: text.replace("cronty", "crony"),
        lambda text: text.upper(),
        lambda text: "",
        lambda text: "cronty_\x00_x",
        lambda text: "cronty_\ud800_x",
        lambda text: f"cronty_{'0' * 8}_{'x' * 32}",
    ]:
        assert verify_token(change(new.text)) is None


def test_last_use_is_written_at_most_once_a_minute(owner, time_machine, django_assert_num_queries):
    new = issued(owner)
    with django_assert_num_queries(2):
        verify_token(new.text)
    with django_assert_num_queries(1):
        verify_token(new.text)
    time_machine.shift(timedelta(seconds=61))

    verify_token(new.text)

    assert Token.objects.get().last_used_at == NOW + timedelta(seconds=61)


def test_token_of_another_user_can_be_revoked_only_by_staff_in_the_admin(owner, stranger, operator):
    token = issued(owner).token

    for user, door in ((stranger, Event.Door.ADMIN), (operator, Event.Door.WEB)):
        refusal = revoke_token(user, token.pk, door=door)
        assert isinstance(refusal, Err)
        assert refusal.kind == Kind.NOT_FOUND
    assert isinstance(revoke_token(operator, token.pk, door=Event.Door.ADMIN), Ok)


def test_token_is_accepted_even_if_its_last_use_cannot_be_written(owner, monkeypatch):
    new = issued(owner)

    def refuse(self: object, **values: object) -> int:
        raise OperationalError("database is locked")

    monkeypatch.setattr(QuerySet, "update", refuse)

    assert verify_token(new.text) == new.token


def test_token_survives_a_change_of_the_secret_key_and_goes_over_to_the_new_one(owner, settings):
    settings.SECRET_KEY = "old"
    new = issued(owner)
    settings.SECRET_KEY = "new"
    assert verify_token(new.text) is None

    settings.SECRET_KEY_FALLBACKS = ["old"]
    assert verify_token(new.text) == new.token

    settings.SECRET_KEY_FALLBACKS = []
    assert verify_token(new.text) == new.token


def test_token_cannot_be_named_like_a_person(owner, stranger):
    for name in ["olga", "OLGA", " olga "]:
        for user in (owner, stranger):
            refused = issue_token(user, name=name)

            assert isinstance(refused, Err)
            assert "A user has this name" in str(refused.errors["name"])
