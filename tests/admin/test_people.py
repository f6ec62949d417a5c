import re
from datetime import timedelta

from django.contrib.auth.models import Permission, User

from schedules import services
from schedules.admin import bases
from schedules.models import AgentStop, Event, Profile, Secret, Token
from tests.admin.conftest import NOW
from tests.admin.pages import acted, messages_of, page, posted
from tests.factories import TokenFactory, UserFactory

TOKEN = {"name": "laptop", "kind": "conversation", "scopes": ["read", "write"], "expires_in": "365d"}


def secret_in(response) -> str:
    (found,) = re.findall(r"cronty_[0-9a-f]{8}_[\w-]{32}", response.content.decode())
    return str(found)


def test_token_is_issued_and_its_secret_shown_once(operator_client, operator, owner):
    response = posted(operator_client, page(Token, "add"), TOKEN | {"owner": owner.pk})

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


def test_new_token_lies_in_no_cookie_and_no_cache(operator_client, owner):
    response = operator_client.post(page(Token, "add"), TOKEN | {"owner": owner.pk})

    assert response.status_code == 200
    assert secret_in(response) not in str(response.cookies) + str(operator_client.cookies)
    assert "no-store" in response["Cache-Control"]


def test_token_page_is_prefilled_with_the_person_and_both_scopes(operator_client, operator):
    form = operator_client.get(page(Token, "add")).context["adminform"].form

    assert form["owner"].value() == operator.pk
    assert tuple(form["scopes"].value()) == ("read", "write")


def test_refused_token_is_not_issued(operator_client, operator):
    TokenFactory(owner=operator, name="laptop")

    response = operator_client.post(page(Token, "add"), TOKEN | {"owner": operator.pk})

    assert "name" in response.context["adminform"].form.errors
    assert Token.objects.count() == 1


def test_owner_of_a_token_leads_to_their_tokens(operator_client, owner, monkeypatch):
    monkeypatch.setattr(bases, "MAX_OWNERS", 1)
    token = TokenFactory(owner=owner)
    link = f'<a href="?owner={owner.pk}">{owner}</a>'

    assert link in operator_client.get(page(Token, "changelist")).content.decode()
    assert link not in operator_client.get(page(Token, "change", token.pk)).content.decode()


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


def test_profile_is_changed_through_the_services(operator_client, owner):
    response = posted(
        operator_client,
        page(Profile, "change", owner.cronty_profile.pk),
        {"timezone": "Asia/Tokyo", "failure_topic": "alarm", "quiet_hours": "22:00-7:00", "alert_every": "0"},
    )

    assert "was changed successfully" in messages_of(response)[0]
    profile = Profile.objects.get(user=owner)
    assert (profile.timezone, profile.failure_topic) == ("Asia/Tokyo", "alarm")
    assert (profile.quiet_hours, profile.alert_every) == ("22:00-07:00", timedelta(0))


def test_channel_of_alerts_is_shown_and_can_be_removed(operator_client, owner):
    Profile.objects.filter(user=owner).update(alert_channel="phone")
    address = page(Profile, "change", owner.cronty_profile.pk)

    shown = operator_client.get(address).context["adminform"].form.initial["failure_topic"]
    posted(operator_client, address, {"initial-failure_topic": "phone", "failure_topic": ""})

    assert shown == "phone"
    assert Profile.objects.get(user=owner).alert_place == {}


def test_changed_profile_records_an_event_and_keeps_what_its_owner_changed_meanwhile(operator_client, owner):
    services.update_profile(owner, topic="old")
    address = page(Profile, "change", owner.cronty_profile.pk)
    html = operator_client.get(address).content.decode()
    shown = dict(re.findall(r'name="(initial-\w+)" value="([^"]*)"', html))
    services.update_profile(owner, topic="theirs")

    sent = shown | {"timezone": "Asia/Tokyo", "topic": "old"}
    posted(operator_client, address, sent)
    posted(operator_client, address, sent | {"initial-timezone": "Asia/Tokyo"})

    owner.cronty_profile.refresh_from_db()
    assert (owner.cronty_profile.timezone, owner.cronty_profile.topic) == ("Asia/Tokyo", "theirs")
    event = Event.objects.get()
    assert (event.verb, event.actor, event.door, event.owner) == ("set preferences", "otto", "admin", owner)
    assert (event.before, event.after) == ({"timezone": "Europe/Berlin"}, {"timezone": "Asia/Tokyo"})


def test_invalid_profile_is_reported_beside_its_field(operator_client, owner):
    response = operator_client.post(
        page(Profile, "change", owner.cronty_profile.pk), {"timezone": "Mars/Base"}
    )

    assert list(response.context["adminform"].form.errors) == ["timezone"]


def test_profile_hides_its_keys_and_cannot_be_added_or_deleted(operator_client, owner):
    html = operator_client.get(page(Profile, "change", owner.cronty_profile.pk)).content.decode()

    assert owner.cronty_profile.signing_key not in html
    assert owner.cronty_profile.calendar_key not in html
    assert operator_client.get(page(Profile, "add")).status_code == 403
    assert operator_client.get(page(Profile, "delete", owner.cronty_profile.pk)).status_code == 403


def test_agents_are_stopped_and_started_for_their_owner(operator_client, owner):
    profile = owner.cronty_profile

    assert messages_of(acted(operator_client, Profile, "stop_agents", profile)) == ["Agents stopped: olga."]
    stop = AgentStop.objects.get()
    assert (stop.scope, stop.by) == (str(owner.pk), "otto")
    again = messages_of(acted(operator_client, Profile, "start_agents", profile))
    assert again == ["Agents work again: olga."]
    assert not AgentStop.objects.exists()


def test_secrets_are_listed_with_their_expiry_and_without_their_value(operator_client, owner):
    secret = Secret.objects.create(
        **{"owner": owner, "name": "KEY", "sealed": "gAAAA", "hosts": ["api.example"]},
        **{"created_at": NOW, "updated_at": NOW, "expires_at": NOW - timedelta(days=1)},
    )
    Secret.objects.create(name="SHARED", sealed="gAAAA", created_at=NOW, updated_at=NOW)

    pages = [
        operator_client.get(url).content.decode()
        for url in (page(Secret, "changelist"), page(Secret, "change", secret.pk))
    ]

    assert all("api.example" in html and "(expired)" in html for html in pages)
    assert "installation" in pages[0]
    assert "gAAAA" not in "".join(pages)
    assert operator_client.post(page(Secret, "change", secret.pk), {}).status_code == 403


def test_profile_is_shown_to_staff_who_may_only_view(operator_client, operator, owner):
    User.objects.filter(pk=operator.pk).update(is_superuser=False)
    operator.user_permissions.set(Permission.objects.filter(codename="view_profile"))

    response = operator_client.get(page(Profile, "change", owner.cronty_profile.pk))

    assert response.status_code == 200
    assert "Europe/Berlin" in response.content.decode()
