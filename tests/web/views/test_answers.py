"""The answer page: buttons pressed by an app, and the page behind a tap, without a login."""

from datetime import timedelta

import pytest
import time_machine
from django.test import Client

from schedules import clock
from schedules.models import Event, Question
from schedules.tasks.signed_links import ANSWER_LIFETIME, Button, answer_token
from tests.factories import ExecutionFactory, reminder_job

pytestmark = pytest.mark.django_db

PAGE = {"HTTP_ACCEPT": "text/html,application/xhtml+xml"}


@pytest.fixture
def run(owner):
    job = reminder_job(owner=owner, name="Pills <b>", ask="every 10m")
    row = ExecutionFactory(job=job, scheduled_for=clock.now())
    Question.objects.create(execution=row, job=job, asked_at=clock.now(), due_at=clock.now())
    return row


@pytest.fixture
def phone() -> Client:
    """An app or a browser without a session, which enforces tokens against forged requests."""
    return Client(enforce_csrf_checks=True)


def address(run, button: str = "page") -> str:
    return f"/a/{answer_token(run.pk, run.key, Button(button))}/"


def status() -> str:
    return Question.objects.get().status


def test_app_presses_done(phone, run):
    answer = phone.post(address(run, "done"))

    assert (answer.status_code, status()) == (200, "done")
    assert answer["Content-Type"].startswith("text/plain")
    assert answer.content.decode().startswith("Done by ntfy: home, after ")


def test_scanners_change_nothing(phone, run):
    for button in ["done", "snooze", "skip", "page"]:
        for method in ["get", "head", "options", "put", "delete"]:
            getattr(phone, method)(address(run, button), **PAGE)

            assert status() == "open"
            assert not Event.objects.exists()


def test_forged_link_is_refused_without_asking_the_database(phone, django_assert_num_queries):
    for token in ["x", "1.done.0123456789abcdef.abc.def", "é", "a" * 3000]:
        with django_assert_num_queries(0):
            answers = [phone.get(f"/a/{token}/", **PAGE), phone.post(f"/a/{token}/")]

        assert [answer.status_code for answer in answers] == [404, 404]


def test_expired_link_is_refused(phone, run):
    link = address(run, "done")

    with time_machine.travel(clock.now() + ANSWER_LIFETIME + timedelta(minutes=1)):
        answer = phone.post(link)

    assert (answer.status_code, status()) == (410, "open")
    assert "expired" in answer.content.decode()


@pytest.mark.parametrize("words", ["1h", "tomorrow at 9:00"])
def test_page_snoozes_in_words(phone, run, words):
    answer = phone.post(address(run), {"answer": "snooze", "words": words, "seen": "0"}, **PAGE)

    assert answer.status_code == 200
    assert status() == "snoozed"
    assert Question.objects.get().due_at > clock.now()


def test_page_that_is_out_of_date_shows_how_it_stands(phone, run):
    phone.post(address(run, "snooze"))
    for seen in ["0", "", "x", "9" * 50]:
        answer = phone.post(address(run), {"answer": "done", "seen": seen}, **PAGE)

        assert (answer.status_code, status()) == (409, "snoozed")
        assert "Somebody has answered meanwhile" in answer.content.decode()
        assert 'name="seen" value="1"' in answer.content.decode()


def test_page_keeps_its_address_to_itself(phone, run):
    answer = phone.get(address(run), **PAGE)

    assert (answer["Referrer-Policy"], answer["Cache-Control"]) == ("no-referrer", "no-store")
    assert answer["X-Robots-Tag"] == "noindex"


def test_owner_answers_on_the_page_of_the_job(web, run):
    answer = web.post(f"/jobs/{run.job.public_id}/answer/", {"answer": "snooze", "until": "1h"}, follow=True)

    assert status() == "snoozed"
    assert f"Snoozed by {run.owner.username} until" in answer.content.decode()
