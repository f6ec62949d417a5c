"""Jobs by standing: the queries that find the jobs of each standing in a large list, and the alarm in every page's title."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from schedules.models import Job, Profile
from schedules.models.counting import CountUpTo, count_words
from schedules.models.job_queries import has_unfinished
from schedules.models.jobs import JobQuerySet
from schedules.models.keysets import Segment
from schedules.models.standings import BROKEN, ORDER, is_failing, is_late, is_stopped_failing, with_rank
from schedules.services.permissions import Actor

# How many jobs the title and icon of every page count; an icon has room for two digits.
MAX_IN_ALARM = 100
BY_NEXT_RUN = ("next_run_at", "-pk")


# The newest first; the jobs of one owner have an index of their own for it.
NEWEST, NEWEST_OF_OWNER = ("-pk",), ("-created_at", "-pk")


def segment_of(
    jobs: JobQuerySet, now: datetime, name: str, newest: tuple[str, ...] = NEWEST_OF_OWNER
) -> Segment:
    """Return the jobs of one standing; those that are broken or late are found by an index."""
    match name:
        case "stopped_failing":
            return Segment(jobs.filter(is_stopped_failing()).order_by("-pk"))
        case "failed":
            return Segment(jobs.stopped(Job.Status.FAILED))
        case "failing":
            return Segment(jobs.filter(is_failing()), BY_NEXT_RUN)
        case "late":
            late = jobs.filter(is_late(now), failure_streak=0)
            return Segment(late.exclude(has_unfinished("retrying")), BY_NEXT_RUN)
    ranked = with_rank(jobs, now).filter(rank=ORDER.index(name))  # type: ignore[misc]
    return Segment(ranked, newest, walked=jobs)


def broken_first(
    jobs: JobQuerySet, now: datetime, newest: tuple[str, ...] = NEWEST_OF_OWNER
) -> list[Segment]:
    """Return all jobs: the broken ones, then the others, the newest first."""
    others = jobs.exclude(is_stopped_failing()).exclude(is_failing()).exclude(status=Job.Status.FAILED)
    return [*(segment_of(jobs, now, name) for name in BROKEN), Segment(others, newest, walked=jobs)]


class Alarm(NamedTuple):
    """What the title and the icon of every page warn of."""

    text: str
    """Such as "3 failing, 1 late"; empty if all is well."""
    jobs: int
    """How many, up to MAX_IN_ALARM."""


def count_alarming(jobs: JobQuerySet, now: datetime, profile: Profile) -> dict[str, int]:
    """Count the broken and late jobs up to a limit, in one query that reads only indexes."""
    names = (*BROKEN, "late")
    parts = [segment_of(jobs, now, name) for name in names]
    counted = [CountUpTo(part.rows.order_by(*part.order), MAX_IN_ALARM) for part in parts]
    # The profile is the single row that the counts are attached to.
    [row] = Profile.objects.filter(pk=profile.pk).values_list(*counted)
    return dict(zip(names, row, strict=True))


def read_alarm(actor: Actor, now: datetime, profile: Profile) -> Alarm:
    return alarm_of(count_alarming(actor.jobs(), now, profile))


def alarm_of(counts: Mapping[str, int | None]) -> Alarm:
    """Return the alarm for these numbers of jobs by standing."""
    broken, late = sum(counts.get(name) or 0 for name in BROKEN), counts.get("late") or 0
    by_label = {"failing": broken, "late": late}
    return Alarm(
        ", ".join(
            f"{count_words(count, MAX_IN_ALARM)} {label}" for label, count in by_label.items() if count
        ),
        min(broken + late, MAX_IN_ALARM),
    )
