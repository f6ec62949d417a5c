"""Getting in, staying out, and the person's own settings."""

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.test import Client

from schedules.models import Profile
from tests.factories import UserFactory

PASSWORD = "correct horse"


def login(client: Client, username: str, password: str = PASSWORD, **extra: str) -> object:
    return client.post(
        "/login/", {"username": username, "password": password, **extra}, REMOTE_ADDR="192.0.2.1"
    )


@pytest.mark.parametrize("typed", ["olga", "olga@example.org", "OLGA@example.org"])
def test_username_or_address_opens_the_door(client: Client, owner: User, typed: str):
    User.objects.filter(pk=owner.pk).update(email="olga@example.org")

    assert login(client, typed)["Location"] == "/"  # type: ignore[index]


def test_address_of_two_people_opens_nothing(client: Client, db: None):
    UserFactory(email="both@example.org")
    UserFactory(email="both@example.org")

    answer = login(client, "both@example.org")

    assert answer.status_code == 200  # type: ignore[attr-defined]


def test_login_goes_on_to_where_one_wanted(client: Client, owner: User):
    assert login(client, "olga", next="/runs/")["Location"] == "/runs/"  # type: ignore[index]
    client.logout()
    assert login(client, "olga", next="https://evil.example/")["Location"] == "/"  # type: ignore[index]


def test_wrong_password_is_said_without_saying_which(client: Client, owner: User):
    wrong, unknown = login(client, "olga", "wrong"), login(client, "nobody", "wrong")

    assert wrong.context["form"].errors == unknown.context["form"].errors  # type: ignore[attr-defined]


def test_too_many_wrong_passwords_lock_the_door(client: Client, owner: User, settings: LazySettings):
    for _ in range(settings.AXES_FAILURE_LIMIT):
        answer = login(client, "olga", "wrong")

    assert answer.status_code == 429  # type: ignore[attr-defined]
    assert "Too many attempts" in answer.content.decode()  # type: ignore[attr-defined]
    assert login(client, "olga").status_code == 429  # type: ignore[attr-defined]


def test_live_part_after_the_session_reloads_the_page(client: Client, db: None):
    answer = client.get("/login/?next=/", headers={"HX-Request": "true"})

    assert answer["HX-Refresh"] == "true"


def test_logout_needs_a_form(web: Client):
    assert web.get("/logout/").status_code == 405
    assert web.post("/logout/")["Location"] == "/login/"
    assert web.get("/").status_code == 302


def test_password_is_changed(web: Client, owner: User):
    new = "battery staple 9"

    answer = web.post("/password/", {"old_password": PASSWORD, "new_password1": new, "new_password2": new})

    owner.refresh_from_db()
    assert answer["Location"] == "/settings/"
    assert owner.check_password(new)


def test_weak_password_is_refused_beside_its_field(web: Client):
    answer = web.post("/password/", {"old_password": PASSWORD, "new_password1": "1", "new_password2": "1"})

    assert "too short" in answer.content.decode()


def test_settings_are_saved(web: Client, owner: User):
    web.post("/settings/", {"timezone": "Asia/Tokyo", "failure_topic": "alerts"})

    profile = Profile.objects.get(user=owner)
    assert (profile.timezone, profile.failure_topic) == ("Asia/Tokyo", "alerts")


def test_bad_settings_are_said_at_once_beside_their_fields(web: Client, owner: User):
    answer = web.post("/settings/", {"timezone": "Nowhere/X", "failure_topic": "a b"})

    page = answer.content.decode()
    assert answer.status_code == 422
    assert ">Unknown zone &#x27;Nowhere/X&#x27;: write an IANA name like Europe/Berlin.</p>" in page
    assert ">Use 1 to 64 letters, digits, - and _.</p>" in page
    assert 'value="a b"' in page
    assert Profile.objects.get(user=owner).timezone == "Europe/Berlin"


def test_theme_is_switched_without_a_script(client: Client, db: None):
    client.post("/theme/", {"theme": "dark"})
    assert client.cookies["theme"].value == "dark"
    assert 'data-theme="dark"' in client.get("/login/").content.decode()

    client.post("/theme/", {"theme": "light"})

    assert client.cookies["theme"].value == "light"


def test_odd_theme_is_ignored(client: Client, db: None):
    client.cookies["theme"] = '"><script>'

    assert "data-theme" not in client.get("/login/").content.decode()
