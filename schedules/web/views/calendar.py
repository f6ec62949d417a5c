"""The calendar page, and the iCalendar feed of the next 30 days."""

import calendar as months
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from itertools import chain, islice
from operator import itemgetter
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.cache import get_conditional_response
from django.utils.http import quote_etag
from django.views.decorators.http import require_POST, require_safe
from django.views.generic import TemplateView

from schedules import clock, engine
from schedules.engine import QuietHours
from schedules.models import Profile
from schedules.models.people import is_active
from schedules.services import Actor
from schedules.services.job_list import JobQuery
from schedules.services.jobs.outlook import outlook_in_words, read_outlook
from schedules.services.people.profiles import change_calendar_address
from schedules.web.views.calendar_days import HOUR, days_between, hours_of
from schedules.web.views.forecast import MAX_JOBS, days_of, has_more, runs_of, soonest
from schedules.web.views.page import PageMixin
from schedules.when.durations import TICK
from schedules.when.forecast import start_of_day

# How many events each view shows in a day.
SHOWN_JOBS = {"month": 3, "week": 12, "day": 0}
YEARS = range(2000, 2101)
# What lies further ahead than this is not counted up.
LONGEST_OUTLOOK = timedelta(days=60)
_FEED_PERIOD = timedelta(days=30)
FEED_EVENTS = 2000
# A job that fires more often than hourly would hide everything else in a calendar.
FEED_RUNS_A_DAY = 24


class CalendarPage(PageMixin, TemplateView):
    template_name = "schedules/calendar.html"

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> HttpResponse:
        # The page shows the address of the feed, which is a secret.
        response = super().render_to_response(context, **kwargs)
        response["Cache-Control"] = "no-store"
        return response

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        chosen_view = self.request.GET.get("view", "")
        view = chosen_view if chosen_view in SHOWN_JOBS else "month"
        today = self.page.now.astimezone(ZoneInfo(self.page.zone)).date()
        chosen = _date(self.request.GET.get("on", "")) or today
        shown = self._hours(chosen) if view == "day" else self._days(chosen, view, today)
        feed = reverse("schedules:calendar-feed", args=[self.page.profile.calendar_key])
        return super().get_context_data(
            view=view,
            views=SHOWN_JOBS,
            chosen=chosen,
            **shown,
            before=_shifted(chosen, view, -1),
            after=_shifted(chosen, view, 1),
            today=today,
            most_jobs=MAX_JOBS if has_more(self.page.actor.jobs()) else None,
            outlook=self._outlook(*_ends(chosen, view, self.page.profile.week_start)),
            feed=f"{settings.CRONTY_URL}{feed}",
            feed_events=FEED_EVENTS,
            **kwargs,
        )

    def _days(self, chosen: date, view: str, today: date) -> dict[str, Any]:
        weeks = _weeks(chosen, view, self.page.profile.week_start)
        days = days_between(self.page, weeks[0][0], weeks[-1][-1])
        for day in days.values():
            day.is_other = view == "month" and day.date.month != chosen.month
            day.is_today, day.max_shown = day.date == today, SHOWN_JOBS[view]
            day.is_earlier = day.date < today in days and not day.is_other
        return {
            "weeks": [[days[day] for day in week] for week in weeks],
            "has_earlier": any(day.is_earlier for day in days.values()),
            "failed_earlier": sum(day.past.bad for day in days.values() if day.is_earlier),
        }

    def _outlook(self, first: date, last: date) -> list[str]:
        """Describe what lies ahead in the shown days, both included."""
        zone, now = self.page.zone, self.page.now
        start, end = start_of_day(first, zone), start_of_day(last + timedelta(days=1), zone)
        if end <= now or start > now + LONGEST_OUTLOOK:
            return []
        outlook = read_outlook(self.actor, JobQuery(), now, since=start, until=end - TICK)
        return outlook_in_words(outlook)

    def _hours(self, chosen: date) -> dict[str, Any]:
        hours, all_day = hours_of(self.page, chosen)
        return {"hours": hours, "all_day": all_day, "now_hour": self.page.now - HOUR}


