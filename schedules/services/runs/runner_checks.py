"""The check of a runner as a run of a job: for people and agents elsewhere, with all limits and in the history."""

from schedules.agents.adapters import version_note
from schedules.agents.checking import PROMPT, TIMEOUT, CheckResult
from schedules.agents.reports import Report
from schedules.agents.verdicts import Judgement
from schedules.models import AgentRun, Execution, Job
from schedules.result import Err, Result, invalid
from schedules.services.jobs.creation import schedule
from schedules.services.permissions import Actor, confirmation_hint
from schedules.services.runs.actions import run_now
from schedules.services.runs.explanations import explain
from schedules.services.runs.runner_list import agent_run_of
from schedules.when.unplanned import ON_DEMAND


def start_check(actor: Actor, runner_name: str) -> Result[Execution]:
    """Queue a run of the actor's job that checks this runner; the first check creates the job."""
    if hint := confirmation_hint(actor, "prompt"):
        return invalid("runner", f"A check is a prompt, which a person would have to confirm first. {hint}")
    arguments = {"prompt": PROMPT, "runner": runner_name}
    checks = actor.jobs().exclude(status=Job.Status.CANCELLED).filter(proposed_at=None)
    job = checks.filter(owner=actor.user.pk, task="prompt", cron=ON_DEMAND, kwargs=arguments).first()
    if job is None:
        created = schedule(
            actor,
            name=f"Check of the runner {runner_name}",
            task="prompt",
            kwargs=arguments,
            trigger_type=Job.TriggerType.CRON,
            cron=ON_DEMAND,
            timeout=TIMEOUT,
            alerts="never",
            pause_after_failures=0,
        )
        if isinstance(created, Err):
            return created
        job = created.value.job
    return run_now(actor, job.public_id)


def result_of_check(run: Execution) -> CheckResult:
    """Return how the run of a check ended."""
    agent = agent_run_of(run)
    why = run.reason or run.error or explain(run)
    if agent is None:
        return CheckResult(Judgement(AgentRun.Verdict.FAILED, why), Report(), 0.0, "")
    verdict = AgentRun.Verdict(agent.verdict or AgentRun.Verdict.FAILED)
    is_good = verdict in AgentRun.GOOD
    report = Report(
        version=agent.program_version,
        tokens_in=agent.tokens_in,
        tokens_out=agent.tokens_out,
        cost=None if agent.cost is None else float(agent.cost),
        answer=agent.answer,
    )
    seconds = (agent.ended_at - agent.started_at).total_seconds() if agent.ended_at else 0.0
    judgement = Judgement(verdict, agent.words or ("" if is_good else agent.cap or why))
    return CheckResult(judgement, report, seconds, version_note(agent.kind, agent.program_version))
