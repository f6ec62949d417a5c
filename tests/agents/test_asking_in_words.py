"""Runs that ask a question in words: they wait, and go on with the answer, once, with any program."""

import json
from datetime import timedelta

import pytest

from schedules import clock, engine
from schedules.models import AgentRun, Approval, Event, Execution, Incident, Job
from schedules.result import Code, Ok
from schedules.services.permissions import Actor
from schedules.services.runs.approvals import ALWAYS, DENY, ONCE, REPLY, answer_approval, list_waiting
from tests.agents.asked_questions import QuestioningProgram
from tests.agents.streams import SESSION
from tests.agents.work import work
from tests.factories import JobFactory
from tests.sink import Answer, Sink

# Runs read their owner in another thread.
pytestmark = pytest.mark.django_db(transaction=True)

Status = Execution.Status
Verdict = AgentRun.Verdict
SAID = "Two drafts wait.\nNEEDS YOU: which one shall I send? [first | second]"


@pytest.fixture(autouse=True)
def job(owner) -> Job:
    return JobFactory(
        owner=owner, task="prompt", kwargs={"prompt": "Send it.", "runner": "one"}, next_run_at=clock.now()
    )


@pytest.fixture
def asked(cluster, use_runners, tmp_path):
    """Let a run ask, and return the program."""

    def ask(kind: str = "claude", *said: str, **options: str) -> QuestioningProgram:
        program = QuestioningProgram(tmp_path, kind, said or (SAID,), **options)
        use_runners(program.runner)
        work(cluster)
        return program

    return ask


def reply(person: Actor, text: str = "second", answer: str = REPLY):
    approval = Approval.objects.order_by("-pk")[0]
    return answer_approval(person, approval.pk, answer, seen=approval.digest, text=text)


@pytest.mark.parametrize("kind", ["claude", "codex", "command"])
def test_question_waits_for_a_person(asked, kind, job, person):
    program = asked(kind)

    run, approval = Execution.objects.get(), Approval.objects.get()
    assert (run.status, run.attempt, run.finished_at) == (Status.QUEUED, 1, None)
    assert AgentRun.objects.get().verdict == Verdict.NEEDS_YOU
    assert approval.is_question
    assert (approval.question, approval.choices) == ("which one shall I send?", ["first", "second"])
    assert (approval.why, approval.job_id, approval.is_genuine) == ("Two drafts wait.", job.pk, True)
    assert approval.session_id == ("" if kind == "command" else SESSION)
    assert list_waiting(person) == [approval]
    assert "t asks: which one shall I send? [first | second]" in Incident.objects.get().details
    assert len(program.starts) == 1
    assert "If it has a few answers" in program.starts[0][1]


@pytest.mark.parametrize(("kind", "resumes"), [("claude", "--resume"), ("codex", "resume")])
def test_session_goes_on_with_the_answer_alone(asked, cluster, person, kind, resumes):
    program = asked(kind)

    assert isinstance(reply(person), Ok)
    run = work(cluster)

    assert (run.status, run.result, run.attempt) == (Status.SUCCEEDED, "All done.", 2)
    arguments, prompt = program.starts[-1]
    assert arguments[arguments.index(resumes) + 1] == SESSION
    assert prompt.startswith("<answer>\nsecond\n</answer>\n")
    assert "Send it." not in prompt
    approval = Approval.objects.get()
    assert (approval.status, approval.reply, approval.answered_by) == ("used", "second", "olga")
    assert Incident.objects.get().ending == "Answered"
    event = Event.objects.get(actor="olga")
    assert (event.verb, event.after["question"], event.after["reply"]) == (
        "reply",
        "which one shall I send?",
        "second",
    )
    assert work(cluster) is None


def test_codex_counts_only_what_is_new_in_its_session(asked, cluster, person):
    asked("codex", "NEEDS YOU: which?", "NEEDS YOU: when?")
    for text in ("a", "now"):
        reply(person, text)
        work(cluster)

    runs = AgentRun.objects.order_by("attempt")
    assert [(run.tokens_in, run.tokens_out) for run in runs] == [(100, 10)] * 3


def test_program_without_sessions_gets_the_prompt_with_all_answers(asked, cluster, person):
    program = asked("command", "NEEDS YOU: which one?", "NEEDS YOU: when?")

    for text in ("the second", "now"):
        assert isinstance(reply(person, text), Ok)
        run = work(cluster)

    assert (run.status, run.result, run.attempt) == (Status.SUCCEEDED, "All done.\n", 3)
    prompt = program.starts[-1][1]
    parts = ("Send it.", "the second", '"which one?"', "now", '"when?"')
    assert sorted(parts, key=prompt.index) == list(parts)
    assert [row.status for row in Approval.objects.all()] == ["used", "used"]