def _date(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if day.year in YEARS else None


def _weeks(day: date, view: str, first_weekday: int) -> list[list[date]]:
    if view == "month":
        return months.Calendar(first_weekday).monthdatescalendar(day.year, day.month)
    first = day - timedelta(days=(day.weekday() - first_weekday) % 7)
    return [[first + timedelta(days=offset) for offset in range(7)]]


def _ends(day: date, view: str, first_weekday: int) -> tuple[date, date]:
    """Return the first and the last day of a view, without those of other months."""
    if view == "day":
        return day, day
    days = [each for week in _weeks(day, view, first_weekday) for each in week]
    if view == "month":
        days = [each for each in days if each.month == day.month]
    return days[0], days[-1]


def _shifted(day: date, view: str, step: int) -> date | None:
    """Return the day that an arrow links to, or None at either end of the calendar."""
    if view == "month":
        shifted = (day.replace(day=15) + timedelta(days=30 * step)).replace(day=1)
    else:
        shifted = day + timedelta(days=step * (7 if view == "week" else 1))
    return shifted if shifted.year in YEARS else None


@require_POST
def change_address(request: HttpRequest) -> HttpResponse:
    """Replace the secret address of the feed, in case somebody else has seen it."""
    if change_calendar_address(request.user, shown=request.POST.get("shown", "")):
        messages.success(request, "Your calendar has a new link. The old one no longer works.")
    else:
        messages.warning(request, "The link was already changed: this is the new one.")
    return HttpResponseRedirect(reverse("schedules:calendar"), status=303)


@login_not_required
@require_safe
def feed(request: HttpRequest, key: str) -> HttpResponse:
    """Serve the next 30 days to a calendar app; the key in the URL is the secret."""
    profile = Profile.objects.select_related("user").filter(is_active("user__"), calendar_key=key).first()
    if profile is None:
        raise Http404("calendar")
    now = clock.now()
    jobs = soonest(Actor(profile.user).jobs(), now + _FEED_PERIOD)
    quiet = engine.quiet_hours_ahead(jobs)
    etag = _etag([*jobs, *quiet.items()], now)
    response = get_conditional_response(request, etag=etag)
    if response is None:
        text = "\r\n".join(_calendar_lines(jobs, quiet, now))
        response = HttpResponse(
            f"{text}\r\n", content_type="text/calendar; charset=utf-8", headers={"ETag": etag}
        )
    response["Cache-Control"] = "private, max-age=300"
    return response


def _etag(rows: list[Any], now: datetime) -> str:
    """Return an entity tag that changes with these rows, and every hour, because the feed starts now."""
    digest = hashlib.sha256(repr([tuple(row) for row in rows]).encode()).hexdigest()
    return quote_etag(f"{digest[:32]}-{now:%Y%m%d%H}")


def _calendar_lines(jobs: list[Any], quiet: Mapping[int, QuietHours], now: datetime) -> Iterator[str]:
    yield from ("BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Cronty//EN", "X-WR-CALNAME:Cronty")
    events = chain.from_iterable(_events_of(job, quiet.get(job.pk), now) for job in _rare_first(jobs, now))
    yield from chain.from_iterable(islice(events, FEED_EVENTS))
    yield "END:VCALENDAR"


def _rare_first(jobs: list[Any], now: datetime) -> list[Any]:
    """Return the jobs of the feed, those with the fewest runs first, so that its limit cuts off frequent jobs."""
    counted_jobs = []
    for job in jobs:
        counts = [count for _, count in days_of(job, now, now + _FEED_PERIOD, "UTC").values()]
        if max(counts, default=0) <= FEED_RUNS_A_DAY:
            counted_jobs.append((sum(counts), job))
    return [job for _, job in sorted(counted_jobs, key=itemgetter(0))]


def _events_of(job: Any, quiet: QuietHours | None, now: datetime) -> Iterator[Iterable[str]]:
    """Yield the lines of each event of a job."""
    address = f"{settings.CRONTY_URL}{reverse('schedules:job', args=[job.public_id])}"
    constant_lines = (
        f"DTSTAMP:{now.astimezone(UTC):%Y%m%dT%H%M%SZ}",
        "DURATION:PT5M",
        _folded(f"URL:{address}"),
        "TRANSP:TRANSPARENT",
        "END:VEVENT",
    )
    for batch in runs_of(job, now, now + _FEED_PERIOD):
        for moment in batch.moments():
            stamp = f"{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}"
            uid = _folded(f"UID:{job.public_id}-{stamp}@cronty")
            held = quiet.held_words(moment, quiet.zone) if quiet else ""
            summary = f"{job.name} ({held})" if held else job.name
            yield (
                "BEGIN:VEVENT",
                uid,
                f"DTSTART:{stamp}",
                _folded(f"SUMMARY:{_escaped(summary)}"),
                *constant_lines,
            )


def _escaped(text: str) -> str:
    for character in ("\\", ";", ","):
        text = text.replace(character, f"\\{character}")
    return text.replace("\r", "").replace("\n", "\\n")


def _folded(line: str) -> str:
    """Fold a line into lines of at most 75 octets, as the format requires, without splitting a character."""
    if len(line) <= 73 and line.isascii():
        return line
    pieces, piece = [], ""
    for character in line:
        if len((piece + character).encode()) > 73:
            pieces.append(piece)
            piece = ""
        piece += character
    return "\r\n ".join([*pieces, piece])
