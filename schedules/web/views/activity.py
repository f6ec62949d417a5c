"""The activity page and the trash."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import Any

from django.views.generic import TemplateView

from schedules.models import Event, Job, Token
from schedules.services.event_list import EventQuery, events_of, read_events, undone_among
from schedules.services.job_overview import read_trash
from schedules.services.jobs.undo import UNDOABLE, plan_undo
from schedules.services.permissions import Actor
from schedules.templatetags.cronty_text import VERBS
from schedules.templatetags.cronty_times import day_words
from schedules.web.views.page import Page, PageMixin, owners_for
from schedules.when.forecast import start_of_day
from schedules.when.zones import local

FILTERS = ("actor", "door", "verb", "job", "from", "to")
# On the page of a job.
SHOWN_EVENTS = 20
# In the suggestions of the filter.
MAX_NAMES = 50


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
