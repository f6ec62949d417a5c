"""The activity page, the undo of what it lists, and the trash."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.generic import TemplateView

from schedules.models import Event, Job, Token
from schedules.result import Code, Err, Ok, sentence
from schedules.services.activity import Change, changes_between
from schedules.services.event_list import EventQuery, events_of, read_events, undone_among
from schedules.services.job_overview import read_trash
from schedules.services.jobs.undo import (
    MAX_EVENTS,
    UNDOABLE,
    Reversal,
    events_of_call,
    events_since,
    latest_events,
    plan_undo,
    undo,
    undoable_among,
)
from schedules.services.permissions import Actor
from schedules.templatetags.cronty_text import VERBS
from schedules.templatetags.cronty_times import day_words
from schedules.web.messages import message_of
from schedules.web.views.page import Page, PageMixin, back, is_number, own_address, owners_for
from schedules.when.forecast import start_of_day
from schedules.when.phrases import PhraseError, parse_past
from schedules.when.zones import local

FILTERS = ("actor", "door", "verb", "job", "from", "to")
# On the page of a job.
SHOWN_EVENTS = 20
# In the suggestions of the filter.
MAX_NAMES = 50
# What undoing an event does to its job.
ACTIONS = {
    "delete": "Moves to the trash",
    "cancel": "Stops permanently",
    "restore": "Is restored",
    "resume": "Is resumed",
    "pause": "Is paused",
    "unconfirm": "Waits for a confirmation again",
}
# As many as one action on the list of jobs can change.
MAX_JOBS = 1_000


class ActivityPage(PageMixin, TemplateView):
    """The audit log, newest first."""

    template_name = "schedules/activity.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        filters = {name: self.request.GET.get(name, "").strip() for name in FILTERS}
        query = EventQuery(
            actor=filters["actor"],
            door=filters["door"],
            verb=filters["verb"],
            job=filters["job"],
            **days_between(filters["from"], filters["to"], self.page.zone),
        )
        listed = read_events(self.actor, query, self.request.GET)
        prepare_events(self.page, listed.rows)
        return super().get_context_data(
            listed=listed,
            filters=filters,
            names=names_for(self.actor),
            is_filtered=any(filters.values()),
            doors=Event.Door.values,
            verbs=list(VERBS),
            **kwargs,
        )


def days_between(first: str, last: str, zone: str) -> dict[str, datetime]:
    """Return the bounds of a range of days, without a bound for a day that cannot be parsed."""
    bounds = {}
    with suppress(ValueError, OverflowError):
        bounds["since"] = start_of_day(date.fromisoformat(first), zone)
    with suppress(ValueError, OverflowError):
        bounds["until"] = start_of_day(date.fromisoformat(last) + timedelta(days=1), zone)
    return bounds


def names_for(actor: Actor) -> list[str]:
    """Return the names of people and agents to suggest in the filter."""
    people = owners_for(actor) or [actor.label]
    agents = Token.objects.filter(owner=actor.user.pk).order_by("-pk").values_list("name", flat=True)
    return sorted({*people, *agents[:MAX_NAMES]})


def events_of_job(page: Page, job: Job) -> Sequence[Event]:
    """Return the newest events of a job, prepared for its history."""
    events = events_of(job, SHOWN_EVENTS)
    for event in events:
        event.job = job
    prepare_events(page, events)
    return events


def prepare_events(page: Page, events: Sequence[Any]) -> None:
    """Set on each event its day, whether it was undone, and whether this person can undo it."""
    today = local(page.now, page.zone).date()
    undone = undone_among(events)
    for event in events:
        event.day = _day_words(local(event.at, page.zone).date(), today)
        event.is_undone = event.pk in undone
        event.can_undo = not event.is_undone and may_undo(page.actor, event)


def may_undo(actor: Actor, event: Event) -> bool:
    """Return whether this person may undo an event, and its job has not changed since."""
    if event.verb not in UNDOABLE or event.undoes or event.job is None:
        return False
    [reversal] = plan_undo([event])
    has_right = actor.may_delete if reversal.action == "delete" else actor.may_change
    return reversal.refusal is None and has_right(event.job)


def _day_words(day: date, today: date) -> str:
    name = {0: "Today, ", 1: "Yesterday, "}.get((today - day).days, "")
    return f"{name}{day_words(day, today)}"


class TrashPage(PageMixin, TemplateView):
    """Deleted jobs, which can be restored."""

    template_name = "schedules/trash.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        listed = read_trash(self.actor, self.request.GET)
        for job in listed.rows:
            job.can_change = self.actor.may_change(job)
        return super().get_context_data(listed=listed, **kwargs)


@dataclass(frozen=True)
class Step:
    """One event to undo, or why it can't be undone."""

    event: Event
    action: str
    changes: Sequence[Change]
    problem: str


