"""Operations on agents: their runners, the switch that stops them all, approvals, and proposals of jobs."""

from schedules import clock
from schedules.agents.catalog import catalog
from schedules.agents.checking import CheckResult, check_runner
from schedules.agents.choice import choose
from schedules.agents.definitions import Runner
from schedules.result import Code, Document, Err, RefusedError, expect, invalid, operation
from schedules.services.documents import approval_json, iso_in, listed_job, masked_run
from schedules.services.jobs.proposals import list_plans
from schedules.services.permissions import Actor
from schedules.services.run_list import find_run
from schedules.services.runs import approvals
from schedules.services.runs.agent_stops import read_stop, resume_agents, stop_agents
from schedules.services.runs.runner_checks import result_of_check, start_check
from schedules.services.runs.runner_list import ListedRunner, list_runners

MAX_ANSWER = 2000


@operation
def show_agents(actor: Actor) -> Document:
    """List the runners that prompts may name, with what is left of their limits, and whether agents are stopped."""
    stop, zone = read_stop(actor), actor.read_profile().zone
    return {
        "stopped": stop
        and {
            "by": stop.by,
            "at": iso_in(stop.at, zone),
            "everybody": not stop.scope,
            "description": stop.sentence,
        },
        "runners": [_runner_json(each) for each in list_runners(actor, clock.now())],
    }


@operation
def stop_all_agents(actor: Actor, *, everybody: bool = False) -> Document:
    """Stop all agents of the owner, or of everybody: none starts, and those at work end."""
    stopped = expect(stop_agents(actor, everybody=everybody))
    return expect(show_agents(actor)) | {"ended": {"runs": stopped.runs, "prompts": stopped.leases}}


@operation
def start_agents(actor: Actor, *, everybody: bool = False) -> Document:
    """Let agents work again. Only a token of the type Program may do this."""
    expect(resume_agents(actor, everybody=everybody))
    return expect(show_agents(actor))


@operation
def check_here(actor: Actor, runner: str) -> Document:
    """Check a runner at once, outside of the clusters and past its limits: only on the operator's machine."""
    definition = _definition_of(actor, runner)
    return _check_json(check_runner(runner, definition, actor.user))


@operation
def begin_check(actor: Actor, runner: str) -> Document:
    """Queue a run that checks a runner, and return the run."""
    _definition_of(actor, runner)
    return masked_run(expect(start_check(actor, runner)), actor.read_profile().zone)


@operation
def show_check(actor: Actor, run: int) -> Document:
    """Return how the run of a check has ended."""
    row = find_run(actor, run)
    if row is None:
        raise RefusedError(Err(Code.RUN_NOT_FOUND, run))
    return _check_json(result_of_check(row))


def _definition_of(actor: Actor, name: str) -> Runner:
    chosen = choose(actor.user, name, is_agent=actor.is_agent)
    if chosen.problem:
        code = Code.RUNNER_NOT_FOUND if catalog.get(name) is None else Code.TASK_REFUSED
        raise RefusedError(Err(code, reason=chosen.problem))
    if definition := catalog.get(name) or chosen.runner:
        return definition
    raise RefusedError(invalid("runner", "this is the inbox: nothing is started"))


@operation
def list_approvals(actor: Actor) -> Document:
    """List what agents ask a person, calls and questions, the oldest first."""
    return {"approvals": [approval_json(each) for each in approvals.list_waiting(actor)]}


@operation
def show_approval(actor: Actor, approval: int) -> Document:
    """Show what an agent asks or has asked."""
    return approval_json(expect(approvals.find_approval(actor, approval)))


@operation
def answer_approval(actor: Actor, approval: int, *, answer: str, digest: str, text: str = "") -> Document:
    """Allow a call once, always for its job, or deny it; reply to a question. Only a token of the type Program may do this."""
    answered = approvals.answer_approval(actor, approval, answer, seen=digest, text=text)
    return approval_json(expect(answered).approval)


@operation
def list_proposals(actor: Actor) -> Document:
    """List the jobs that wait until a person confirms them, the oldest first."""
    proposals = [each for plan in list_plans(actor, clock.now()) for each in plan.proposals]
    return {
        "proposals": [
            {
                **listed_job(each.job),
                "proposed_by": each.job.proposed_by,
                "schedule_in_words": each.schedule,
                "would_run": [iso_in(run, each.job.timezone) for run in each.next_runs],
                "limits": each.limits,
                "is_over": each.is_over,
            }
            for each in proposals
        ]
    }


def _runner_json(listed: ListedRunner) -> Document:
    last = next(iter(listed.last_runs), None)
    return {
        "name": listed.name,
        "kind": listed.runner.kind,
        "description": listed.runner.description,
        "default": listed.is_default,
        "limits": listed.limits,
        "left": [
            {
                "scope": each.scope,
                "unit": each.unit,
                "cap": each.cap,
                "left": each.remaining,
                "description": each.words,
            }
            for each in listed.allowances
        ],
        "last_verdict": last.verdict or None if last else None,
    }


def _check_json(checked: CheckResult) -> Document:
    report = checked.report
    return {
        "verdict": str(checked.judgement.verdict),
        "is_good": checked.is_good,
        "words": checked.judgement.reason or None,
        "seconds": round(checked.seconds, 3),
        "tokens_in": report.tokens_in,
        "tokens_out": report.tokens_out,
        "cost": report.cost,
        "version": report.version or None,
        "warning": checked.note or None,
        "answer": report.answer[:MAX_ANSWER],
    }
