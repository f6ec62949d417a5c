import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.test import Client

from tests.factories import UserFactory

PASSWORD = "correct horse"


def login(client: Client, username: str, password: str = PASSWORD, **extra: str) -> object:
    return client.post(
        "/login/", {"username": username, "password": password, **extra}, REMOTE_ADDR="192.0.2.1"
    )


@pytest.mark.parametrize("typed", ["olga", "olga@example.org", "OLGA@example.org"])
def test_person_logs_in_by_username_or_email_address(client: Client, owner: User, typed: str):
    User.objects.filter(pk=owner.pk).update(email="olga@example.org")

    assert login(client, typed)["Location"] == "/"  # type: ignore[index]


def test_email_address_shared_by_two_people_does_not_log_in(client: Client, db: None):
    UserFactory(email="both@example.org")
    UserFactory(email="both@example.org")

    answer = login(client, "both@example.org")

    assert answer.status_code == 200  # type: ignore[attr-defined]


def test_login_redirects_only_to_pages_of_this_site(client: Client, owner: User):
    assert login(client, "olga", next="/runs/")["Location"] == "/runs/"  # type: ignore[index]
    client.logout()
    assert login(client, "olga", next="https://evil.example/")["Location"] == "/"  # type: ignore[index]


@pytest.mark.parametrize("target", ["/login/", "/login/?next=/login/", "http://testserver/login/"])
def test_login_does_not_redirect_to_itself(web: Client, target: str):
    answer = web.get("/login/", {"next": target})

    assert (answer.status_code, answer["Location"]) == (302, "/")


def test_login_error_does_not_reveal_whether_the_user_exists(client: Client, owner: User):
    wrong, unknown = login(client, "olga", "wrong"), login(client, "nobody", "wrong")

    assert wrong.context["form"].errors == unknown.context["form"].errors  # type: ignore[attr-defined]


def test_too_many_wrong_passwords_lock_the_login(client: Client, owner: User, settings: LazySettings):
    for _ in range(settings.AXES_FAILURE_LIMIT):
        answer = login(client, "olga", "wrong")

    assert answer.status_code == 429  # type: ignore[attr-defined]
    assert "Too many attempts" in answer.content.decode()  # type: ignore[attr-defined]
    assert login(client, "olga").status_code == 429  # type: ignore[attr-defined]


def test_live_refresh_after_the_session_ended_reloads_the_page(client: Client, db: None):
    answer = client.get("/login/?next=/", headers={"HX-Request": "true"})

    assert answer["HX-Refresh"] == "true"


def test_logout_requires_post(web: Client):
    assert web.get("/logout/").status_code == 405
    assert web.post("/logout/")["Location"] == "/login/"
    assert web.get("/").status_code == 302


def test_password_is_changed(web: Client, owner: User):
    new = "battery staple 9"

    answer = web.post("/password/", {"old_password": PASSWORD, "new_password1": new, "new_password2": new})

    owner.refresh_from_db()
    assert answer["Location"] == "/settings/"
    assert owner.check_password(new)


def test_weak_password_is_refused(web: Client):
    answer = web.post("/password/", {"old_password": PASSWORD, "new_password1": "1", "new_password2": "1"})

    assert "too short" in answer.content.decode()
