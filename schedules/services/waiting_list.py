"""What waits for a person: tool calls and questions of agents' runs, and proposed jobs; also recent answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter

from schedules.models import Approval, Event, Job
from schedules.services.jobs.proposals import waiting_jobs
from schedules.services.permissions import Actor
from schedules.services.runs.approvals import list_waiting, state_words

MAX_WAITING = 50
MAX_ANSWERED = 20
ANSWERED_WITHIN = timedelta(days=7)
# How many of the newest events are scanned for answers.
MAX_SCANNED = 3_000
_ANSWERS_TO_RUNS = ("allow", "reply", "deny", "decline")
_ANSWERS_TO_PROPOSALS = {"confirm": "confirmed", "cancel": "discarded", "delete": "discarded"}


@dataclass(frozen=True, slots=True)
class Request:
    """A request by an agent to a person: a tool call or question of a run, or a proposed job."""

    job: Job
    by: str
    """The runner of a run, or the agent that proposes a job."""
    asked_at: datetime
    approval: Approval | None = None
    answer: str = ""
    """The outcome and who decided it; empty while it waits."""
    answered_at: datetime | None = None


def waiting_requests(actor: Actor) -> tuple[list[Request], bool]:
    """Return what waits for a person, oldest first, and whether there is more."""
    approvals = [_of_run(approval) for approval in list_waiting(actor, MAX_WAITING + 1)]
    proposed = [
        Request(job, job.proposed_by, job.proposed_at)
        for job in waiting_jobs(actor)[: MAX_WAITING + 1]
        if job.proposed_at
    ]
    requests = sorted([*approvals, *proposed], key=attrgetter("asked_at"))
    return requests[:MAX_WAITING], len(requests) > MAX_WAITING


def answered_requests(actor: Actor, now: datetime) -> list[Request]:
    """Return recently answered requests, the newest answer first."""
    newest = Event.objects.filter(owner=actor.user.pk).order_by("-pk").values("pk")[:MAX_SCANNED]
    events = list(
        Event.objects.filter(
            actor.within_tasks("job__task"),
            pk__in=newest,
            verb__in=[*_ANSWERS_TO_RUNS, *_ANSWERS_TO_PROPOSALS],
            at__gte=now - ANSWERED_WITHIN,
            job__isnull=False,
        )
        .select_related("job")
        .order_by("-pk")
    )
    requests = [*_answered_by_runs(events), *filter(None, map(_of_proposal, events))]
    return sorted(requests, key=lambda request: request.answered_at or now, reverse=True)[:MAX_ANSWERED]


def _of_run(approval: Approval) -> Request:
    assert approval.job is not None
    if approval.status == Approval.Status.WAITING:
        return Request(approval.job, approval.runner, approval.asked_at, approval)
    answered_at = approval.answered_at or approval.expires_at
    return Request(
        approval.job, approval.runner, approval.asked_at, approval, state_words(approval), answered_at
    )


def _answered_by_runs(events: Sequence[Event]) -> list[Request]:
    runs = {event.after.get("execution") for event in events if event.verb in _ANSWERS_TO_RUNS}
    # Look among these runs, because approvals have no index by owner.
    answered = Approval.objects.filter(execution__in=runs, job__isnull=False)
    answered = answered.exclude(status__in=[Approval.Status.WAITING, Approval.Status.WITHDRAWN])
    newest = answered.select_related("execution", "job").order_by("-pk")
    return [_of_run(approval) for approval in newest[:MAX_ANSWERED]]


def _of_proposal(event: Event) -> Request | None:
    """Return the proposal that an event answered, or None if it is about something else."""
    job = event.job
    if job is None or event.verb not in _ANSWERS_TO_PROPOSALS:
        return None
    answer = f"{_ANSWERS_TO_PROPOSALS[event.verb]} by {event.actor}"
    if event.verb == "confirm":
        asked_at = datetime.fromisoformat(event.before["proposed_at"])
        return Request(job, event.before["proposed_by"], asked_at, answer=answer, answered_at=event.at)
    # A discarded proposal keeps these columns, so that it waits again if it is restored.
    if job.proposed_at is None or (job.status == Job.Status.PAUSED and job.deleted_at is None):
        return None
    return Request(job, job.proposed_by, job.proposed_at, answer=answer, answered_at=event.at)
