"""The task for prompts: it gives a prompt to a runner, or leaves it in the inbox for an agent to claim."""

import asyncio
from datetime import timedelta
from typing import Annotated, Any

from django.db import connections, transaction
from pydantic import Field

from schedules import clock, engine
from schedules.agents.choice import Choice, choose, is_always_inbox, owner_of
from schedules.agents.gates import GateAnswer, ask_gate
from schedules.agents.runs import run_prompt
from schedules.agents.stops import stop_in_force
from schedules.tasks.argument_types import Gate, Headers, PromptText, gate_problems
from schedules.tasks.interface import WAITING, Answered, Final, RetryLater, Run, Skip, SpecialResult
from schedules.tasks.placeholders import with_gate
from schedules.tasks.registry import task

RunnerName = Annotated[
    str, Field(max_length=100, description="Who works on it; inbox: any agent that claims it.")
]
ChannelName = Annotated[
    str, Field(min_length=1, max_length=40, description="The owner's channel that gets the answer.")
]


@task(
    title="Prompt for an agent",
    timeout=timedelta(minutes=10),
    may_start_program=True,
    takes_secrets=True,
    check=gate_problems,
)
async def prompt(
    prompt: PromptText,
    runner: RunnerName | None = None,
    gate: Annotated[Gate, Field(description="Asked first, a command or an address: no change, no run.")]
    | None = None,
    gate_arguments: Annotated[dict[str, Any], Field(description="Of the command.")] | None = None,
    gate_headers: Headers | None = None,
    deliver_to: ChannelName | None = None,
    *,
    run: Run,
) -> str | Answered | SpecialResult:
    """Hand a prompt to a runner of the operator, or leave it in the inbox for an agent to claim."""
    if runner is None and gate is None and is_always_inbox():
        return WAITING
    login, choice = await asyncio.to_thread(_choose, run, runner, tells=run.attempt == 1 and not gate)
    if choice.problem:
        raise Final(choice.problem)
    answer = await _pass_gate(gate, gate_arguments, gate_headers, run) if gate else None
    said = answer.as_json() if answer else None
    if choice.runner is None:
        return Answered(WAITING, gate=said) if said else WAITING
    if run.attempt == 1 and gate:
        await asyncio.to_thread(_tell_receivers, run, choice.name)
    if said:
        prompt = with_gate(prompt, {"gate": said})
    text, is_news = await run_prompt(prompt, choice.name, choice.runner, run, login)
    # An agent that had nothing to do sends nothing.
    channel = deliver_to if deliver_to and is_news else ""
    return Answered(text, channel, said) if channel or said else text


async def _pass_gate(
    gate: str, arguments: dict[str, Any] | None, headers: Headers | None, run: Run
) -> GateAnswer:
    """Ask the gate, and skip the run if nothing has changed; later attempts were let through by the first."""
    try:
        answer = await ask_gate(gate, arguments, headers, run)
    except (Final, RetryLater) as error:
        if run.attempt == 1:
            raise
        return GateAnswer(True, str(error), "")
    if not answer.is_changed and run.attempt == 1:
        raise Skip(answer.words)
    return answer


def _choose(run: Run, named: str | None, *, tells: bool) -> tuple[str, Choice]:
    """Return the owner's login and the runner, and tell of the prompt unless a gate is asked first."""
    try:
        owner = owner_of(run.owner_id)
        if owner is None:
            raise Final("The owner of this job is gone.")
        choice = choose(owner, named)
        if choice.runner is not None and (stop := stop_in_force(run.owner_id)):
            raise Skip(stop.sentence)
        if tells and choice.runner is not None and not choice.problem:
            _publish(run, choice.name)
        return owner.get_username(), choice
    finally:
        # This thread is not used again.
        connections.close_all()


def _tell_receivers(run: Run, runner: str) -> None:
    try:
        _publish(run, runner)
    finally:
        # This thread is not used again.
        connections.close_all()


def _publish(run: Run, runner: str) -> None:
    """Tell those who listen that the prompt is due, before the runner begins, which waits for nobody."""
    with transaction.atomic():
        engine.publish_taken_prompt(run.owner_id, run.job_id, run.execution_id, runner, clock.now())
