"""What agents ask, in the terminal: listed, shown whole, and answered with the code of what was shown."""

import pytest

from schedules.models import Approval
from tests.factories import ApprovalFactory, ExecutionFactory, JobFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def approval(owner) -> Approval:
    job = JobFactory(owner=owner, name="Notes", task="prompt", kwargs={"prompt": "Push it."})
    return ApprovalFactory(
        execution=ExecutionFactory(job=job, status="queued", attempt=1),
        arguments={"command": "git push\u202e origin \x1b[2Jmain"},
    )


def test_what_waits_is_listed_and_shown_with_a_code(cronty, approval):
    assert "Notes" in cronty("approvals").out

    shown = cronty("approvals", str(approval.pk)).out

    assert "git push<U+202E> origin <U+001B>[2Jmain" in shown
    assert approval.digest[:8] in shown
    assert cronty("approvals", "--json").json[0]["digest"] == approval.digest


def test_answer_needs_the_code_of_what_was_shown(cronty, approval):
    number = str(approval.pk)

    assert cronty("approvals", number, "once").code == 2
    assert cronty("approvals", number, "once", "--code", "00000000").code == 1
    assert Approval.objects.get().status == "waiting"

    said = cronty("approvals", number, "once", "--code", approval.digest[:8])

    assert (said.code, Approval.objects.get().status) == (0, "allowed")
    assert said.out.startswith(f"{number}: allowed by ")


def test_nothing_to_answer_is_said(cronty, owner):
    assert cronty("approvals").out == "No agent asks for anything.\n"
    assert cronty("approvals", "7").code != 0


def test_question_is_shown_and_answered_in_words(cronty, approval):
    question = ApprovalFactory(
        execution=ExecutionFactory(job=approval.job, status="queued", attempt=1),
        tool="ask_person",
        call_id="",
        arguments={"question": "Which one?", "choices": ["the first", "the second"]},
    )
    number, code = str(question.pk), question.digest[:8]

    shown = cronty("approvals", number)
    assert "Which one?" in shown.out
    assert "the first, the second" in shown.out
    assert cronty("approvals", number, "once", "--code", code).code == 1
    assert cronty("approvals", number, "deny", "--code", code, "--text", "x").code == 2

    said = cronty("approvals", number, "reply", "--code", code, "--text", "the second")

    question.refresh_from_db()
    assert (said.code, question.status, question.reply) == (0, "allowed", "the second")
    assert said.out.startswith(f"{number}: answered by ")
