"""Agent runs: read what agents did in a run, and the newest of an owner."""

from schedules.models import AgentRun, Execution


def agent_run_of(run: Execution) -> AgentRun | None:
    """Return what the agent of the last attempt did, or None if no runner worked on this run."""
    if run.task != "prompt":
        return None
    return AgentRun.objects.filter(execution=run.pk).order_by("-attempt").first()
