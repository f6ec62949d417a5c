import re
from datetime import timedelta

from django.contrib.auth.models import Permission

from schedules import services
from schedules.models import Event, Token
from tests.admin.conftest import NOW
from tests.admin.pages import acted, messages_of, page, posted
from tests.factories import TokenFactory, UserFactory

TOKEN = {"name": "laptop", "kind": "conversation", "scopes": ["read", "write"], "confirm": "never"}
TOKEN |= {"expires_in": "365d"}


def secret_in(response) -> str:
    (found,) = re.findall(r"cronty_[0-9a-f]{8}_[\w-]{32}", response.content.decode())
    return str(found)


def test_token_is_issued_and_its_secret_shown_once(operator_client, operator, owner):
    response = posted(operator_client, page(Token, "add"), TOKEN | {"owner": owner.pk})

    assert secret_in(response) not in str(response.cookies) + str(operator_client.cookies)
    assert "no-store" in response["Cache-Control"]
    token = services.verify_token(secret_in(response))
    assert token is not None
    assert (token.owner, token.scopes, token.expires_at) == (
        owner,
        ["read", "write"],
        NOW + timedelta(days=365),
    )
    event = Event.objects.get()
    assert (event.verb, event.actor, event.door) == ("issue token", "otto", "admin")
    for url in (page(Token, "changelist"), page(Token, "change", token.pk)):
        html = operator_client.get(url).content.decode()
        assert token.prefix in html
        assert "cronty_" not in html
        assert token.digest not in html


def test_refused_token_is_not_issued(operator_client, operator):
    TokenFactory(owner=operator, name="laptop")

    response = operator_client.post(page(Token, "add"), TOKEN | {"owner": operator.pk})

    assert "name" in response.context["adminform"].form.errors
    assert Token.objects.count() == 1


def test_staff_issue_tokens_for_themselves_only(client, owner):
    clerk = UserFactory(username="clerk", is_staff=True)
    clerk.user_permissions.set(Permission.objects.filter(content_type__model="token"))
    client.force_login(clerk)

    response = posted(client, page(Token, "add"), TOKEN | {"owner": owner.pk})

    token = services.verify_token(secret_in(response))
    assert token is not None
    assert token.owner == clerk


def test_token_can_be_revoked_once_but_not_changed_or_deleted(operator_client, owner):
    token = TokenFactory(owner=owner, name="laptop")

    first = messages_of(acted(operator_client, Token, "revoke", token))
    second = messages_of(acted(operator_client, Token, "revoke", token))

    token.refresh_from_db()
    assert token.revoked_at == NOW
    assert first == ["Revoked: laptop."]
    assert second == ["laptop: This token is already revoked."]
    assert operator_client.post(page(Token, "change", token.pk), TOKEN).status_code == 403
    assert operator_client.get(page(Token, "delete", token.pk)).status_code == 403
