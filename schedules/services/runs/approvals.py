"""Approvals: list what agents' runs ask a person, and record the answer: once, always, deny, or a reply in words."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from schedules import clock, engine, limits
from schedules.agents.adapters import ADAPTERS
from schedules.agents.catalog import catalog
from schedules.agents.choice import stop_in_force
from schedules.models import AgentRun, Approval, Execution, Job
from schedules.models.approvals import LONGEST_REPLY
from schedules.result import Code, Err, Ok, Result, invalid
from schedules.secrets.masking import has_mask
from schedules.services.people.profiles import is_active_user
from schedules.services.permissions import Actor, actor_of_link, change_row, locked_job, record
from schedules.tasks.grants import grant_of, grants_problem
from schedules.tasks.signed_links import ApprovalLink
from schedules.when.zones import local_words

Status = Approval.Status

ONCE, ALWAYS, DENY, REPLY = "once", "always", "deny", "reply"
ANSWERS = (ONCE, ALWAYS, DENY, REPLY)
_TO_CALL, _TO_QUESTION = (ONCE, ALWAYS, DENY), (REPLY, DENY)
MAX_LISTED = 200
MAX_RECORDED_LENGTH = 300
BY_LINK = "Link in an alert"


@dataclass(frozen=True, slots=True)
class AnsweredApproval:
    """An approval after its answer, and its job."""

    approval: Approval
    job: Job


@dataclass(frozen=True, slots=True)
class LinkedApproval:
    """What a link is about, and who answers with it."""

    approval: Approval
    actor: Actor


def list_waiting(actor: Actor, limit: int = MAX_LISTED) -> list[Approval]:
    """Return what waits for a person, oldest first, with runs and jobs."""
    return list(_visible(actor).order_by("pk")[:limit])


def count_waiting(actor: Actor) -> int:
    """Count what waits for a person, up to MAX_LISTED."""
    return len(_visible(actor).order_by("pk").values("pk")[:MAX_LISTED])


def approvals_of(run: Execution) -> list[Approval]:
    """Return what a run asked a person, in order."""
    if run.task != "prompt":
        return []
    approvals = Approval.objects.filter(execution=run.pk).select_related("execution", "job__owner")
    return list(approvals.order_by("pk"))


def describe(actor: Actor, approvals: list[Approval]) -> list[Approval]:
    """Set on approvals how pages describe them, and whether the actor may answer them."""
    for approval in approvals:
        shown: Any = approval
        shown.words = state_words(approval)
        shown.can_answer = approval.job is not None and actor.may_change(approval.job)
    return approvals


def find_approval(actor: Actor, number: int) -> Result[Approval]:
    """Return an approval of a job that the actor sees, whatever its status."""
    approval = Approval.objects.select_related("execution", "job__owner").filter(pk=number).first()
    if approval is None or not actor.jobs().filter(pk=approval.job_id or 0).exists():
        return Err(Code.APPROVAL_NOT_FOUND, number)
    return Ok(approval)


def find_linked(link: ApprovalLink, actor: Actor | None = None) -> Result[LinkedApproval]:
    """Return what a link is about, for the job's owner or for the logged-in actor."""
    approval = Approval.objects.select_related("execution", "job__owner").filter(pk=link.approval_id).first()
    job = approval.job if approval else None
    if approval is None or job is None or job.deleted_at or not link.is_about(approval.digest):
        return Err(Code.LINK_UNKNOWN)
    if not is_active_user(job.owner):
        return Err(Code.JOB_OWNER_INACTIVE, job.public_id)
    return Ok(LinkedApproval(approval, actor_of_link(job, BY_LINK, actor)))


