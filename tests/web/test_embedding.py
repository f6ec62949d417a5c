"""The pages inside a project that has only Django's own apps and middleware around them."""

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, include, path, reverse

from schedules import urls
from tests.factories import ExecutionFactory, JobFactory

urlpatterns = [path("tools/cronty/", include("schedules.urls"))]

# The preview has no page to redirect: it is refused.
PUBLIC = {
    "theme",
    "alive",
    "ready",
    "metrics",
    "calendar-feed",
    "answer-link",
    "approval-link",
    "ping",
    "trigger",
    "stop-link",
    "preview",
    "worker",
    "manifest",
    "offline",
}
NAMES = sorted(str(pattern.name) for pattern in urls.urlpatterns if isinstance(pattern, URLPattern))
ARGUMENTS = {
    "job_id": "job_1",
    "run_id": 1,
    "token_id": 1,
    "secret_id": 1,
    "channel_id": 1,
    "calendar_id": 1,
    "approval_id": 1,
    "subscription_id": 1,
    "delivery_id": 1,
    "key": "unknown",
    "token": "unknown",
}


@pytest.fixture(autouse=True)
def other_project(settings: LazySettings) -> None:
    settings.ROOT_URLCONF = __name__
    settings.LOGIN_URL = "/accounts/login/"
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": []}]
    settings.AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend"]
    settings.MIDDLEWARE = [
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ]


def address_of(name: str) -> str:
    pattern = next(pattern for pattern in urls.urlpatterns if getattr(pattern, "name", "") == name)
    wanted = pattern.pattern.converters
    return reverse(f"schedules:{name}", kwargs={key: ARGUMENTS[key] for key in wanted})


@pytest.mark.django_db
def test_anonymous_visitor_is_redirected_to_the_login_of_the_project(client: Client):
    for name in [name for name in NAMES if name not in PUBLIC]:
        for answer in (client.get(address_of(name)), client.post(address_of(name))):
            assert answer.status_code == 302
            assert answer["Location"].startswith("/accounts/login/?next=/tools/cronty/")


def test_page_works_without_the_pages_of_the_site(web: Client, owner: User):
    job = JobFactory(owner=owner, public_id="job_1", tags=["home"])
    ExecutionFactory(pk=1, job=job, owner=owner)
    for name in [
        "jobs",
        "new",
        "job",
        "edit",
        "runs",
        "run",
        "calendar",
        "inbox",
        "notifications",
        "connect",
        "activity",
        "trash",
        "system",
        "welcome",
        "settings",
    ]:
        answer = web.get(address_of(name))

        assert answer.status_code == 200
        page = answer.content.decode()
        assert "Change password" not in page
        assert "Log out" not in page
        assert 'href="/"' not in page
        assert 'href="/?' not in page
