"""What agents ask, on the pages and behind the link of an alert: shown whole, and answered by a POST only."""

from datetime import timedelta

import pytest
import time_machine
from django.test import Client

from schedules import clock, engine
from schedules.models import Approval, Event, Execution, Incident, Job, Profile
from schedules.models.executions import ASKS
from schedules.tasks.signed_links import (
    APPROVAL_LIFETIME,
    Button,
    answer_token,
    approval_token,
    read_approval,
    stop_token,
)
from tests.factories import ApprovalFactory, ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db

Status = Approval.Status


@pytest.fixture
def job(owner):
    return JobFactory(owner=owner, name="Notes <b>", task="prompt", kwargs={"prompt": "Push it."})


@pytest.fixture
def approval(job):
    run = ExecutionFactory(
        job=job, status="queued", attempt=1, available_at=clock.now() + timedelta(days=2), reason=ASKS
    )
    return ApprovalFactory(execution=run)


@pytest.fixture
def phone() -> Client:
    """A browser without a session, which enforces tokens against forged requests."""
    return Client(enforce_csrf_checks=True)


def address(approval: Approval) -> str:
    return f"/approve/{approval_token(approval.pk, approval.digest)}/"


def status() -> str:
    return Approval.objects.get().status


def press(client: Client, approval: Approval, answer: str = "once", **fields: str):
    return client.post(address(approval), {"answer": answer, "seen": approval.digest} | fields)


def test_link_shows_the_whole_call_and_changes_nothing(phone, approval):
    page = phone.get(address(approval)).content.decode()

    for text in (
        "Notes &lt;b&gt;",
        "git push origin main",
        "/srv/notes",
        "The notes are tidy now.",
        "Allow once",
    ):
        assert text in page
    assert "Always for this job" not in page
    assert status() == Status.WAITING
    assert not Event.objects.exists()


def test_scanners_change_nothing(phone, approval):
    for method in ["get", "head", "options", "put", "delete"]:
        getattr(phone, method)(address(approval))

        assert status() == Status.WAITING
        assert not Event.objects.exists()


def test_links_tell_somebody_who_is_logged_in_as_another_person(phone, web, other, owner, approval):
    run = ExecutionFactory(job=JobFactory(owner=owner, task="notify", kwargs={"message": "Pills"}))
    for link in (
        address(approval),
        f"/a/{answer_token(run.pk, run.key, Button.PAGE)}/",
        f"/agents/stop/{stop_token(owner.pk)}/",
    ):
        for client, is_told in ((phone, False), (web, False), (other, True)):
            page = client.get(link, headers={"Accept": "text/html"}).content.decode()
            assert ("belongs to somebody else" in page) == is_told, link


def test_allow_lets_the_run_go_on_and_names_the_link(phone, approval):
    answer = press(phone, approval)

    assert (answer.status_code, status()) == (200, Status.ALLOWED)
    assert "Allowed once. The run goes on." in answer.content.decode()
    assert Execution.objects.get().available_at <= clock.now()
    event = Event.objects.get()
    assert (event.verb, event.door, event.actor) == ("allow", "link", "Link in an alert")


def test_link_works_once(phone, approval):
    press(phone, approval)

    again = press(phone, approval, "deny")

    assert again.status_code == 409
    assert "This was allowed by Link in an alert" in again.content.decode()
    assert status() == Status.ALLOWED


def test_denial_says_that_a_program_which_waits_goes_on(phone, approval):
    Approval.objects.update(in_run=True)
    Execution.objects.update(status="running")

    page = press(phone, approval, "deny").content.decode()

    assert "Denied. The run goes on without it." in page
    assert (status(), Execution.objects.get().status) == (Status.DENIED, "running")


def test_forged_and_old_links_answer_nothing(phone, approval):
    forged = address(approval)[:-2] + "x/"
    assert phone.post(forged, {"answer": "once", "seen": approval.digest}).status_code == 404
    old = address(approval)
    with time_machine.travel(clock.now() + APPROVAL_LIFETIME + timedelta(minutes=1), tick=False):
        assert phone.post(old, {"answer": "once", "seen": approval.digest}).status_code == 410
    assert status() == Status.WAITING