def answer_approval(
    actor: Actor, number: int, answer: str, *, seen: str, text: str = ""
) -> Result[AnsweredApproval]:
    """Allow a tool call once or always for its job, or deny it; reply to a question with a text, or decline it.

    `seen` is the digest of what the person was shown.
    """
    if actor.is_agent:
        return Err(Code.APPROVALS_BY_PEOPLE)
    now = clock.now()
    unlocked = find_approval(actor, number)
    if isinstance(unlocked, Err):
        return unlocked
    reply = limits.strip_unprintable(text.replace("\r\n", "\n")).strip()
    if problem := _answer_problem(unlocked.value, answer, reply):
        return problem
    public_id = unlocked.value.job.public_id if unlocked.value.job else ""
    with transaction.atomic():
        job = locked_job(actor, public_id)
        if isinstance(job, Err):
            return job
        approval = Approval.objects.select_for_update().get(pk=number)
        if refusal := _refusal(approval, answer, seen, now) or (
            _always_refusal(approval, job) if answer == ALWAYS else None
        ):
            return refusal
        approval.answered_at, approval.answered_by, approval.reply = now, actor.label, reply
        is_done = (
            _deny(actor, approval, job, now) if answer == DENY else _allow(actor, approval, job, answer, now)
        )
        if not is_done:
            transaction.set_rollback(True)
            return _over(approval, "withdrawn, because its run has ended")
    return Ok(AnsweredApproval(approval, job))


def state_words(approval: Approval) -> str:
    """Describe the state of an approval in a few words."""
    by = f" by {approval.answered_by}" if approval.answered_by else ""
    if approval.is_question and (state := _question_words(Status(approval.status), by)):
        return state
    return {
        Status.WAITING: "waiting for an answer",
        Status.ALLOWED: f"allowed{by}" if approval.in_run else f"allowed{by}, and is about to be done",
        Status.USED: f"allowed{by}",
        Status.DENIED: f"denied{by}",
        Status.EXPIRED: "denied, because nobody answered in time",
        Status.WITHDRAWN: "withdrawn, because its run has ended",
    }[Status(approval.status)]


def _question_words(status: Approval.Status, by: str) -> str:
    return {
        Status.ALLOWED: f"answered{by}, and the run is about to go on",
        Status.USED: f"answered{by}",
        Status.DENIED: f"declined{by}",
        Status.EXPIRED: "declined, because nobody answered in time",
    }.get(status, "")


def approval_words(run: Execution, timezone: str) -> str:
    """Describe what a run last asked and the outcome, or what it was denied without asking; else return nothing."""
    if run.task != "prompt":
        return ""
    approval = Approval.objects.filter(execution=run.pk).select_related("job").order_by("-pk").first()
    if approval is None:
        return _refused_words(run)
    what = "a question" if approval.is_question else f"to use {approval.tool}"
    asked = f"It asked {what} at {local_words(approval.asked_at, timezone)}"
    if approval.status == Status.WAITING:
        text = f"{asked}, and waits for an answer until {local_words(approval.expires_at, timezone)}."
    else:
        text = f"{asked}: {state_words(approval)}."
    return f"{text} {permission_words(approval)}".strip()


def permission_of(approval: Approval) -> str:
    """Return the rule that would allow the same call without asking; empty if no rule can, or for a question."""
    if approval.is_question or has_mask(approval.arguments):
        return ""
    return approval.grant or grant_of(approval.tool, approval.arguments)


def permission_words(approval: Approval) -> str:
    """Say which permission would allow the same call without asking, and who can give it; empty for a question."""
    if approval.is_question:
        return ""
    rule = permission_of(approval)
    if not rule:
        return "No permission can name this call, so a person is asked each time."
    return _rule_words(rule, approval.job, approval.runner)


def _refused_words(run: Execution) -> str:
    """Say which permission would allow the first call that was refused without asking anybody."""
    refused = AgentRun.objects.filter(execution=run.pk, verdict=AgentRun.Verdict.REFUSED).order_by("-attempt")
    row = refused.select_related("job").only("denials", "runner", "kind", "job__grants").first()
    adapter = ADAPTERS.get(row.kind) if row else None
    if row is None or adapter is None or not adapter.has_tools or not row.denials or has_mask(row.denials[0]):
        return ""
    call = row.denials[0]
    rule = grant_of(call["name"], {"command": call["input"]})
    return _rule_words(rule, row.job, row.runner) if rule else ""


def _rule_words(rule: str, job: Job | None, runner: str) -> str:
    if job and rule in job.grants:
        return f"The job has the permission {rule}, which lets it pass."
    if _is_grantable(rule, runner):
        return f"The permission {rule} would let it pass: a person can give it to the job."
    return f"The permission {rule} would let it pass, but the operator has not listed it in grantable of the runner {runner}."


def _is_grantable(rule: str, runner_name: str) -> bool:
    runner = catalog.get(runner_name)
    return runner is not None and not runner.ungrantable([rule])