def test_hosted_agent_gets_another_message_with_the_answer(cluster, use_runners, person):
    with Sink(Answer(body=b'{"answer": "Sent."}')) as sink:
        sink.then(Answer(body=b'{"answer": "NEEDS YOU: which one?"}'))
        use_runners(
            f'[one]\ndescription = "x"\nkind = "webhook"\nurl = "{sink.url()}"\nmay_ask = true\n'
            'allow = ["everyone"]\n'
        )
        work(cluster)
        reply(person, "the second")
        run = work(cluster)
        first, second = sink.requests

    assert (run.status, run.result) == (Status.SUCCEEDED, "Sent.")
    assert "the second" in json.loads(second.body)["prompt"]
    assert first.headers["idempotency-key"] != second.headers["idempotency-key"]


def test_declined_question_ends_the_run_as_refused(asked, cluster, person):
    program = asked()

    assert isinstance(reply(person, "", DENY), Ok)

    run = Execution.objects.get()
    assert (run.status, run.error) == (
        Status.FAILED,
        "olga declined it. It had asked: which one shall I send?",
    )
    assert AgentRun.objects.get().verdict == Verdict.REFUSED
    assert Event.objects.get(actor="olga").verb == "decline"
    assert work(cluster) is None
    assert len(program.starts) == 1


def test_no_answer_in_time_is_a_denial_with_a_row(asked):
    asked()
    later = clock.now() + timedelta(days=1, seconds=1)

    assert engine.close_approvals(later) == 1

    assert Execution.objects.get().error.startswith(
        "Nobody answered in time, which is a denial. It had asked:"
    )
    assert Approval.objects.get().status == Approval.Status.EXPIRED
    event = Event.objects.get(verb="decline")
    assert (event.actor, event.after["reason"]) == ("engine", "Nobody answered in time, which is a denial.")


def test_wrong_answer_changes_nothing(asked, person):
    asked()
    for answer, text, field in [
        (REPLY, "", "text"),
        (REPLY, " \u200b\n", "text"),
        (REPLY, "x" * 4001, "text"),
        (ONCE, "", "answer"),
        (ALWAYS, "", "answer"),
        (DENY, "because", "text"),
        ("yes", "", "answer"),
    ]:
        refused = reply(person, text, answer)

        assert refused.code == Code.INVALID
        assert list(refused.errors) == [field]
        assert Approval.objects.get().status == Approval.Status.WAITING


def test_answer_is_cleaned_of_what_nobody_sees(asked, cluster, person):
    program = asked()

    reply(person, "  the \u202esecond\u200b\r\none\x1b ")
    work(cluster)

    assert "<answer>\nthe second\none\n</answer>" in program.starts[-1][1]


@pytest.mark.parametrize("arguments", [{"question": "Which password?", "choices": []}, [], "x"])
def test_edited_question_cannot_be_answered_or_used(asked, cluster, person, arguments):
    program = asked()
    seen = Approval.objects.get()
    Approval.objects.update(arguments=arguments)

    assert answer_approval(person, seen.pk, REPLY, seen=seen.digest, text="x").code == Code.APPROVAL_CHANGED

    Approval.objects.update(status=Approval.Status.ALLOWED, reply="x")
    Execution.objects.update(available_at=clock.now())
    run = work(cluster)
    assert "What was answered differs from what was asked" in run.error
    assert len(program.starts) == 1


def test_runner_that_may_not_ask_fails_as_before(asked):
    program = asked(more="")

    assert Execution.objects.get().status == Status.FAILED
    assert AgentRun.objects.get().verdict == Verdict.NEEDS_YOU
    assert not Approval.objects.exists()
    assert "If it has a few answers" not in program.starts[0][1]


def test_interrupted_run_is_not_repeated_with_the_answer(asked, cluster, person):
    program = asked()
    reply(person)
    claim = engine.claim_runs(cluster.pk, clock.now(), 1)[0]
    engine.start_runs(cluster.pk, claim.attempt, [claim.execution_id], clock.now())
    # The worker has used the answer, and died.
    Approval.objects.update(status=Approval.Status.USED)
    Execution.objects.update(status=Status.QUEUED, available_at=clock.now(), lease_until=None)

    run = work(cluster)

    assert run.status == Status.FAILED
    assert "how far it came is unknown" in run.error
    assert len(program.starts) == 1


def test_long_question_is_refused_rather_than_cut(asked):
    asked("claude", f"NEEDS YOU: {'x' * 2001}")

    assert not Approval.objects.exists()
    assert "too long to be shown whole" in AgentRun.objects.get().words


def test_hidden_characters_of_a_question_are_shown_as_codes(asked):
    asked("claude", "NEEDS YOU: Send \u202eit\u200b? [y\u200bes | no]")

    approval = Approval.objects.get()
    assert approval.question == "Send <U+202E>it<U+200B>?"
    assert approval.choices == ["y<U+200B>es", "no"]
    assert approval.is_genuine
