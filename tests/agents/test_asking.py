"""Runs that ask a person: the call waits, and is made once after it was allowed, with a program that asks its hook."""

from datetime import timedelta

import pytest
from django.utils import timezone

from schedules import clock, engine
from schedules.agents import asking
from schedules.models import AgentRun, Approval, Event, Execution, Incident, Job
from schedules.result import Code, Err, Ok
from schedules.services.jobs.states import cancel
from schedules.services.permissions import Actor
from schedules.services.runs.agent_stops import stop_agents
from schedules.services.runs.approvals import ALWAYS, DENY, ONCE, answer_approval, list_waiting
from tests.agents.asking_program import PUSH, AskingProgram
from tests.agents.work import work
from tests.factories import JobFactory

# Runs read their owner in another thread.
pytestmark = pytest.mark.django_db(transaction=True)

Status = Execution.Status
Verdict = AgentRun.Verdict


@pytest.fixture
def job(owner) -> Job:
    return JobFactory(
        owner=owner, task="prompt", kwargs={"prompt": "Push it.", "runner": "one"}, next_run_at=clock.now()
    )


@pytest.fixture
def asked(job, cluster, use_runners, tmp_path):
    """Let a run ask for its call, and return the program."""

    def ask(*calls, more: str = "may_ask = true\n", then: str = "pass") -> AskingProgram:
        program = AskingProgram(tmp_path, calls or (PUSH,), then)
        use_runners(program.runner(more))
        work(cluster)
        return program

    return ask


def answer(person: Actor, what: str, approval: Approval | None = None):
    approval = approval or Approval.objects.get()
    return answer_approval(person, approval.pk, what, seen=approval.digest)


def test_call_that_is_not_granted_waits_and_nothing_was_done(asked, job, person):
    program = asked()

    run, approval = Execution.objects.get(), Approval.objects.get()
    assert (run.status, run.attempt, run.finished_at) == (Status.QUEUED, 1, None)
    assert AgentRun.objects.get().verdict == Verdict.NEEDS_YOU
    assert (approval.tool, approval.arguments, approval.folder) == (
        "Bash",
        PUSH["input"],
        str(program.folder),
    )
    assert (approval.job_id, approval.execution_id, approval.why) == (job.pk, run.pk, "I need this.")
    assert approval.expires_at - approval.asked_at == pytest.approx(
        timedelta(days=1), abs=timedelta(seconds=5)
    )
    assert approval.is_genuine
    assert list_waiting(person) == [approval]
    assert program.made == []
    told = Incident.objects.get()
    assert (told.kind, told.subject) == ("needs-you", f"approval {approval.pk}")
    assert "git push origin main" in told.details


def test_allowed_call_is_made_once_in_the_same_session(asked, cluster, person):
    program = asked()

    assert isinstance(answer(person, ONCE), Ok)
    run = work(cluster)

    assert (run.status, run.result, run.attempt) == (Status.SUCCEEDED, "All done.", 2)
    assert program.made == ["toolu_1"]
    arguments, prompt = program.starts[-1]
    assert "--resume" in arguments
    assert prompt == ""
    assert Approval.objects.get().status == Approval.Status.USED
    assert Incident.objects.get().ending == "Allowed"
    assert [event.verb for event in Event.objects.filter(actor="olga")] == ["allow"]
    assert work(cluster) is None


def test_another_call_after_the_allowed_one_asks_again(asked, cluster, person):
    other = {"id": "toolu_2", "name": "Bash", "input": {"command": "git push --force"}}
    program = asked(PUSH, other)
    answer(person, ONCE)

    run = work(cluster)

    assert run.status == Status.QUEUED
    assert program.made == ["toolu_1"]
    assert [row.call_id for row in Approval.objects.order_by("pk")] == ["toolu_1", "toolu_2"]


def test_same_call_with_other_arguments_is_not_the_allowed_one(asked, cluster, person, use_runners, tmp_path):
    asked()
    answer(person, ONCE)
    changed = AskingProgram(tmp_path, [PUSH | {"input": {"command": "rm -rf /"}}])
    use_runners(changed.runner())

    run = work(cluster)

    assert run.status == Status.QUEUED
    assert changed.made == []


def test_denied_run_ends_as_refused_and_starts_no_more(asked, cluster, person, job):
    program = asked()

    assert isinstance(answer(person, DENY), Ok)

    run = Execution.objects.get()
    assert run.status == Status.FAILED
    assert run.error == "olga denied it. It had asked for Bash: git push origin main, push."
    assert AgentRun.objects.get().verdict == Verdict.REFUSED
    assert Approval.objects.get().status == Approval.Status.DENIED
    assert work(cluster) is None
    assert program.made == []
    job.refresh_from_db()
    assert job.recent == "F"


