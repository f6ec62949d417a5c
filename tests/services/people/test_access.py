"""The end of all access of a user."""

import pytest
from django.test import Client

from schedules import services
from schedules.models import Event, Token, UserSession
from schedules.result import Kind
from tests.factories import UserFactory
from tests.services.made_jobs import value_of

pytestmark = pytest.mark.django_db


def logged_in(user) -> Client:
    client = Client()
    client.force_login(user)
    return client


def is_logged_in(client: Client) -> bool:
    return client.get("/settings/").status_code == 200


def test_all_sessions_and_tokens_of_one_user_end():
    olga, other = UserFactory(username="olga"), UserFactory()
    laptop, phone, others = logged_in(olga), logged_in(olga), logged_in(other)
    texts = [value_of(services.issue_token(user, name=f"agent of {user.pk}")).text for user in (olga, other)]

    assert value_of(services.end_access(olga, by=olga)) == 1

    assert [is_logged_in(client) for client in (laptop, phone, others)] == [False, False, True]
    assert [bool(services.verify_token(text)) for text in texts] == [False, True]
    event = Event.objects.get(verb="end access")
    assert (event.owner, event.actor, event.after) == (olga, "olga", {"tokens": 1})


def test_access_of_somebody_with_more_rights_is_not_ended():
    boss, staff = UserFactory(is_superuser=True, is_staff=True), UserFactory(is_staff=True)
    services.issue_token(boss, name="laptop")

    refusal = services.end_access(boss, by=staff, door=Event.Door.ADMIN)

    assert refusal.kind == Kind.FORBIDDEN
    assert Token.objects.filter(revoked_at=None).count() == 1


def test_project_with_another_session_engine_keeps_its_sessions(settings):
    olga = UserFactory()
    logged_in(olga)
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"

    value_of(services.end_access(olga, by=olga))

    assert not services.ends_sessions()
    assert UserSession.objects.filter(user_key=str(olga.pk)).exists()
