"""What agents ask, over the API: listed for every token, answered by tokens of the type Program only."""

import pytest

from schedules.models import Approval
from tests.api.conftest import Program, program_of
from tests.api.test_jobs import problem
from tests.factories import ApprovalFactory, ExecutionFactory, JobFactory


@pytest.fixture
def approval(owner) -> Approval:
    job = JobFactory(owner=owner, task="prompt", kwargs={"prompt": "Push it."})
    return ApprovalFactory(execution=ExecutionFactory(job=job, status="queued", attempt=1))


def answered(program: Program, approval: Approval, answer: str = "once", digest: str | None = None):
    body = {"answer": answer, "digest": approval.digest if digest is None else digest}
    return program.call("POST", f"/agents/approvals/{approval.pk}", body)


def test_what_waits_is_listed_whole(program: Program, approval):
    [listed] = program.ok("GET", "/agents/approvals")["approvals"]

    assert (listed["id"], listed["tool"], listed["folder"]) == (approval.pk, "Bash", "/srv/notes")
    assert listed["arguments"] == {"command": "git push origin main", "description": "push"}
    assert listed["digest"] == approval.digest


@pytest.mark.parametrize(("answer", "status"), [("once", "allowed"), ("deny", "denied")])
def test_program_answers_once(program: Program, approval, answer, status):
    assert answered(program, approval, answer).status_code == 200

    assert Approval.objects.get().status == status
    assert problem(answered(program, approval))["code"] == "approval_over"


def test_answer_to_something_else_is_refused(program: Program, approval):
    assert problem(answered(program, approval, digest="0" * 64))["code"] == "approval_changed"
    assert Approval.objects.get().status == "waiting"


def test_agents_token_lists_but_does_not_answer(owner, approval):
    agent = program_of(owner, name="laptop", kind="conversation")

    assert len(agent.ok("GET", "/agents/approvals")["approvals"]) == 1
    assert problem(answered(agent, approval))["code"] == "approvals_by_people"
    assert Approval.objects.get().status == "waiting"


def test_agents_token_gives_no_permissions(owner, approval):
    agent = program_of(owner, name="laptop", kind="conversation")

    refused = agent.call(
        "POST",
        "/jobs",
        {
            **{"name": "x", "schedule": "every day at 8:00", "task": "prompt", "kwargs": {"prompt": "x"}},
            "grants": ["Bash"],
        },
    )

    assert problem(refused)["code"] == "grants_by_people"


def test_stranger_finds_nothing(stranger, approval):
    other = program_of(stranger, name="other")

    assert other.ok("GET", "/agents/approvals")["approvals"] == []
    assert problem(answered(other, approval))["code"] == "approval_not_found"


@pytest.fixture
def question(approval) -> Approval:
    run = ExecutionFactory(job=approval.job, status="queued", attempt=1)
    return ApprovalFactory(
        execution=run,
        tool="ask_person",
        call_id="",
        arguments={"question": "Which one?", "choices": ["a", "b"]},
    )


def test_questions_are_listed_with_their_choices(program: Program, question):
    call, asked = program.ok("GET", "/agents/approvals")["approvals"]

    assert (call["kind"], call["question"], call["choices"]) == ("call", "", [])
    assert (asked["kind"], asked["question"], asked["choices"]) == ("question", "Which one?", ["a", "b"])


def test_program_replies_to_a_question(program: Program, question):
    body = {"answer": "reply", "digest": question.digest, "text": "b"}

    assert program.ok("POST", f"/agents/approvals/{question.pk}", body)["status"] == "allowed"

    question.refresh_from_db()
    assert (question.status, question.reply) == ("allowed", "b")


@pytest.mark.parametrize(
    ("answer", "text", "field"), [("once", "", "answer"), ("reply", "", "text"), ("deny", "no", "text")]
)
def test_wrong_answer_to_a_question_names_the_field(program: Program, question, answer, text, field):
    body = {"answer": answer, "digest": question.digest, "text": text}

    refused = problem(program.call("POST", f"/agents/approvals/{question.pk}", body))

    assert (refused["code"], refused["errors"][0]["field"]) == ("invalid", field)
