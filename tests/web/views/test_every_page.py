"""Staff on every page, and the pages for errors; tests/security asks every address for everybody else."""

import pytest
from django.contrib.auth.models import User
from django.test import Client, RequestFactory

from cronty_site.urls import server_error
from tests.factories import ExecutionFactory, JobFactory, TokenFactory

PLAIN = [
    "/",
    "/jobs/new/",
    "/jobs/preview/",
    "/jobs/zones/",
    "/palette/?q=backup",
    "/runs/",
    "/runs/export.csv",
    "/calendar/",
    "/calendar/?view=week",
    "/inbox/",
    "/notifications/",
    "/connect/",
    "/activity/",
    "/trash/",
    "/system/",
    "/welcome/",
    "/settings/",
    "/password/",
]
OWNED = [
    "/jobs/{job}/",
    "/jobs/{job}/edit/",
    "/jobs/new/?copy={job}",
    "/runs/{run}/",
    "/runs/{run}/output.txt",
    "/connect/{token}/",
]


@pytest.fixture
def ids(owner: User) -> dict[str, object]:
    job = JobFactory(owner=owner, name="Olga's plan")
    run = ExecutionFactory(job=job, status="waiting")
    return {"job": job.public_id, "run": run.pk, "token": TokenFactory(owner=owner).pk}


def test_pages_open_for_staff_but_not_the_tokens_of_others(staff: Client, ids: dict[str, object]):
    for path in PLAIN:
        assert staff.get(path).status_code == 200, path
    for path in OWNED:
        assert staff.get(path.format(**ids)).status_code == (404 if "token" in path else 200), path


def test_huge_number_is_a_404(web: Client):
    for number in ["0", "9223372036854775808", "99999999999999999999999"]:
        assert web.get(f"/runs/{number}/").status_code == 404
        assert web.get(f"/connect/{number}/").status_code == 404


def test_not_found_page_explains_itself(web: Client):
    answer = web.get("/no/such/page/")

    assert answer.status_code == 404
    assert "It may have been deleted" in answer.content.decode()


def test_csrf_failure_page_explains_itself(owner: User):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")

    answer = strict.post("/settings/", {"timezone": "UTC"})

    assert answer.status_code == 403
    assert "Your session has expired" in answer.content.decode()


def test_server_error_page_explains_itself(rf: RequestFactory):
    answer = server_error(rf.get("/"))

    assert answer.status_code == 500
    assert b"Something went wrong" in answer.content
