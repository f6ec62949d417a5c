"""Prompts that wait for an agent: claimed under a lease, completed once."""

import math
from datetime import timedelta

import pytest

from schedules import services
from schedules.mcp.answers.refusals import message_of
from schedules.models import Event, Execution
from schedules.result import Code, Err, Kind, Ok
from schedules.services import Actor
from tests.factories import ExecutionFactory, JobFactory
from tests.services.conftest import NOW


def prompt_of(user, **fields) -> Execution:
    job = JobFactory(owner=user, task="prompt", kwargs={"prompt": "Think."})
    return ExecutionFactory(job=job, **({"status": "waiting", "attempt": 1} | fields))


def claimed(actor, **arguments) -> list[Execution]:
    answer = services.claim_prompts(actor, **arguments)
    assert isinstance(answer, Ok)
    return answer.value


def kind_of(answer) -> Code:
    assert isinstance(answer, Err)
    return answer.kind


def test_oldest_prompts_are_claimed_first_and_only_once(agent):
    young = prompt_of(agent.user, scheduled_for=NOW)
    old = prompt_of(agent.user, scheduled_for=NOW - timedelta(hours=1))

    first = claimed(agent)
    rest = claimed(agent, limit=20)

    assert (first, rest, claimed(agent)) == ([old], [young], [])
    old.refresh_from_db()
    assert (old.leased_to, old.lease_until, old.attempt) == ("laptop", NOW + timedelta(minutes=15), 1)
    assert (first[0].leased_to, first[0].lease_until, first[0].attempt) == ("laptop", old.lease_until, 1)


def test_expired_lease_makes_a_prompt_claimable_again(agent, time_machine):
    prompt = prompt_of(agent.user)
    claimed(agent, lease=timedelta(minutes=1))
    time_machine.shift(timedelta(minutes=1, seconds=1))

    again = claimed(Actor(agent.user, Event.Door.MCP, "tablet"))

    prompt.refresh_from_db()
    assert again == [prompt]
    assert (again[0].attempt, prompt.attempt, prompt.leased_to) == (2, 2, "tablet")


def test_prompts_of_others_and_other_runs_are_not_claimed(agent, stranger):
    prompt_of(stranger)
    prompt_of(agent.user, status="queued")

    assert claimed(agent, limit=20) == []


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        pytest.param({"limit": 0}, "limit", id="none"),
        pytest.param({"limit": 21}, "limit", id="too many"),
        pytest.param({"lease": timedelta(seconds=59)}, "lease_minutes", id="too short"),
        pytest.param({"lease": timedelta(hours=25)}, "lease_minutes", id="too long"),
    ],
)
def test_invalid_claim_is_refused(agent, arguments, field):
    refusal = services.claim_prompts(agent, **arguments)

    assert kind_of(refusal) == Kind.INVALID
    assert message_of(refusal).startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("answer", "status", "error"),
    [
        pytest.param({"result": {"answer": 42}}, "succeeded", "", id="result"),
        pytest.param({}, "succeeded", "", id="nothing"),
        pytest.param({"error": "no \x00idea\u202e"}, "failed", "no idea", id="error"),
    ],
)
def test_prompt_is_completed_once(agent, answer, status, error):
    prompt = prompt_of(agent.user)
    claimed(agent)

    done = services.complete_prompt(agent, prompt.pk, **answer)
    again = services.complete_prompt(agent, prompt.pk, **answer)

    assert isinstance(done, Ok)
    assert (done.value.status, done.value.error, done.value.result) == (status, error, answer.get("result"))
    assert (done.value.finished_at, done.value.reason) == (NOW, "Completed by laptop.")
    assert kind_of(again) == Kind.WRONG_STATE
    assert list(Event.objects.values_list("verb", flat=True)) == ["complete"]
    assert prompt.job is not None
    prompt.job.refresh_from_db()
    assert prompt.job.recent == status[0].upper()