def test_always_adds_the_rule_to_the_job_and_the_next_run_does_not_ask(asked, cluster, person, job):
    program = asked(more='may_ask = true\ngrantable = ["Bash"]\n')

    assert isinstance(answer(person, ALWAYS), Ok)
    work(cluster)
    Job.objects.update(next_run_at=clock.now())
    run = work(cluster)

    job.refresh_from_db()
    assert job.grants == ["Bash(git push origin main)"]
    assert run.status == Status.SUCCEEDED
    assert program.made == ["toolu_1", "toolu_1"]
    assert "--allowedTools=Bash(git push origin main)" in program.starts[-1][0]
    assert Approval.objects.count() == 1


def test_always_is_refused_where_the_operator_allows_no_such_rule(asked, person, job):
    asked()

    assert answer(person, ALWAYS).code == Code.APPROVAL_HAS_NO_GRANT
    job.refresh_from_db()
    assert job.grants == []
    assert Approval.objects.get().status == Approval.Status.WAITING


def test_grants_are_passed_on_exactly(asked, job):
    Job.objects.update(grants=["Bash(git push origin main)", "mcp__notes__write"])

    program = asked(more='tools = ["Read"]\ngrantable = ["*"]\n')

    assert program.starts[0][0].count("--allowedTools=Read,Bash(git push origin main),mcp__notes__write") == 1
    assert program.made == ["toolu_1"]
    assert Execution.objects.get().status == Status.SUCCEEDED


def test_grant_that_the_operator_took_back_ends_the_run_before_it_starts(asked, job):
    Job.objects.update(grants=["Bash(git push:*)"])

    program = asked(more='grantable = ["Read"]\n')

    run = Execution.objects.get()
    assert (run.status, program.starts) == (Status.FAILED, [])
    assert run.error.startswith("The runner one does not allow the permission Bash(git push:*):")


def test_runner_that_may_not_ask_refuses(asked):
    asked(more="")

    assert Execution.objects.get().status == Status.FAILED
    assert AgentRun.objects.get().verdict == Verdict.REFUSED
    assert not Approval.objects.exists()


def test_no_answer_in_time_is_a_denial_with_a_row(asked, cluster, job):
    program = asked()
    later = clock.now() + timedelta(days=1, seconds=1)

    assert engine.close_approvals(later) == 1
    assert engine.close_approvals(later) == 0

    run = Execution.objects.get()
    assert run.status == Status.FAILED
    assert run.error.startswith("Nobody answered in time, which is a denial.")
    assert Approval.objects.get().status == Approval.Status.EXPIRED
    assert Event.objects.get(verb="deny").actor == "engine"
    assert program.made == []


def test_run_whose_question_nobody_closed_does_not_start_after_its_end(asked, cluster, person):
    program = asked()
    Execution.objects.update(available_at=clock.now())

    run = work(cluster)

    assert run.status == Status.FAILED
    assert run.error.startswith("Nobody has allowed Bash: git push")
    assert len(program.starts) == 1


def test_answer_after_the_end_of_its_time_changes_nothing(asked, person):
    asked()
    Approval.objects.update(expires_at=timezone.now())

    assert answer(person, ONCE).code == Code.APPROVAL_OVER
    assert Execution.objects.get().available_at > clock.now()


def test_second_answer_is_refused(asked, person):
    asked()
    answer(person, ONCE)

    refused = answer(person, DENY)

    assert isinstance(refused, Err)
    assert (refused.code, refused.state) == (Code.APPROVAL_OVER, "allowed by olga, and is about to be done")
    assert Approval.objects.get().status == Approval.Status.ALLOWED


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("arguments", {"command": "git status"}),
        ("tool", "Read"),
        ("folder", "/elsewhere"),
        ("call_digest", "0" * 64),
        ("session_id", "another"),
        ("grant", "Bash"),
        ("why", "Harmless."),
    ],
)
def test_edited_approval_cannot_be_answered_or_used(asked, cluster, person, column, value):
    program = asked()
    seen = Approval.objects.get()
    Approval.objects.update(**{column: value})

    assert answer(person, ONCE, seen).code == Code.APPROVAL_CHANGED

    Approval.objects.update(status=Approval.Status.ALLOWED)
    Execution.objects.update(available_at=clock.now())
    run = work(cluster)
    assert (run.status, run.error) == (
        Status.FAILED,
        "What was allowed differs from what was asked, so it isn't done.",
    )
    assert program.made == []


