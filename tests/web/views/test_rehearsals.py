"""The page of a rehearsal."""

from datetime import timedelta

import pytest

from schedules import clock
from tests.factories import JobFactory, UserFactory
from tests.web.html import html_of


@pytest.fixture
def slow(owner):
    return JobFactory(
        owner=owner,
        name="Slow <b>",
        tags=["home"],
        last_duration=timedelta(minutes=7),
        created_at=clock.now(),
    )


def test_page_tells_what_runs_and_why_others_do_not(web, slow):
    foreign = JobFactory(owner=UserFactory(), name="Foreign")

    page = html_of(web.get("/rehearsal/"))

    assert "Slow &lt;b&gt;" in page
    assert "The previous run was still running." in page
    assert foreign.name not in page


def test_page_asks_about_a_period_a_tag_and_a_job(web, slow):
    other = JobFactory(owner=slow.owner, name="Other")

    assert "Other" not in html_of(web.get("/rehearsal/", {"tag": "home"}))
    only = html_of(web.get("/rehearsal/", {"job": other.public_id, "from": "tomorrow"}))
    assert "Other" in only
    assert "Slow" not in only


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"from": "gibberish"}, "From: "),
        ({"to": "yesterday"}, "To: Choose an end that is ahead, and after the beginning."),
        ({"to": "in 60 days"}, "To: Choose at most 31 days."),
        ({"tag": "x" * 201}, "Tag: Use at most 200 printable characters."),
    ],
)
def test_bad_input_is_named(web, slow, asked, words):
    answer = web.get("/rehearsal/", asked)

    assert answer.status_code == 200
    assert words in html_of(answer)


def test_job_of_somebody_else_is_not_found(web):
    assert web.get("/rehearsal/", {"job": JobFactory().public_id}).status_code == 404


@pytest.mark.parametrize("path", ["/calendar/", "/agents/"])
def test_page_is_linked(web, path):
    assert 'href="/rehearsal/"' in html_of(web.get(path))