def test_page_shows_markup_and_hidden_characters_as_text(phone, approval):
    row = ApprovalFactory(
        execution=ExecutionFactory(job=approval.job, status="queued", attempt=1),
        arguments={"command": "<script>alert(1)</script>\u202e\x1b[2J"},
        tool="<b>Bash",
        why="<img src=x>",
    )

    page = phone.get(address(row)).content.decode()

    assert "&lt;script&gt;alert(1)&lt;/script&gt;&lt;U+202E&gt;&lt;U+001B&gt;[2J" in page
    assert "<script>alert" not in page
    assert "&lt;img src=x&gt;" in page
    assert "&lt;b&gt;Bash" in page


def test_inbox_and_run_show_what_waits_and_take_the_answer(client, approval):
    client.force_login(approval.owner)
    run_page = client.get(f"/runs/{approval.execution_id}/").content.decode()
    inbox = client.get("/inbox/").content.decode()

    for page in (inbox, run_page):
        assert "An agent asks to use Bash" in page
        assert "git push origin main" in page
    assert "Needs you" in run_page
    assert "No prompts waiting" not in inbox

    client.post(f"/inbox/approvals/{approval.pk}/answer/", {"answer": "once", "seen": approval.digest})

    assert status() == Status.ALLOWED
    assert "An agent asks" not in client.get("/inbox/").content.decode()
    assert "Bash: allowed by olga" in client.get(f"/runs/{approval.execution_id}/").content.decode()


def test_alert_opens_the_page_of_the_approval(settings, approval, owner):
    settings.CRONTY_URL = "https://cronty.example.com"
    Profile.objects.filter(user=owner).update(failure_topic="phone")
    now = clock.now()
    engine.raise_incident(
        Incident.Kind.NEEDS_YOU, owner.pk, approval.subject, "Notes", "It waits.", now, job_id=approval.job_id
    )

    engine.send_alerts(now + timedelta(minutes=1))

    notice = Job.objects.get(public_id__startswith="notice")
    token = notice.kwargs["click"].removeprefix("https://cronty.example.com/approve/").strip("/")
    assert read_approval(token).approval_id == approval.pk
    assert read_approval(token).is_about(approval.digest)


@pytest.fixture
def question(job):
    return ApprovalFactory(
        execution=ExecutionFactory(
            job=job,
            status="queued",
            attempt=1,
            available_at=clock.now() + timedelta(days=2),
            error="It waits.",
        ),
        tool="ask_person",
        call_id="",
        arguments={"question": "Which <b>one</b>?", "choices": ["the first", 'the "second"']},
    )


def test_link_shows_a_question_with_its_choices(phone, question):
    page = phone.get(address(question)).content.decode()

    for text in (
        "An agent asks you:",
        "Which &lt;b&gt;one&lt;/b&gt;?",
        "The notes are tidy now.",
        "Send answer",
    ):
        assert text in page
    assert 'value="the &quot;second&quot;"' in page
    assert "Allow once" not in page
    assert "ask_person" not in page
    assert status() == Status.WAITING


@pytest.mark.parametrize(
    "fields",
    [
        {"answer": "", "choice": 'the "second"', "text": ""},
        {"answer": "reply", "text": 'the "second"'},
    ],
)
def test_choice_and_typed_answer_let_the_run_go_on(phone, question, fields):
    answer = press(phone, question, **fields)

    assert (answer.status_code, status()) == (200, Status.ALLOWED)
    assert Approval.objects.get().reply == 'the "second"'
    assert Execution.objects.get().available_at <= clock.now()
    page = answer.content.decode()
    assert "Your answer was sent. The run goes on." in page
    assert "the &quot;second&quot;" in page


def test_inbox_and_run_take_the_answer_to_a_question(client, question):
    client.force_login(question.owner)
    for page in ("/inbox/", f"/runs/{question.execution_id}/"):
        shown = client.get(page).content.decode()
        assert "An agent asks you a question" in shown
        assert "Which &lt;b&gt;one&lt;/b&gt;?" in shown

    client.post(
        f"/inbox/approvals/{question.pk}/answer/",
        {"choice": "the first", "text": "", "seen": question.digest},
    )

    assert (status(), Approval.objects.get().reply) == (Status.ALLOWED, "the first")
    run_page = client.get(f"/runs/{question.execution_id}/").content.decode()
    assert "A question: answered by olga" in run_page
    assert "the first" in run_page
    assert "answered a question of the agent of" in client.get("/activity/").content.decode()
