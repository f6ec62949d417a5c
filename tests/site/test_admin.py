"""Admin pages of the site for users and groups: who may change whose rights."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse

from schedules.models import Token
from schedules.services.people.profiles import SYSTEM_USER
from tests.conftest import session_of
from tests.factories import ExecutionFactory, TokenFactory, UserFactory

RIGHTS = {"is_staff": "on", "is_superuser": "on"}


@pytest.fixture
def manager(db: None) -> User:
    """A staff member with every permission for users, groups, profiles and tokens."""
    user = UserFactory(username="mara", is_staff=True)
    models = ("user", "group", "profile", "token")
    user.user_permissions.set(Permission.objects.filter(content_type__model__in=models))
    return user


@pytest.fixture
def group(db: None) -> Group:
    return Group.objects.create(name="powerful")


def address(name: str, *args: Any) -> str:
    return reverse(f"admin:{name}", args=args)


def form_of(user: User, **changes: Any) -> dict[str, Any]:
    return {
        "username": user.username,
        "is_active": "on",
        "date_joined": "2026-01-01T00:00",
    } | changes


def save(client: Client, user: User, **changes: Any) -> int:
    return client.post(address("auth_user_change", user.pk), form_of(user, **changes)).status_code


def test_staff_edit_ordinary_users_but_grant_no_rights(manager: User, owner: User, group: Group):
    permissions = [permission.pk for permission in Permission.objects.all()[:3]]

    grants = RIGHTS | {"groups": [group.pk], "user_permissions": permissions}
    status = save(session_of(manager), owner, first_name="Olga", **grants)

    owner.refresh_from_db()
    assert (status, owner.first_name) == (302, "Olga")
    assert (owner.is_staff, owner.is_superuser) == (False, False)
    assert (owner.groups.count(), owner.user_permissions.count()) == (0, 0)


def test_superuser_grants_rights(operator: User, owner: User, group: Group):
    assert save(session_of(operator), owner, **RIGHTS, groups=[group.pk]) == 302

    owner.refresh_from_db()
    assert (owner.is_staff, owner.is_superuser, owner.groups.get()) == (True, True, group)


@pytest.mark.parametrize("whom", ["themselves", "staff", "superuser", "system user"])
def test_staff_touch_neither_staff_nor_superusers_nor_the_system_user(
    manager: User, operator: User, whom: str
):
    other = {
        "themselves": manager,
        "staff": UserFactory(is_staff=True),
        "superuser": operator,
        "system user": UserFactory(username=SYSTEM_USER),
    }[whom]
    client, before = session_of(manager), User.objects.filter(pk=other.pk).values().get()

    passwords = {"password1": "a new long one", "password2": "a new long one", "usable_password": "true"}
    statuses = [
        save(client, other, is_superuser="on", email="me@example.com"),
        client.post(address("auth_user_password_change", other.pk), passwords).status_code,
        client.post(address("auth_user_delete", other.pk), {"post": "yes"}).status_code,
        client.post(
            address("auth_user_changelist"),
            {"action": "delete_selected", "_selected_action": [other.pk], "post": "yes"},
        ).status_code,
    ]

    assert statuses == [403, 403, 403, 403]
    assert User.objects.filter(pk=other.pk).values().get() == before


def test_staff_set_the_password_of_an_ordinary_user(manager: User, owner: User):
    passwords = {"password1": "a new long one", "password2": "a new long one", "usable_password": "true"}

    session_of(manager).post(address("auth_user_password_change", owner.pk), passwords)

    owner.refresh_from_db()
    assert owner.check_password("a new long one")


def test_new_user_of_staff_has_no_rights(manager: User):
    passwords = {"password1": "a new long one", "password2": "a new long one", "usable_password": "true"}

    session_of(manager).post(address("auth_user_add"), {"username": "nina", **passwords, **RIGHTS})

    nina = User.objects.get(username="nina")
    assert (nina.is_staff, nina.is_superuser) == (False, False)


def test_only_superusers_change_groups(manager: User, operator: User, group: Group):
    permissions = {"name": group.name, "permissions": [Permission.objects.first().pk]}
    client = session_of(manager)

    refused = [
        client.post(address("auth_group_change", group.pk), permissions).status_code,
        client.post(address("auth_group_add"), {"name": "mine"}).status_code,
        client.post(address("auth_group_delete", group.pk), {"post": "yes"}).status_code,
    ]

    assert refused == [403, 403, 403]
    assert list(Group.objects.values_list("name", "permissions")) == [("powerful", None)]
    assert session_of(operator).post(address("auth_group_change", group.pk), permissions).status_code == 302


def test_staff_revoke_no_token_of_a_superuser(manager: User, operator: User, owner: User):
    tokens = {user: TokenFactory(owner=user) for user in (operator, owner)}
    client = session_of(manager)
    for token in tokens.values():
        client.post(
            address("schedules_token_changelist"), {"action": "revoke", "_selected_action": [token.pk]}
        )

    assert set(Token.objects.filter(revoked_at=None)) == {tokens[operator]}


def test_staff_end_the_access_of_ordinary_users_only(manager: User, operator: User, owner: User):
    tokens = {user: TokenFactory(owner=user) for user in (operator, owner)}
    chosen = {"action": "end_access", "_selected_action": [user.pk for user in tokens]}

    session_of(manager).post(address("auth_user_changelist"), chosen)

    assert set(Token.objects.filter(revoked_at=None)) == {tokens[operator]}


def test_times_of_a_user_are_shown_but_cannot_be_changed(operator: User, owner: User):
    joined = owner.date_joined
    User.objects.filter(pk=owner.pk).update(last_login=datetime(2025, 10, 26, 0, 30, tzinfo=UTC))
    client = session_of(operator)

    shown = client.get(address("auth_user_change", owner.pk)).content.decode()
    status = save(client, owner, first_name="Olga", last_login="2026-01-01T00:00")

    owner.refresh_from_db()
    assert "Sun 26 Oct 2025 00:30 UTC" in shown
    assert (status, owner.first_name) == (302, "Olga")
    assert (owner.last_login, owner.date_joined) == (datetime(2025, 10, 26, 0, 30, tzinfo=UTC), joined)


def test_user_is_deleted_with_profile_and_tokens(manager: User, owner: User):
    TokenFactory(owner=owner)

    session_of(manager).post(address("auth_user_delete", owner.pk), {"post": "yes"})

    assert not User.objects.filter(pk=owner.pk).exists()
    assert not Token.objects.exists()


def test_user_with_jobs_or_history_is_to_be_deactivated_instead(operator: User, owner: User):
    ExecutionFactory(job__owner=owner)
    client = session_of(operator)

    asked = client.get(address("auth_user_delete", owner.pk)).content.decode()
    client.post(address("auth_user_delete", owner.pk), {"post": "yes"})

    assert "Deactivate this user instead" in asked
    assert "have permission" not in asked
    assert User.objects.filter(pk=owner.pk).exists()