def test_agent_needs_a_lease_and_a_person_does_not(agent, actor, time_machine):
    prompt = prompt_of(agent.user)

    unclaimed = services.complete_prompt(agent, prompt.pk)
    claimed(agent, lease=timedelta(minutes=1))
    foreign = services.complete_prompt(Actor(agent.user, Event.Door.MCP, "tablet"), prompt.pk)
    time_machine.shift(timedelta(minutes=2))
    late = services.complete_prompt(agent, prompt.pk)

    assert {kind_of(unclaimed), kind_of(foreign), kind_of(late)} == {Kind.CONFLICT}
    assert isinstance(services.complete_prompt(actor, prompt.pk), Ok)


def test_prompt_can_be_dismissed_only_once(actor):
    prompt = prompt_of(actor.user)

    done = services.dismiss_prompt(actor, prompt.pk)
    again = services.dismiss_prompt(actor, prompt.pk)

    assert isinstance(done, Ok)
    assert (done.value.status, done.value.reason) == ("cancelled", "Dismissed by olga.")
    assert kind_of(again) == Kind.WRONG_STATE
    assert list(Event.objects.values_list("verb", flat=True)) == ["dismiss"]


def test_released_prompt_can_be_claimed_by_another_agent(actor, agent):
    prompt = prompt_of(actor.user)
    claimed(agent)

    released = services.release_prompt(actor, prompt.pk)

    assert isinstance(released, Ok)
    assert (released.value.leased_to, released.value.lease_until) == ("", None)
    assert Event.objects.get().before == {"execution": prompt.pk, "held_by": "laptop"}
    assert released.value.was_held
    assert [row.attempt for row in claimed(Actor(actor.user, Event.Door.MCP, "tablet"))] == [2]


@pytest.mark.parametrize("stop", [services.cancel, services.delete, services.pause])
def test_agent_can_complete_a_claimed_prompt_after_its_job_was_stopped(agent, actor, stop):
    held = prompt_of(agent.user)
    claimed(agent)
    stop(actor, held.job.public_id)

    done = services.complete_prompt(agent, held.pk, result="done")

    held.refresh_from_db()
    assert isinstance(done, Ok)
    assert (held.status, held.result) == ("succeeded", "done")
    held.job.refresh_from_db()
    assert held.job.recent == "S"


@pytest.mark.parametrize("end", [services.complete_prompt, services.dismiss_prompt])
def test_prompt_of_a_paused_job_stays_for_people_and_is_claimable_after_the_pause(agent, actor, end):
    prompt, other = prompt_of(agent.user), prompt_of(agent.user)
    for each in (prompt, other):
        services.pause(actor, each.job.public_id)
    assert claimed(agent) == []

    assert isinstance(end(actor, other.pk), Ok)
    services.resume(actor, prompt.job.public_id)

    assert claimed(agent) == [prompt]


@pytest.mark.parametrize("stop", [services.cancel, services.delete])
def test_prompt_of_a_stopped_job_cannot_be_claimed(agent, actor, stop, time_machine):
    unclaimed = prompt_of(agent.user)
    stop(actor, unclaimed.job.public_id)
    assert claimed(agent) == []
    unclaimed.refresh_from_db()
    assert unclaimed.status == "cancelled"
    assert unclaimed.reason.endswith("before an agent finished this prompt.")

    held = prompt_of(agent.user)
    claimed(agent, lease=timedelta(minutes=1))
    stop(actor, held.job.public_id)
    time_machine.shift(timedelta(minutes=2))

    assert claimed(agent) == []


def test_prompt_cannot_be_claimed_if_its_job_has_another_task_now(agent, actor):
    prompt = prompt_of(agent.user)

    services.edit(actor, prompt.job.public_id, task="webhook", kwargs={"url": "https://example.org"})

    assert claimed(agent) == []


