"""The task for prompts: it gives a prompt to a runner, or leaves it in the inbox for an agent to claim."""

import asyncio
from datetime import timedelta
from typing import Annotated

from django.db import connections, transaction
from pydantic import Field

from schedules import clock, engine
from schedules.agents.choice import Choice, choose, is_always_inbox, owner_of
from schedules.agents.runs import run_prompt
from schedules.agents.stops import stop_in_force
from schedules.tasks.argument_types import PromptText
from schedules.tasks.interface import WAITING, Final, Run, Skip, SpecialResult
from schedules.tasks.registry import task

RunnerName = Annotated[
    str, Field(max_length=100, description="Who works on it; inbox: any agent that claims it.")
]


@task(title="Prompt for an agent", timeout=timedelta(minutes=10), may_start_program=True)
async def prompt(prompt: PromptText, runner: RunnerName | None = None, *, run: Run) -> str | SpecialResult:
    """Hand a prompt to a runner of the operator, or leave it in the inbox for an agent to claim."""
    if runner is None and is_always_inbox():
        return WAITING
    login, choice = await asyncio.to_thread(_choose, run, runner)
    if choice.problem:
        raise Final(choice.problem)
    if choice.runner is None:
        return WAITING
    return await run_prompt(prompt, choice.name, choice.runner, run, login)


def _choose(run: Run, named: str | None) -> tuple[str, Choice]:
    try:
        owner = owner_of(run.owner_id)
        if owner is None:
            raise Final("The owner of this job is gone.")
        choice = choose(owner, named)
        if choice.runner is not None and (stop := stop_in_force(run.owner_id)):
            raise Skip(stop.words)
        if choice.runner is not None and run.attempt == 1:
            _tell_receivers(run, choice.name)
        return owner.get_username(), choice
    finally:
        # This thread is not used again.
        connections.close_all()


def _tell_receivers(run: Run, runner: str) -> None:
    """Tell those who listen that the prompt is due, before the runner begins, which waits for nobody."""
    with transaction.atomic():
        engine.publish_taken_prompt(run.owner_id, run.job_id, run.execution_id, runner, clock.now())
