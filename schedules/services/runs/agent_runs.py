"""What the agents of runs did, for those who may see the runs."""

from schedules.models import AgentRun, Execution


def agent_run_of(run: Execution) -> AgentRun | None:
    """Return what the agent of the last attempt did, or None if no runner has worked on this run."""
    if run.task != "prompt":
        return None
    return AgentRun.objects.filter(execution=run.pk).order_by("-attempt").first()
