"""What waits for a person, and what was answered lately: whose, in which order, how many, and in which words."""

from datetime import timedelta

import pytest

from schedules import clock, engine, services
from schedules.models import AgentRun, Approval, Job
from schedules.result import Ok
from schedules.secrets.masking import MASK
from schedules.services import waiting_list
from schedules.services.jobs.proposals import confirm
from schedules.services.permissions import Actor
from schedules.services.runs.approvals import ALWAYS, DENY, ONCE, REPLY, answer_approval, permission_words
from schedules.services.runs.explanations import why
from schedules.services.waiting_list import answered_requests, waiting_requests
from tests.factories import ApprovalFactory, ExecutionFactory, JobFactory

RUNNER = '[notes]\ndescription = "x"\nkind = "claude"\ndirectory = "/srv"\ngrantable = {}\n'
RULE = "Bash(git push origin main)"
QUESTION = {
    "tool": "ask_person",
    "call_id": "",
    "arguments": {"question": "Which one?", "choices": ["a", "b"]},
}


def ask(owner, **fields) -> Approval:
    job = JobFactory(owner=owner, task="prompt", kwargs={"prompt": "Push it."})
    return ApprovalFactory(execution=ExecutionFactory(job=job, status="queued", attempt=1), **fields)


def propose(owner, **fields) -> Job:
    proposed = {"proposed_at": clock.now(), "proposed_by": "laptop", **fields}
    return JobFactory(owner=owner, paused=True, next_run_at=None, **proposed)


def test_calls_questions_and_proposals_of_the_user_wait_the_oldest_first(agent, owner, stranger):
    call = ask(owner, asked_at=clock.now() - timedelta(hours=2))
    question = ask(owner, **QUESTION)
    job = propose(owner, proposed_at=clock.now() - timedelta(hours=1))
    ask(stranger)
    propose(stranger)

    requests, has_more = waiting_requests(agent)

    assert [(request.job, request.approval, request.by) for request in requests] == [
        (call.job, call, "notes"),
        (job, None, "laptop"),
        (question.job, question, "notes"),
    ]
    assert not has_more
    assert not any(request.answered_at for request in requests)


def test_only_so_many_are_listed(agent, owner, monkeypatch):
    monkeypatch.setattr(waiting_list, "MAX_WAITING", 2)
    first, *_ = [ask(owner) for _ in range(2)] + [propose(owner)]

    requests, has_more = waiting_requests(agent)

    assert (requests[0].approval, len(requests), has_more) == (first, 2, True)


def test_agent_of_few_tasks_sees_only_theirs(owner, agent):
    ask(owner)
    propose(owner)
    narrow = Actor(owner, agent.door, name="laptop", tasks=frozenset({"notify"}))

    assert waiting_requests(narrow) == ([], False)
    assert answered_requests(narrow, clock.now()) == []


@pytest.mark.parametrize(
    ("fields", "answer", "text", "words"),
    [
        ({}, ONCE, "", "allowed by olga, and is about to be done"),
        ({}, DENY, "", "denied by olga"),
        (QUESTION, REPLY, "b", "answered by olga, and the run is about to go on"),
        (QUESTION, DENY, "", "declined by olga"),
    ],
)
def test_answer_to_a_run_is_told_with_who_gave_it(agent, actor, owner, fields, answer, text, words):
    approval = ask(owner, **fields)
    assert isinstance(answer_approval(actor, approval.pk, answer, seen=approval.digest, text=text), Ok)

    [answered] = answered_requests(agent, clock.now())

    assert (answered.approval, answered.answer) == (approval, words)
    assert waiting_requests(agent) == ([], False)


def test_missing_answer_is_told(agent, owner):
    approval = ask(owner, expires_at=clock.now() - timedelta(seconds=1))
    engine.close_approvals(clock.now())

    [answered] = answered_requests(agent, clock.now())

    assert answered.answer == "denied, because nobody answered in time"
    assert answered.answered_at == approval.expires_at


def test_confirmed_and_discarded_proposals_are_told_the_newest_first(agent, actor, owner):
    confirmed, deleted, other = propose(owner), propose(owner), JobFactory(owner=owner)
    assert isinstance(confirm(actor, confirmed.public_id), Ok)
    for job in (deleted, other):
        assert isinstance(services.delete(actor, job.public_id), Ok)

    answered = answered_requests(agent, clock.now())

    assert [(request.job, request.answer, request.by) for request in answered] == [
        (deleted, "discarded by olga", "laptop"),
        (confirmed, "confirmed by olga", "laptop"),
    ]


def test_old_answers_are_left_out(agent, actor, owner):
    assert isinstance(confirm(actor, propose(owner).public_id), Ok)

    assert answered_requests(agent, clock.now() + timedelta(days=8)) == []


@pytest.mark.parametrize(
    ("grantable", "words"),
    [
        ('["Bash"]', f"The permission {RULE} would let it pass: a person can give it to the job."),
        (
            '["Read"]',
            f"The permission {RULE} would let it pass, but the operator has not listed it in grantable of the runner"
            " notes.",
        ),
    ],
)
def test_permission_that_would_let_a_call_pass_is_named_and_who_gives_it(
    agent, owner, use_runners, grantable, words
):
    use_runners(RUNNER.format(grantable))
    approval = ask(owner)

    assert permission_words(approval) == words
    explained = why(agent, approval.job.public_id, None, clock.now())
    assert isinstance(explained, Ok)
    assert explained.value.explanation.endswith(words)


def test_permission_that_was_given_is_named(actor, agent, owner, use_runners):
    use_runners(RUNNER.format('["Bash"]'))
    approval = ask(owner, grant=RULE)
    assert isinstance(answer_approval(actor, approval.pk, ALWAYS, seen=approval.digest), Ok)

    [answered] = answered_requests(agent, clock.now())

    assert permission_words(answered.approval) == f"The job has the permission {RULE}, which lets it pass."


@pytest.mark.parametrize(
    ("kind", "command", "words"),
    [
        (
            "claude",
            "git push origin main",
            f"The permission {RULE} would let it pass: a person can give it to the job.",
        ),
        ("claude", "git push; rm -r x", ""),
        ("claude", f"curl {MASK}", ""),
        ("codex", "git push origin main", ""),
    ],
)
def test_permission_that_a_run_lacked_is_named_though_it_did_not_ask(
    owner, agent, use_runners, kind, command, words
):
    use_runners(RUNNER.format('["Bash"]'))
    job = JobFactory(owner=owner, task="prompt", kwargs={"prompt": "Push it."})
    run = ExecutionFactory(job=job, status="failed", attempt=1)
    AgentRun.objects.create(
        **{"execution": run, "attempt": 1, "job": job, "owner": owner, "runner": "notes", "kind": kind},
        **{"verdict": "refused", "started_at": clock.now(), "denials": [{"name": "Bash", "input": command}]},
    )

    explained = why(agent, job.public_id, None, clock.now())

    assert isinstance(explained, Ok)
    assert explained.value.explanation == f"Failed on the first attempt. {words}".strip()


@pytest.mark.parametrize("command", ["a; b", f"curl -H '{MASK}'"])
def test_call_that_no_rule_can_name_is_asked_each_time(command):
    call = Approval(tool="Bash", call_id="1", arguments={"command": command}, runner="notes")

    assert permission_words(call) == "No permission can name this call, so a person is asked each time."
    assert permission_words(Approval(**QUESTION)) == ""
