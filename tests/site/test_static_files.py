"""The middleware that serves static files."""

import pytest
from django.http import HttpResponse
from django.test import RequestFactory

from cronty_site.static_files import StaticFiles


@pytest.fixture
def serve(settings, tmp_path):
    settings.STATIC_ROOT = tmp_path
    (tmp_path / "page.css").write_text("body {}")
    middleware = StaticFiles(lambda request: HttpResponse("a page"))
    requests = RequestFactory()

    def answer(method="GET", path="/static/page.css", **headers):
        return middleware(requests.generic(method, path, headers=headers))

    return answer


def test_answer_is_complete_because_django_warns_of_synchronous_streams_under_asgi(serve):
    answer = serve()

    assert not answer.streaming
    assert (answer.status_code, answer.content) == (200, b"body {}")
    assert answer["Content-Type"] == 'text/css; charset="utf-8"'
    assert answer["Content-Length"] == "7"


def test_head_range_and_cached_requests_are_answered_as_by_whitenoise(serve):
    head, part = serve("HEAD"), serve(Range="bytes=0-3")
    cached = serve(**{"If-Modified-Since": serve()["Last-Modified"]})

    assert (head.status_code, head.content, head["Content-Length"]) == (200, b"", "7")
    assert (part.status_code, part.content) == (206, b"body")
    assert (cached.status_code, cached.content) == (304, b"")


def test_other_addresses_lead_to_the_pages(serve, settings):
    assert serve(path="/").content == b"a page"
    assert "cronty_site.static_files.StaticFiles" in settings.MIDDLEWARE
