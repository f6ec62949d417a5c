"""The kill switch: stop all agents that work on prompts, and start no others until a person ends the stop."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from schedules import clock, engine
from schedules.agents.choice import stop_in_force
from schedules.models import AgentStop, Event, Execution, Job
from schedules.models.executions import ExecutionQuerySet
from schedules.result import Code, Err, Ok, Result
from schedules.services.permissions import Actor, event_of

RELEASED = "taken away"
# Enough, because runs that start meanwhile see the stop themselves.
_MAX_STOPPED = 10_000


@dataclass(frozen=True, slots=True)
class Stopped:
    """What a stop ended: running agents, and the leases of agents that had claimed prompts."""

    stop: AgentStop
    runs: int
    leases: int


def may_stop_everybody(actor: Actor) -> bool:
    """Return whether an actor may stop and resume everybody's agents."""
    user: Any = actor.user
    if actor.is_agent:
        return False
    if getattr(user, "is_superuser", False):
        return True
    return bool(getattr(user, "is_staff", False) and user.has_perm("schedules.change_job"))


def read_stop(actor: Actor) -> AgentStop | None:
    """Return the stop that keeps the agents of a person from working, or None."""
    return stop_in_force(actor.user.pk)


def stop_agents(actor: Actor, *, everybody: bool = False) -> Result[Stopped]:
    """Stop the agents of a person, or of everybody: running ones end, and none starts."""
    if everybody and not may_stop_everybody(actor):
        return Err(Code.AGENTS_OF_EVERYBODY)
    now = clock.now()
    scope = _scope(actor, everybody)
    with transaction.atomic():
        stop, is_new = AgentStop.objects.get_or_create(scope=scope, defaults={"at": now, "by": actor.label})
        if is_new:
            _record(actor, "stop agents", now, everybody)
    # After the commit, because a run that did not see the stop is running by now.
    return Ok(Stopped(stop, _stop_running(actor, everybody, now), _release_prompts(actor, everybody, now)))


def resume_agents(actor: Actor, *, everybody: bool = False) -> Result[AgentStop]:
    """End a stop; only a person may do so, as an agent could start itself."""
    if actor.is_agent:
        return Err(Code.AGENTS_STARTED_BY_PEOPLE)
    if everybody and not may_stop_everybody(actor):
        return Err(Code.AGENTS_OF_EVERYBODY)
    with transaction.atomic():
        stop = AgentStop.objects.select_for_update().filter(scope=_scope(actor, everybody)).first()
        if stop is None:
            return Err(Code.AGENTS_NOT_STOPPED)
        stop.delete()
        _record(actor, "start agents", clock.now(), everybody)
    return Ok(stop)


def release(held: ExecutionQuerySet) -> int:
    """End the leases of claimed prompts: they wait in the inbox again, and late answers are refused."""
    return held.update(lease_until=None, leased_to="", lease_key=RELEASED)


def _scope(actor: Actor, everybody: bool) -> str:
    return AgentStop.EVERYBODY if everybody else str(actor.user.pk)


def _record(actor: Actor, verb: str, now: datetime, everybody: bool) -> None:
    Event.objects.create(
        at=now,
        owner_id=actor.user.pk,
        actor=actor.label,
        door=actor.door,
        verb=verb,
        subject="everybody" if everybody else actor.user.get_username()[:200],
    )


def _prompts(actor: Actor, everybody: bool) -> ExecutionQuerySet:
    live = Execution.objects.live().filter(task="prompt").order_by("pk")
    return live if everybody else live.filter(owner=actor.user.pk)


def _stop_running(actor: Actor, everybody: bool, now: datetime) -> int:
    """Cancel the runs that agents work on; their workers notice that within seconds and kill the agents."""
    running = _prompts(actor, everybody).filter(status=Execution.Status.RUNNING)
    rows = list(running.values_list("pk", "attempt", "job")[:_MAX_STOPPED])
    return sum(_stop(actor, *row, now) for row in rows)


def _stop(actor: Actor, execution_id: int, attempt: int, job_id: int | None, now: datetime) -> bool:
    # One at a time: like everything that ends a run, lock its job first.
    with transaction.atomic():
        job = Job.objects.select_for_update(of=("self",)).filter(pk=job_id or 0).first()
        reason = f"{actor.label} stopped all agents."
        if not engine.stop_run(execution_id, attempt, job_id or 0, now, reason):
            return False
        if job:
            event_of(actor, "stop", now, job=job, after={"execution": execution_id}).save(force_insert=True)
    return True


def _release_prompts(actor: Actor, everybody: bool, now: datetime) -> int:
    held = _prompts(actor, everybody).filter(status=Execution.Status.WAITING, lease_until__gte=now)
    return release(held)