class UndoPage(PageMixin, TemplateView):
    """Previews the undo of one event, one call, or everything that somebody did since a moment; a POST performs it."""

    template_name = "schedules/undo.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        choice = {
            name: self.request.GET.get(name, "").strip() for name in ("event", "call", "actor", "since")
        }
        events, problem = self._events(choice)
        steps = steps_of(plan_undo(events))
        is_by_person = not choice["event"] and not choice["call"]
        return super().get_context_data(
            choice=choice,
            is_by_person=is_by_person,
            is_empty=is_by_person and not choice["actor"],
            names=names_for(self.actor) if is_by_person else [],
            problem=problem,
            steps=[step for step in steps if not step.problem],
            refused=[step for step in steps if step.problem],
            ids=" ".join(str(step.event.pk) for step in steps if not step.problem),
            most=MAX_EVENTS if len(events) >= MAX_EVENTS else None,
            together=self._together(events) if choice["event"] else 0,
            next=own_address(self.request.GET.get("next", "")) or reverse("schedules:activity"),
            **kwargs,
        )

    def _events(self, choice: dict[str, str]) -> tuple[list[Event], str]:
        """Return the events to undo, newest first, and what is wrong with the request."""
        if is_number(choice["event"]):
            return undoable_among(self.actor, [int(choice["event"])]), ""
        if is_number(choice["call"]):
            return events_of_call(self.actor, int(choice["call"])), ""
        if not choice["actor"]:
            return [], ""
        try:
            since = parse_past(choice["since"] or "today", now=self.page.now, timezone=self.page.zone)
        except PhraseError as error:
            return [], sentence(str(error))
        if not isinstance(since, datetime):
            since = start_of_day(since, self.page.zone)
        return events_since(self.actor, choice["actor"], since), ""

    def _together(self, events: Sequence[Event]) -> int:
        """Return how many events were recorded by the same click or call."""
        return len(events_of_call(self.actor, events[0].pk)) if events else 0

    def post(self, request: HttpRequest) -> HttpResponse:
        """Undo the events with these ids, or what this person has just done to these jobs."""
        if verb := request.POST.get("verb"):
            job_ids = request.POST.get("job", "").split()[:MAX_JOBS]
            events = latest_events(self.actor, verb, job_ids)
        else:
            ids = [
                int(text) for text in request.POST.get("event", "").split()[:MAX_EVENTS] if is_number(text)
            ]
            events = undoable_among(self.actor, ids)
        address = reverse("schedules:activity")
        if not events:
            messages.warning(request, "There is nothing to undo: it was undone or changed already.")
            return back(request, address)
        match undo(self.actor, events):
            case Ok(undone):
                count = len(undone.jobs)
                what = f"the change of {undone.jobs[0].name}" if count == 1 else f"{count:,} changes"
                messages.success(
                    request, f"{what[0].upper()}{what[1:]} {'was' if count == 1 else 'were'} undone."
                )
                if undone.refused:
                    messages.warning(request, _refusal(undone.refused))
            case Err() as problem:
                messages.error(request, f"{events[0].subject}: {message_of(problem)}")
        return back(request, address)


def steps_of(reversals: Sequence[Reversal]) -> list[Step]:
    """Describe what each reversal does; older changes of a job are undone after newer ones."""
    seen: set[int] = set()
    steps = []
    for reversal in reversals:
        event, refusal = reversal.event, reversal.refusal
        is_next = event.job_id in seen and refusal is not None and refusal.code == Code.JOB_CHANGED_AGAIN
        if refusal and not is_next:
            steps.append(Step(event, "", (), message_of(refusal)))
            continue
        seen.add(event.job_id or 0)
        before, after = (
            (event.after, event.before) if is_next else (reversal.before or {}, reversal.after or {})
        )
        changes = changes_between(before, after, event.job)
        steps.append(Step(event, ACTIONS.get(reversal.action, ""), changes, ""))
    return steps


def _refusal(refused: Sequence[tuple[Event, Err]]) -> str:
    event, problem = refused[0]
    more = len(refused) - 1
    others = f" {more:,} more couldn't be undone." if more else ""
    return f"{event.subject} couldn't be undone. {message_of(problem)}{others}"
