"""Staff on every page, and the pages for errors; tests/security asks every address for everybody else."""

from django.contrib.auth.models import User
from django.test import Client, RequestFactory

from cronty_site.urls import server_error


def test_huge_number_is_a_404(web: Client):
    for number in ["0", "9223372036854775808", "99999999999999999999999"]:
        assert web.get(f"/runs/{number}/").status_code == 404
        assert web.get(f"/connect/{number}/").status_code == 404


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
