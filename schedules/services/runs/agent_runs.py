"""Agent runs: read what agents did in a run, and the newest of an owner."""

from typing import Any

from django.db.models import QuerySet

from schedules.models import AgentRun, Execution


def agent_run_of(run: Execution) -> AgentRun | None:
    """Return what the agent of the last attempt did, or None if no runner worked on this run."""
    if run.task != "prompt":
        return None
    return AgentRun.objects.filter(execution=run.pk).order_by("-attempt").first()


def newest_of_owner(owner_id: Any) -> QuerySet[AgentRun]:
    """Return the agent runs of an owner, or of everybody if None, newest first, for the admin."""
    newest = AgentRun.objects.order_by("-pk")
    if owner_id is not None:
        newest = AgentRun.objects.filter(owner=owner_id).order_by("-started_at", "-pk")
    return newest.select_related("owner")
