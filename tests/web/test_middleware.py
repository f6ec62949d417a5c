"""Rules for every request: who needs a log-in."""

from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpResponse
from django.test import Client, RequestFactory

from schedules.web.middleware import requires_login


def test_page_requires_a_log_in_in_a_project_without_our_middleware(owner: User):
    page = requires_login(lambda request: HttpResponse(f"for {request.user}"))
    request = RequestFactory().get("/jobs/")

    request.user = AnonymousUser()
    assert page(request)["Location"] == "/login/?next=/jobs/"
    request.user = owner
    assert page(request).content == b"for olga"


def test_form_without_a_log_in_leads_to_its_page(client: Client, settings, db):
    settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if not name.endswith(".LoginRequired")]

    answer = client.post("/jobs/new/", {"name": "Tea"})

    assert answer["Location"] == "/login/?next=/jobs/new/"
