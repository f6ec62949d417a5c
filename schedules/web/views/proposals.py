"""Proposals of agents: shown as plans on the jobs page and on job pages, where a person confirms them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from schedules.models import Job
from schedules.services.jobs.proposals import (
    MAX_LISTED,
    Proposal,
    ProposedPlan,
    confirm_many,
    list_plans,
    proposals_of,
)
from schedules.web.messages import message_of
from schedules.web.views.job_facts import shown_values
from schedules.web.views.page import Page, actor_of, back, is_number


@dataclass(frozen=True)
class ShownProposal:
    """A proposal with the arguments of its task, and what this person may do with it."""

    proposal: Proposal
    values: Sequence[tuple[str, Any]]
    can_change: bool
    can_delete: bool


@dataclass(frozen=True)
class ShownPlan:
    """The proposals of one agent, shown together."""

    plan: ProposedPlan
    proposals: Sequence[ShownProposal]

    @property
    def entries(self) -> list[str]:
        """The jobs that one button confirms."""
        return [
            each.proposal.entry for each in self.proposals if each.can_change and not each.proposal.is_over
        ]


def plans_for(page: Page) -> list[ShownPlan]:
    """Return the plans that wait for this person's confirmation."""
    return [
        ShownPlan(plan, [_shown(page, each) for each in plan.proposals])
        for plan in list_plans(page.actor, page.now)
    ]


def shown_proposal(page: Page, job: Job) -> ShownProposal | None:
    """Return the proposal of a job, or None if it does not wait for a confirmation."""
    is_waiting = job.proposed_at is not None and job.status == Job.Status.PAUSED
    return _shown(page, proposals_of([job], page.now)[0]) if is_waiting else None


def _shown(page: Page, proposal: Proposal) -> ShownProposal:
    job = proposal.job
    return ShownProposal(proposal, shown_values(job), page.actor.may_change(job), page.actor.may_delete(job))


@require_POST
def confirm(request: HttpRequest) -> HttpResponse:
    """Confirm jobs as they were shown; one that has changed since then is refused."""
    outcome = confirm_many(actor_of(request), list(_entries(request.POST.getlist("job")[:MAX_LISTED])))
    if outcome.jobs:
        names = outcome.jobs[0].name if len(outcome.jobs) == 1 else f"{len(outcome.jobs)} jobs"
        ids = " ".join(job.public_id for job in outcome.jobs)
        messages.success(request, f"{names} confirmed.", extra_tags=f"undo-confirm {ids}")
    for _, problem in outcome.refused[:1]:
        more = len(outcome.refused) - 1
        messages.warning(request, message_of(problem) + (f" {more} more were not confirmed." if more else ""))
    if not outcome.jobs and not outcome.refused:
        messages.warning(request, "There is nothing to confirm.")
    return back(request, reverse("schedules:jobs"))


def _entries(texts: Sequence[str]) -> Iterator[tuple[str, int]]:
    for text in texts:
        job_id, _, revision = text.rpartition(":")
        if job_id and is_number(revision):
            yield job_id, int(revision)