def _visible(actor: Actor) -> QuerySet[Approval]:
    waiting = Approval.objects.filter(
        status=Status.WAITING, execution__finished_at=None, job__deleted_at=None
    )
    return actor.visible(waiting, "execution__task").select_related("execution", "job__owner")


def _answer_problem(approval: Approval, answer: str, reply: str) -> Err | None:
    """Return what is wrong with an answer, whatever the approval's status."""
    choices = _TO_QUESTION if approval.is_question else _TO_CALL
    if answer not in choices:
        return invalid("answer", f"Choose one of: {', '.join(choices)}.")
    if answer != REPLY:
        return invalid("text", "Only the answer reply has a text.") if reply else None
    if not reply:
        return invalid("text", "Write an answer.")
    if len(reply) > LONGEST_REPLY:
        return invalid("text", f"Use at most {LONGEST_REPLY:,} characters.")
    return None


def _refusal(approval: Approval, answer: str, seen: str, now: datetime) -> Err | None:
    """Return why this approval cannot be answered now."""
    if approval.status != Status.WAITING:
        return _over(approval, state_words(approval))
    if approval.expires_at <= now:
        ending = "declined" if approval.is_question else "denied"
        return _over(approval, f"{ending}, because nobody answered in time")
    if seen != approval.digest or not approval.is_genuine:
        return Err(Code.APPROVAL_CHANGED, approval.pk)
    if answer != DENY and (stop := stop_in_force(approval.owner_id)):
        return Err(Code.AGENTS_STOPPED, reason=stop.sentence)
    return None


def _over(approval: Approval, state: str) -> Err:
    return Err(Code.APPROVAL_OVER, approval.pk, state=state)


def _always_refusal(approval: Approval, job: Job) -> Err | None:
    """Return why the rule of this call cannot be added to its job."""
    if not approval.grant or not _is_grantable(approval.grant, approval.runner):
        return Err(Code.APPROVAL_HAS_NO_GRANT, approval.pk)
    problem = grants_problem(list(dict.fromkeys([*job.grants, approval.grant])))
    return invalid("grants", problem) if problem else None


def _allow(actor: Actor, approval: Approval, job: Job, answer: str, now: datetime) -> bool:
    """Let the run, or its waiting program, continue; return False if it no longer waits."""
    waiting = Execution.objects.filter(
        pk=approval.execution_id, attempt=approval.attempt, status=Execution.Status.QUEUED
    )
    done = "Answered" if approval.is_question else "Allowed"
    if approval.in_run:
        is_awaited = engine.is_awaited_in_run(approval)
    else:
        reason = f"{done} by {actor.label}."[: limits.ACTOR_LENGTH]
        is_awaited = bool(waiting.update(available_at=now, reason=reason))
    if not is_awaited:
        return False
    approval.status, approval.is_always = Status.ALLOWED, answer == ALWAYS
    approval.save(update_fields=["status", "is_always", "answered_at", "answered_by", "reply"])
    engine.close_incident(approval, now, done)
    if approval.is_question:
        record(actor, "reply", now, job=job, after=_recorded(approval))
    else:
        record(actor, "allow", now, job=job, after=_recorded(approval))
    if approval.is_always and approval.grant not in job.grants:
        before = list(job.grants)
        change_row(job, now, grants=[*before, approval.grant])
        record(actor, "edit", now, job=job, before={"grants": before}, after={"grants": job.grants})
    return True


def _deny(actor: Actor, approval: Approval, job: Job, now: datetime) -> bool:
    """End the run as refused, or let its program continue without the call; return False if it no longer waits."""
    approval.save(update_fields=["answered_at", "answered_by"])
    done = "declined" if approval.is_question else "denied"
    if not engine.deny(approval, now, Status.DENIED, f"{actor.label} {done} it."):
        return False
    if approval.is_question:
        record(actor, "decline", now, job=job, after=_recorded(approval))
    else:
        record(actor, "deny", now, job=job, after=_recorded(approval))
    return True


def _recorded(approval: Approval) -> dict[str, Any]:
    recorded = {"execution": approval.execution_id}
    if not approval.is_question:
        return recorded | {"tool": approval.call_summary}
    reply = {"reply": limits.shortened(approval.reply, MAX_RECORDED_LENGTH)} if approval.reply else {}
    return recorded | {"question": approval.call_summary} | reply
