"""Runs whose program waits for a person: the answer allows or denies one call, and everything is in the records."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from schedules import clock, engine
from schedules.agents import waiting
from schedules.models import AgentRun, Approval, Event, Execution, Incident, Job
from schedules.result import Code, Err, Ok
from schedules.services.permissions import Actor
from schedules.services.runs.approvals import DENY, ONCE, answer_approval, list_waiting, state_words
from tests.agents import asking_program
from tests.agents.asking_program import PUSH, AskingProgram
from tests.agents.work import Working
from tests.factories import JobFactory

# Runs read their owner in another thread.
pytestmark = pytest.mark.django_db(transaction=True)

Status = Execution.Status
Verdict = AgentRun.Verdict
OTHER = {"id": "toolu_2", "name": "Bash", "input": {"command": "git tag v1"}}


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch):
    monkeypatch.setattr(waiting, "POLL_SECONDS", 0.02)


@pytest.fixture
def job(owner) -> Job:
    return JobFactory(
        owner=owner, task="prompt", kwargs={"prompt": "Push it.", "runner": "one"}, next_run_at=clock.now()
    )


class WaitingRun(Working):
    """A run, and its program."""

    def __init__(self, cluster, program: AskingProgram) -> None:
        self.program = program
        super().__init__(cluster)


@pytest.fixture
def start(job, cluster, use_runners, tmp_path) -> Iterator[Callable[..., WaitingRun]]:
    """Let a run begin whose program waits for its answers."""
    started: list[WaitingRun] = []

    def begin(*calls, more: str = "", then: str = "pass", within: str = "5m") -> WaitingRun:
        program = AskingProgram(tmp_path, calls or (PUSH,), then)
        use_runners(program.runner(f'may_ask = true\nwait_within = "{within}"\n{more}'))
        started.append(WaitingRun(cluster, program))
        return started[-1]

    yield begin
    Approval.objects.filter(status="waiting").update(status="withdrawn")
    for each in started:
        each.end()


def answer(person: Actor, what: str, approval: Approval):
    return answer_approval(person, approval.pk, what, seen=approval.digest)


def test_allowed_call_is_made_while_the_same_attempt_runs(start, person):
    working = start()
    approval = working.asked()
    assert (Execution.objects.get().status, working.program.made) == (Status.RUNNING, [])
    assert list_waiting(person) == [approval]
    assert approval.expires_at - approval.asked_at == timedelta(minutes=5)
    assert Incident.objects.get().details == "It waits for permission for Bash: git push origin main, push."

    assert isinstance(answer(person, ONCE, approval), Ok)
    run = working.end()

    assert (run.status, run.attempt, run.result) == (Status.SUCCEEDED, 1, "All done.")
    assert (working.program.made, len(working.program.starts)) == (["toolu_1"], 1)
    approval.refresh_from_db()
    assert (approval.status, state_words(approval)) == ("used", "allowed by olga")
    assert AgentRun.objects.get().verdict == Verdict.DONE
    assert Incident.objects.get().ending == "Allowed"
    assert [event.verb for event in Event.objects.filter(actor="olga")] == ["allow"]


def test_denied_call_is_not_made_and_the_program_goes_on(start, person):
    working = start(PUSH, OTHER)
    assert isinstance(answer(person, DENY, working.asked()), Ok)
    assert isinstance(answer(person, ONCE, working.asked(2)), Ok)

    run = working.end()

    assert working.program.made == ["toolu_2"]
    assert (run.status, AgentRun.objects.get().verdict) == (Status.FAILED, Verdict.REFUSED)
    assert [each.status for each in Approval.objects.order_by("pk")] == ["denied", "used"]
    assert [event.verb for event in Event.objects.filter(actor="olga").order_by("pk")] == ["deny", "allow"]


def test_call_that_nobody_answers_in_time_is_denied_with_a_row(start):
    run = start(within="1s").end()

    assert (run.status, AgentRun.objects.get().verdict) == (Status.FAILED, Verdict.REFUSED)
    assert Approval.objects.get().status == "expired"
    assert Event.objects.get(verb="deny").actor == "engine"
    assert Incident.objects.get(kind="needs-you").ending == "Not answered in time"


def test_answer_after_the_end_of_the_run_changes_nothing(start, person):
    working = start()
    approval = working.asked()
    Execution.objects.update(status=Status.CANCELLED, finished_at=clock.now())

    refused = answer(person, ONCE, approval)

    assert isinstance(refused, Err)
    assert refused.code == Code.APPROVAL_OVER
    assert Approval.objects.get().status == "waiting"
    engine.close_approvals(clock.now())
    assert Approval.objects.get().status == "withdrawn"
    working.end()
    assert working.program.made == []


def test_call_of_an_attempt_that_was_interrupted_is_withdrawn(start, person):
    working = start()
    approval = working.asked()
    Execution.objects.update(status=Status.QUEUED)

    assert answer(person, DENY, approval).code == Code.APPROVAL_OVER
    engine.close_approvals(clock.now())

    assert Approval.objects.get().status == "withdrawn"


@pytest.mark.parametrize(("status", "starts"), [("used", 1), ("withdrawn", 2)])
def test_run_that_was_interrupted_is_repeated_only_if_nothing_was_allowed(
    start, person, cluster, status, starts
):
    working = start()
    approval = working.asked()
    Approval.objects.update(status="withdrawn", answered_by="olga")
    working.end()
    # As the rescue leaves it after its worker has died.
    Approval.objects.update(status=status)
    now = clock.now()
    Execution.objects.update(status=Status.QUEUED, finished_at=None, available_at=now, error="")
    Job.objects.filter(pk=approval.job_id).update(next_run_at=now + timedelta(days=1))

    again = WaitingRun(cluster, working.program)
    if status == "withdrawn":
        assert isinstance(answer(person, ONCE, again.asked(2)), Ok)
    run = again.end()

    assert len(working.program.starts) == starts
    assert run.status == (Status.SUCCEEDED if status == "withdrawn" else Status.FAILED)
    assert ("whether the call was made is unknown" in run.error) is (status == "used")


def test_failure_after_an_allowed_call_is_not_retried(start, person, job):
    Job.objects.update(attempts=3)
    working = start(then="sys.exit(3)")
    answer(person, ONCE, working.asked())

    run = working.end()

    assert (run.status, run.attempt, working.program.made) == (Status.FAILED, 1, ["toolu_1"])


def test_call_that_was_asked_before_is_not_asked_again(start, person):
    working = start(PUSH, PUSH)
    answer(person, DENY, working.asked())

    working.end()

    assert Approval.objects.count() == 1


def test_denied_run_is_refused_even_if_its_program_does_not_say_so(start, person, monkeypatch):
    silent = asking_program._SCRIPT.replace('"permission_denials": denials', '"permission_denials": []')
    monkeypatch.setattr(asking_program, "_SCRIPT", silent)
    working = start()
    answer(person, DENY, working.asked())

    assert working.end().status == Status.FAILED
    assert AgentRun.objects.get().verdict == Verdict.REFUSED
