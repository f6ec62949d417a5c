"""Forms that are sent after the end of a session, or from a page of an earlier one."""

from django.contrib.auth.models import User
from django.test import Client

from schedules.models import Execution, Job
from tests.factories import JobFactory

TYPED = {"name": "Tea", "task": "notify", "phrase": "every day at 9am", "timezone": "Europe/Berlin"}


def logged_in(owner: User) -> Client:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    return browser


def test_form_without_a_session_leads_to_the_login_and_back_and_does_nothing(owner: User):
    JobFactory(owner=owner, public_id="job_1")
    browser = Client()
    for action, sender, page in [
        ("/jobs/new/", None, "/jobs/new/"),
        ("/jobs/job_1/run/", "http://testserver/runs/?status=failed", "/runs/%3Fstatus%3Dfailed"),
        ("/jobs/job_1/run/", "https://evil.example/runs/", "/"),
        ("/jobs/job_1/run/", "http://testserver//evil.example", "/"),
        ("/jobs/job_1/run/", None, "/"),
    ]:
        answer = browser.post(action, TYPED, headers={"referer": sender} if sender else {})
        login = browser.get(answer["Location"]).content.decode()

        assert answer["Location"] == f"/login/?next={page}"
        assert "nothing was changed. Log in and try again." in login
    assert not Execution.objects.exists()
    assert Job.objects.count() == 1


def test_own_form_with_an_old_token_leads_back_and_one_of_another_site_is_refused(owner: User):
    JobFactory(owner=owner, public_id="job_1")
    browser = logged_in(owner)
    for path in ["/login/?next=/runs/", "/logout/", "/jobs/job_1/run/", "/theme/"]:
        own = browser.post(
            path, headers={"origin": "http://testserver", "referer": "http://testserver/trash/"}
        )
        foreign = browser.post(path, headers={"origin": "https://evil.example"})

        assert (own.status_code, foreign.status_code) == (303, 403)
        assert own["Location"] in {"/trash/", "/login/?next=/runs/"}
        assert "nothing was changed. Try again." in browser.get("/trash/").content.decode()
        assert not Execution.objects.exists()


def test_form_of_another_site_is_refused(owner: User):
    for browser in (Client(enforce_csrf_checks=True), logged_in(owner)):
        for origin in ("https://evil.example", "null", None):
            answer = browser.post("/jobs/new/", TYPED, headers={"origin": origin} if origin else {})

            assert answer.status_code == 403
    assert not Job.objects.exists()