def test_prompt_of_a_manual_run_can_be_claimed_while_the_job_is_paused(agent, actor):
    prompt = prompt_of(agent.user, cause="manual")

    services.pause(actor, prompt.job.public_id)

    assert claimed(agent) == [prompt]


@pytest.mark.parametrize(
    ("name", "minutes", "words"),
    [
        pytest.param("laptop", 2, "Your lease on prompt {} is over: claim it again.", id="lost"),
        pytest.param("tablet", 2, "You do not hold prompt {}: claim it first.", id="never had it"),
        pytest.param("tablet", 0, "Another agent holds prompt {} until 2026-", id="another has it"),
    ],
)
def test_refused_completion_names_the_holder_of_the_prompt(agent, time_machine, name, minutes, words):
    prompt = prompt_of(agent.user)
    claimed(agent, lease=timedelta(minutes=1))
    time_machine.shift(timedelta(minutes=minutes))

    refusal = services.complete_prompt(Actor(agent.user, Event.Door.MCP, name), prompt.pk)

    assert isinstance(refusal, Err)
    assert message_of(refusal).startswith(words.format(prompt.pk))


def test_agent_whose_lease_passed_to_a_namesake_is_refused(owner, time_machine):
    first, second = (Actor(owner, Event.Door.MCP, "local agent", key) for key in ("one", "two"))
    prompt = prompt_of(owner)
    claimed(first, lease=timedelta(minutes=1))
    time_machine.shift(timedelta(minutes=2))
    claimed(second)

    assert kind_of(services.complete_prompt(first, prompt.pk, result="late")) == Kind.CONFLICT
    assert isinstance(services.complete_prompt(second, prompt.pk, result="in time"), Ok)
    prompt.refresh_from_db()
    assert prompt.result == "in time"


def test_restarted_agent_can_complete_the_prompt_it_claimed(owner):
    before, after = (Actor(owner, Event.Door.MCP, "local agent", key) for key in ("one", "two"))
    prompt = prompt_of(owner)
    claimed(before)

    assert isinstance(services.complete_prompt(after, prompt.pk), Ok)


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        ({"result": math.nan}, "result"),
        ({"result": "x" * 20_000}, "result"),
        ({"error": "x" * 20_000}, "error"),
    ],
    ids=["NaN", "huge result", "huge error"],
)
def test_invalid_answer_is_refused_and_the_prompt_keeps_waiting(agent, answer, field):
    prompt = prompt_of(agent.user)
    claimed(agent)

    refusal = services.complete_prompt(agent, prompt.pk, **answer)

    assert kind_of(refusal) == Kind.INVALID
    assert refusal.text.startswith(f"{field}: ")
    assert Execution.objects.get().status == "waiting"


@pytest.mark.parametrize("verb", [services.complete_prompt, services.dismiss_prompt, services.release_prompt])
def test_prompts_that_are_not_there_are_not_found(actor, stranger, verb):
    foreign, mine = prompt_of(stranger), prompt_of(actor.user)
    services.delete(actor, mine.job.public_id)

    for execution_id in (foreign.pk, mine.pk, 0, 10**30):
        assert verb(actor, execution_id) == Err(Code.PROMPT_NOT_FOUND, execution_id)


def test_agent_without_the_lease_is_refused(actor):
    first, second = (Actor(actor.user, Event.Door.MCP, "local agent", key) for key in ("one", "two"))
    prompt = prompt_of(actor.user)
    assert kind_of(services.release_prompt(actor, prompt.pk)) == Kind.WRONG_STATE
    nameless = Actor(actor.user, Event.Door.MCP)
    assert kind_of(services.complete_prompt(nameless, prompt.pk)) == Kind.CONFLICT
    claimed(first)
    services.release_prompt(actor, prompt.pk)
    claimed(second)

    assert kind_of(services.complete_prompt(first, prompt.pk)) == Kind.CONFLICT
    assert isinstance(services.complete_prompt(second, prompt.pk), Ok)
