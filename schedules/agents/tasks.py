"""The task `prompt`: give a prompt to a runner, or leave it in the inbox for an agent to claim."""

from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

from django.db import transaction
from pydantic import Field

from schedules import clock, engine
from schedules.agents.choice import Choice, choose, is_always_inbox, owner_of, stop_in_force
from schedules.agents.gates import GateAnswer, ask_gate
from schedules.agents.runs import run_prompt
from schedules.tasks.argument_types import SECRET_HEADERS, Gate, Headers, PromptText, Shown, gate_problems
from schedules.tasks.database_threads import in_thread
from schedules.tasks.interface import WAITING, Answered, Final, RetryLater, Run, Skip, SpecialResult
from schedules.tasks.placeholders import with_gate
from schedules.tasks.registry import task

RunnerName = Annotated[
    str,
    Field(max_length=100, description="Who works on it; inbox: any agent that claims it."),
    Shown(is_first=True),
]
ChannelName = Annotated[
    str,
    Field(min_length=1, max_length=40, description="The owner's channel that gets the answer."),
    Shown("Send the answer to", "One of your channels; an agent that had nothing to do sends nothing"),
]
GateText = Annotated[
    Gate,
    Field(description="Asked first, a command or an address: no change, no run."),
    Shown(
        "Wake the agent only if this has changed",
        "An address (https://…) whose text is compared with the last time, or a command of the operator: exit code 0 wakes "
        "the agent, 1 does not. {{ gate.body }} in the prompt stands for what it said",
    ),
]
GateArguments = Annotated[
    dict[str, Any],
    Field(description="Of the command."),
    Shown("Arguments of that command", 'A JSON object, like {"folder": "inbox"}'),
]
GateHeaders = Annotated[Headers, replace(SECRET_HEADERS, label="Headers for that address")]


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
    gate: GateText | None = None,
    gate_arguments: GateArguments | None = None,
    gate_headers: GateHeaders | None = None,
    deliver_to: ChannelName | None = None,
    *,
    run: Run,
) -> str | Answered | SpecialResult:
    """Hand a prompt to a runner of the operator, or leave it in the inbox for an agent to claim."""
    if runner is None and gate is None and is_always_inbox():
        return WAITING
    publish_now = run.attempt == 1 and not gate
    login, choice = await in_thread(_choose, run, runner, publish_now=publish_now)
    if choice.problem:
        raise Final(choice.problem)
    gate_answer = await _pass_gate(gate, gate_arguments, gate_headers, run) if gate else None
    gate_json = gate_answer.as_json() if gate_answer else None
    if choice.runner is None:
        return Answered(WAITING, gate=gate_json) if gate_json else WAITING
    if run.attempt == 1 and gate:
        await in_thread(_publish, run, choice.name)
    if gate_json:
        prompt = with_gate(prompt, {"gate": gate_json})
    text, is_news = await run_prompt(prompt, choice.name, choice.runner, run, login)
    # Nothing is delivered if the agent had nothing to do.
    channel = deliver_to if deliver_to and is_news else ""
    return Answered(text, channel, gate_json) if channel or gate_json else text


async def _pass_gate(
    gate: str, arguments: dict[str, Any] | None, headers: Headers | None, run: Run
) -> GateAnswer:
    """Ask the gate, and skip the run if nothing has changed; a retry passes, because its first attempt did."""
    try:
        answer = await ask_gate(gate, arguments, headers, run)
    except (Final, RetryLater) as error:
        if run.attempt == 1:
            raise
        return GateAnswer(True, str(error), "")
    if not answer.is_changed and run.attempt == 1:
        raise Skip(answer.summary)
    return answer


def _choose(run: Run, runner_name: str | None, *, publish_now: bool) -> tuple[str, Choice]:
    """Return the owner's login and the runner, and publish the event of a prompt that no gate holds back."""
    owner = owner_of(run.owner_id)
    if owner is None:
        raise Final("The owner of this job is gone.")
    choice = choose(owner, runner_name)
    if choice.runner is not None and (stop := stop_in_force(run.owner_id)):
        raise Skip(stop.sentence)
    if publish_now and choice.runner is not None and not choice.problem:
        _publish(run, choice.name)
    return owner.get_username(), choice


def _publish(run: Run, runner: str) -> None:
    """Tell event subscribers that the prompt is due; the runner does not wait for them."""
    with transaction.atomic():
        engine.publish_taken_prompt(run.owner_id, run.job_id, run.execution_id, runner, clock.now())