def test_answer_to_something_else_than_what_was_shown_is_refused(asked, person):
    asked()

    assert (
        answer_approval(person, Approval.objects.get().pk, ONCE, seen="0" * 64).code == Code.APPROVAL_CHANGED
    )


@pytest.mark.parametrize("door", [Event.Door.MCP, Event.Door.API])
def test_agent_cannot_answer(asked, owner, door):
    asked()

    assert answer(Actor(owner, door, "claude"), ONCE).code == Code.APPROVALS_BY_PEOPLE
    assert Approval.objects.get().status == Approval.Status.WAITING


def test_token_for_programs_answers_for_its_owner(asked, owner):
    asked()

    assert isinstance(answer(Actor(owner, Event.Door.API, "phone", is_program=True), ONCE), Ok)


def test_stranger_cannot_answer(asked, stranger):
    asked()

    assert answer(Actor(stranger, Event.Door.WEB), ONCE).code == Code.APPROVAL_NOT_FOUND
    assert list_waiting(Actor(stranger, Event.Door.WEB)) == []


def test_nothing_is_allowed_while_agents_are_stopped(asked, person):
    asked()
    stop_agents(person)

    assert answer(person, ONCE).code == Code.AGENTS_STOPPED
    assert isinstance(answer(person, DENY), Ok)


def test_run_that_was_interrupted_after_the_answer_does_not_make_the_call_again(asked, cluster, person):
    program = asked()
    answer(person, ONCE)
    claim = engine.claim_runs(cluster.pk, clock.now(), 1)[0]
    engine.start_runs(cluster.pk, claim.attempt, [claim.execution_id], clock.now())
    # The worker has used the approval, and died.
    Approval.objects.update(status=Approval.Status.USED)
    Execution.objects.update(status=Status.QUEUED, available_at=clock.now(), lease_until=None)

    run = work(cluster)

    assert run.status == Status.FAILED
    assert "whether the call was made is unknown" in run.error
    assert len(program.starts) == 1


def test_failure_after_the_answer_is_not_repeated(asked, cluster, person, job):
    Job.objects.update(attempts=5)
    program = asked(then="sys.exit(3)")
    answer(person, ONCE)

    run = work(cluster)

    assert run.status == Status.FAILED
    assert program.made == ["toolu_1"]


def test_stopped_job_withdraws_what_it_asked(asked, cluster, person, job):
    asked()
    assert isinstance(cancel(person, job.public_id), Ok)

    refused = answer(person, ONCE)
    assert (refused.code, refused.state) == (Code.APPROVAL_OVER, "withdrawn, because its run has ended")
    assert list_waiting(person) == []
    engine.close_approvals(clock.now())
    assert Approval.objects.get().status == Approval.Status.WITHDRAWN
    assert Incident.objects.get().ended_at


def test_long_call_is_refused_rather_than_cut(asked):
    asked({"id": "toolu_1", "name": "Write", "input": {"file_path": "/x", "content": "x" * 10_001}})

    agent = AgentRun.objects.get()
    assert agent.verdict == Verdict.REFUSED
    assert "too long to be shown whole: " in agent.words
    assert not Approval.objects.exists()
    assert Execution.objects.get().status == Status.FAILED


def test_run_that_asks_without_end_is_refused(asked, cluster, person, monkeypatch):
    monkeypatch.setattr(asking, "MAX_PER_RUN", 4)
    calls = [{"id": f"toolu_{n}", "name": "Bash", "input": {"command": f"step {n}"}} for n in range(6)]
    program = asked(*calls)
    while approval := Approval.objects.filter(status=Approval.Status.WAITING).first():
        answer(person, ONCE, approval)
        run = work(cluster)

    assert Approval.objects.count() == len(program.made) == 4
    assert run.status == Status.FAILED
    assert "times before" in run.error


def test_hidden_characters_are_shown_as_codes(asked):
    command = "echo \u202egnp.exe\u200b \x1b[2J <b>bold</b>\nnext"
    asked({"id": "toolu_1", "name": "Bash", "input": {"command": command}})

    [(name, text)] = Approval.objects.get().shown_arguments
    assert (name, text) == ("command", "echo <U+202E>gnp.exe<U+200B> <U+001B>[2J <b>bold</b>\nnext")


def test_many_that_wait_cost_the_scheduler_two_queries(asked, django_assert_num_queries):
    asked()
    one = Approval.objects.get()
    Approval.objects.bulk_create(
        Approval(
            **{
                f.attname: getattr(one, f.attname)
                for f in Approval._meta.fields
                if f.name not in ("id", "attempt")
            },
            attempt=n,
        )
        for n in range(100, 300)
    )

    with django_assert_num_queries(2):
        assert engine.close_approvals(clock.now()) == 0
