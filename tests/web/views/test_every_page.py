"""Access to every page: for the owner, a stranger, staff and anonymous visitors."""

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
    "/runs/export.json",
    "/calendar/",
    "/calendar/?view=week",
    "/rehearsal/",
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
ACTIONS = [
    "/jobs/{job}/run/",
    "/jobs/{job}/pause/",
    "/jobs/{job}/resume/",
    "/jobs/{job}/cancel/",
    "/jobs/{job}/delete/",
    "/inbox/{run}/dismiss/",
    "/inbox/{run}/release/",
    "/connect/{token}/revoke/",
    "/connect/{token}/rotate/",
]


@pytest.fixture
def ids(owner: User) -> dict[str, object]:
    job = JobFactory(owner=owner, name="Olga's plan")
    run = ExecutionFactory(job=job, status="waiting")
    return {"job": job.public_id, "run": run.pk, "token": TokenFactory(owner=owner).pk}


@pytest.mark.parametrize("path", PLAIN)
def test_page_opens(web: Client, path: str):
    assert web.get(path).status_code == 200


@pytest.mark.parametrize("path", PLAIN)
def test_page_opens_for_staff(staff: Client, path: str):
    assert staff.get(path).status_code == 200


# They hold nothing private: a browser fetches them without a log-in.
PUBLIC = ("/jobs/preview/", "/worker.js", "/manifest.webmanifest", "/offline/")


@pytest.mark.parametrize("path", [*(path for path in PLAIN if path not in PUBLIC), "/jobs/x/", "/runs/1/"])
def test_anonymous_visitor_is_redirected_to_the_login(client: Client, db: None, path: str):
    answer = client.get(path)

    assert answer.status_code == 302
    assert answer["Location"].startswith("/login/?next=/")


@pytest.mark.parametrize("path", OWNED)
def test_owner_can_open_their_own_pages(web: Client, ids: dict[str, object], path: str):
    assert web.get(path.format(**ids)).status_code == 200


@pytest.mark.parametrize("path", OWNED)
def test_staff_can_open_jobs_and_runs_of_others_but_not_tokens(
    staff: Client, ids: dict[str, object], path: str
):
    assert staff.get(path.format(**ids)).status_code == (404 if "token" in path else 200)


@pytest.mark.parametrize("path", OWNED)
def test_foreign_id_is_the_same_404_as_an_unknown_one(other: Client, ids: dict[str, object], path: str):
    foreign = other.get(path.format(**ids))
    unknown = other.get(path.format(job="job_1_1", run=10**12, token=10**12))

    assert foreign.status_code == unknown.status_code == 404
    assert foreign.content == unknown.content


@pytest.mark.parametrize("path", ACTIONS)
def test_stranger_cannot_act(other: Client, ids: dict[str, object], path: str):
    assert other.post(path.format(**ids)).status_code == 404


@pytest.mark.parametrize("path", [*ACTIONS, "/jobs/bulk/", "/jobs/restore/", "/demo/", "/theme/", "/logout/"])
def test_actions_refuse_get(web: Client, ids: dict[str, object], path: str):
    assert web.get(path.format(**ids)).status_code == 405


@pytest.mark.parametrize("path", PLAIN)
def test_stranger_sees_nothing_of_the_owner(other: Client, ids: dict[str, object], path: str):
    answer = other.get(path)

    assert b"s plan" not in b"".join(answer)


@pytest.mark.parametrize("number", ["0", "9223372036854775808", "99999999999999999999999"])
def test_huge_number_is_a_404(web: Client, number: str):
    assert web.get(f"/runs/{number}/").status_code == 404
    assert web.get(f"/connect/{number}/").status_code == 404


def test_not_found_page_explains_itself(web: Client):
    answer = web.get("/no/such/page/")

    assert answer.status_code == 404
    assert "It may have been deleted" in answer.content.decode()


def test_page_forbids_inline_scripts(web: Client):
    answer = web.get("/")

    assert "unsafe" not in answer["Content-Security-Policy"]
    assert b"style=" not in answer.content
    assert b"onclick" not in answer.content


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
