"""Forms that survive the end of a session, without JavaScript."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.forms import Textarea
from django.test import Client

from schedules.models import Execution, Job, UserSession
from schedules.models.sessions import DRAFT
from schedules.web import middleware
from tests.factories import ExecutionFactory, JobFactory, UserFactory

TYPED = {
    "name": "Tea",
    "task": "notify",
    "notify-message": "Ready.",
    "notify-topic": "home",
    "when": "phrase",
    "phrase": "every day at 9am",
    "timezone": "Europe/Berlin",
}


@pytest.fixture
def password(owner: User) -> str:
    owner.set_password("correct horse")
    owner.save(update_fields=["password"])
    return "correct horse"


@pytest.fixture
def client(owner: User) -> Client:
    """A browser that has shown pages of the owner, whose session has ended."""
    return logged_out(owner)


def logged_out(person: User) -> Client:
    browser = Client()
    browser.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    browser.get("/jobs/new/")
    del browser.cookies["sessionid"]
    return browser


def log_in(browser: Client, owner: User, password: str, address: str) -> Any:
    return browser.post(
        f"/login/?next={address}", {"username": owner.username, "password": password}, follow=True
    )


def test_posted_form_is_shown_again_after_the_log_in(client: Client, owner: User, password: str):
    answer = client.post("/jobs/new/", TYPED)
    assert answer["Location"] == "/login/?next=/jobs/new/"

    shown = log_in(client, owner, password, "/jobs/new/")

    assert shown.context["form"]["name"].value() == "Tea"
    assert "Not saved yet" in shown.content.decode()
    assert not Job.objects.exists()
    assert client.get("/jobs/new/").context["form"]["name"].value() is None
    assert client.session.get_expiry_age() > middleware.DRAFT_SECONDS


def test_form_of_an_earlier_log_in_is_shown_again_and_not_saved(owner: User):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")

    answer = browser.post("/jobs/new/", TYPED, headers={"origin": "http://testserver"})

    assert (answer.status_code, answer["Location"]) == (303, "/jobs/new/")
    assert browser.get("/jobs/new/").context["form"]["name"].value() == "Tea"
    assert not Job.objects.exists()


def test_form_of_another_site_is_refused_and_leaves_nothing(owner: User):
    for is_known in (False, True):
        browser = Client(enforce_csrf_checks=True)
        if is_known:
            browser.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
        before = UserSession.objects.count()

        for origin in ("https://evil.example", "null", None):
            answer = browser.post("/jobs/new/", TYPED, headers={"origin": origin} if origin else {})

            assert answer.status_code == 403
            assert UserSession.objects.count() == before
        # To ask a browser for its session makes one.
        assert DRAFT not in browser.session
    assert not Job.objects.exists()


FORMS = {
    "pause": ("/jobs/job_1/pause/", "/jobs/job_1/", {"reason": "On holiday"}, "On holiday"),
    "answer": ("/inbox/1/answer/", "/inbox/", {"answer": "All is well"}, "All is well"),
    "answer on the page of the run": (
        "/inbox/1/answer/",
        "/runs/1/",
        {"answer": "All is well"},
        "All is well",
    ),
    "settings": ("/settings/", "/settings/", {"topic": "home-4711"}, "home-4711"),
    "token": ("/connect/", "/connect/", {"name": "desk-lamp"}, "desk-lamp"),
    "secret": ("/settings/secrets/", "/settings/secrets/", {"name": "KEY", "value": "hush-hush"}, "KEY"),
    "test": ("/notifications/", "/notifications/", {"topic": "home-4711"}, "home-4711"),
    "welcome": ("/welcome/", "/welcome/", {"message": "Hello there"}, "Hello there"),
}


@pytest.mark.parametrize(("action", "page", "typed", "shown"), FORMS.values(), ids=list(FORMS))
def test_every_form_is_shown_again_on_its_page_without_its_secrets(
    client: Client, owner: User, action: str, page: str, typed: dict[str, str], shown: str
):
    job = JobFactory(owner=owner, public_id="job_1")
    ExecutionFactory(pk=1, job=job, status="waiting")
    before = list(Job.objects.values())

    answer = client.post(action, typed, headers={"referer": f"http://testserver{page}"})
    login = client.get(answer["Location"]).content.decode()
    kept = client.session[DRAFT]["data"]
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")

    assert answer["Location"] == f"/login/?next={page}"
    assert "What you typed is kept" in login
    assert shown in client.get(page).content.decode()
    assert "hush" not in kept
    assert list(Job.objects.values()) == before


def test_draft_is_kept_while_a_page_in_another_tab_refreshes_itself(client: Client, owner: User):
    run = ExecutionFactory(job=JobFactory(owner=owner), status="waiting")
    page = f"/runs/{run.pk}/"
    client.post(
        f"/inbox/{run.pk}/answer/", {"answer": "All fine."}, headers={"referer": f"http://testserver{page}"}
    )
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")

    refreshed = client.get(page, headers={"HX-Request": "true"})

    assert "All fine." not in refreshed.content.decode()
    assert "All fine." in client.get(page).content.decode()


def test_copy_keeps_its_line_breaks_after_a_log_in(client: Client, owner: User, password: str):
    job = JobFactory(owner=owner, task="notify", kwargs={"message": "x", "topic": "home", "title": "a\nb"})
    page = f"/jobs/new/?copy={job.public_id}"
    client.post(page, TYPED | {"notify-title": "a\nb\nc"})

    shown = log_in(client, owner, password, page)

    assert isinstance(shown.context["form"]["notify-title"].field.widget, Textarea)


def test_button_leads_back_to_its_own_page_and_does_nothing(client: Client, owner: User):
    JobFactory(owner=owner, public_id="job_1")
    for sender, page in [
        ("http://testserver/runs/?status=failed", "/runs/%3Fstatus%3Dfailed"),
        ("https://evil.example/runs/", "/"),
        ("http://testserver//evil.example", "/"),
        (None, "/"),
    ]:
        answer = client.post("/jobs/job_1/run/", headers={"referer": sender} if sender else {})
        login = client.get(answer["Location"]).content.decode()

        assert answer["Location"] == f"/login/?next={page}"
        assert "nothing was changed. Log in and try again." in login
        assert not Execution.objects.exists()
        assert DRAFT not in client.session


def test_own_form_with_an_old_token_leads_back_and_one_of_another_site_is_refused(owner: User):
    JobFactory(owner=owner, public_id="job_1")
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    for path in ["/login/?next=/runs/", "/logout/", "/jobs/job_1/run/", "/theme/"]:
        own = browser.post(
            path, headers={"origin": "http://testserver", "referer": "http://testserver/trash/"}
        )
        foreign = browser.post(path, headers={"origin": "https://evil.example"})

        assert (own.status_code, foreign.status_code) == (303, 403)
        assert own["Location"] in {"/trash/", "/login/?next=/runs/"}
        assert "nothing was changed. Try again." in browser.get("/trash/").content.decode()
        assert not Execution.objects.exists()


def test_draft_of_a_stranger_is_not_kept(db: None):
    browser = Client()

    answer = browser.post("/jobs/new/", TYPED)

    assert answer["Location"] == "/login/?next=/jobs/new/"
    assert "nothing was changed. Log in and try again." in browser.get(answer["Location"]).content.decode()
    assert not UserSession.objects.exists()


def test_drafts_of_a_person_are_few_and_small(
    client: Client, owner: User, password: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(middleware, "MAX_DRAFTS", 2)
    pages = []
    for form in (TYPED, TYPED | {"notify-message": "x" * middleware.MAX_DRAFT_LENGTH}, TYPED, TYPED):
        client.cookies.pop("sessionid", None)
        pages.append(client.post("/jobs/new/", form, follow=True).content.decode())

    assert ["What you typed is kept" in page for page in pages] == [True, False, True, False]
    assert ["it is too long or too many other forms are kept" in page for page in pages] == [
        False,
        True,
        False,
        True,
    ]
    assert UserSession.objects.filter(user_key=f"draft of {owner.pk}").count() == 2


def test_draft_is_not_shown_to_somebody_else(client: Client, password: str):
    client.post("/jobs/new/", TYPED | {"notify-message": "Only for Olga."})
    stranger = UserFactory(username="sam")
    stranger.set_password(password)
    stranger.save(update_fields=["password"])

    page = log_in(client, stranger, password, "/jobs/new/")

    assert page.status_code == 200
    assert "Only for Olga." not in page.content.decode()


def test_posted_edit_is_shown_again_after_the_log_in(client: Client, owner: User, password: str):
    job = JobFactory(owner=owner)
    address = f"/jobs/{job.public_id}/edit/"
    client.post(address, TYPED | {"revision": job.revision})

    shown = log_in(client, owner, password, address)

    assert shown.context["form"]["phrase"].value() == "every day at 9am"
    assert client.get("/jobs/new/").context["form"]["name"].value() is None
