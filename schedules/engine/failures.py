"""Reactions to failing jobs: a notice to the owner when a job starts failing, a pause when it keeps failing."""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F, Q
from django.urls import reverse

from schedules.engine.pauses import note, pause
from schedules.models import Job, Profile
from schedules.models.job_queries import NOTICE_PREFIX
from schedules.models.job_texts import searchable_text, skeleton
from schedules.models.jobs import JobQuerySet, new_public_id
from schedules.tasks.site import public_site

logger = logging.getLogger(__name__)

LONGEST_NOTICE = 2000
# How many jobs a notice names.
MOST_NAMED = 20


def handle_failures(failures: Mapping[int, int], now: datetime) -> None:
    """Pause the jobs that reached their limit of failures in a row, and notify the owners.

    `failures` are the new failures of each job since its last success.
    """
    paused = _pause_failing(failures, now)
    _notify(
        [job for job in _watched(failures) if job.pk in paused or _starts_failing(job, failures[job.pk])], now
    )


def notify_of_unreadable(job_ids: Collection[int], now: datetime) -> None:
    """Notify the owners of jobs that were paused because their schedule cannot be read."""
    _notify(_watched(job_ids), now)


def _watched(job_ids: Collection[int]) -> JobQuerySet:
    """Return those of the jobs whose failures somebody wants to be told of."""
    has_place = (
        Q(alerts__gt="")
        | Q(owner__cronty_profile__failure_topic__gt="")
        | Q(owner__cronty_profile__alert_channel__gt="")
    )
    watched = Job.objects.kept().filter(has_place, pk__in=job_ids).exclude(alerts=Job.NEVER)
    return watched.select_related("owner__cronty_profile").order_by("pk")


def _profile_of(job: Job) -> Profile:
    """Return the profile of a job's owner, or the defaults if there is none."""
    return getattr(job.owner, "cronty_profile", None) or Profile()


def _place_of(job: Job) -> dict[str, str]:
    """Return where alerts of a job go, as arguments of the task notify."""
    if not job.alerts:
        return _profile_of(job).alert_place
    name = job.alerts.removeprefix(Job.CHANNEL_PREFIX)
    return {"channel": name} if name != job.alerts else {"topic": job.alerts}


def _notify(jobs: Iterable[Job], now: datetime) -> None:
    """Send one notice to each place, a topic or a channel, of the owners of these jobs."""
    news: dict[tuple[int, tuple[tuple[str, str], ...]], list[Job]] = defaultdict(list)
    for job in jobs:
        news[job.owner_id, tuple(_place_of(job).items())].append(job)
    for (owner_id, place), owned in news.items():
        if _may_notify(owner_id, now):
            _notify_owner(owned, dict(place), now)


def _pause_failing(job_ids: Collection[int], now: datetime) -> set[int]:
    failing = list(
        Job.objects.armed()
        .filter(pk__in=job_ids, pause_after_failures__gt=0, failure_streak__gte=F("pause_after_failures"))
        .select_for_update(of=("self",), no_key=True)
    )
    for job in failing:
        streak = job.failure_streak
        reason = (
            f"Paused after {streak} failures in a row." if streak > 1 else "Paused after its first failure."
        )
        pause(job, now, reason)
        note(job, "pause", now, {"reason": reason, "error": job.last_error[:500]})
    return {job.pk for job in failing}


def _starts_failing(job: Job, failures: int) -> bool:
    """Return whether these are the first failures since a success, of a job that was not stopped meanwhile."""
    is_stopped = job.status in (Job.Status.PAUSED, Job.Status.CANCELLED)
    # If a notification to the place of the alerts failed, a notice to the same place would fail as well.
    is_about_notices = job.task == "notify" and any(
        job.argument(name) == value for name, value in _place_of(job).items()
    )
    return job.failure_streak <= failures and not is_stopped and not is_about_notices


def _may_notify(owner_id: int, now: datetime) -> bool:
    """Return whether the owner has had fewer notices within the last hour than allowed."""
    recent = Job.objects.notices().filter(owner=owner_id, created_at__gt=now - timedelta(hours=1))
    if recent.count() < settings.CRONTY_MAX_FAILURE_NOTICES_PER_HOUR:
        return True
    logger.warning("User %s has had all failure notices of this hour: no more are sent", owner_id)
    return False


def _notify_owner(jobs: Sequence[Job], place: Mapping[str, str], now: datetime) -> None:
    """Create a notification job, so that the notice is retried and the ledger shows whether it was sent."""
    first = jobs[0]
    # Each is cut, so that a long error does not hide the other jobs: they are not reported again.
    named = jobs[:MOST_NAMED]
    room = LONGEST_NOTICE // (len(named) + 1) - 1
    lines = [f"{job.name}: {_news_of(job)}"[: room if len(jobs) > 1 else LONGEST_NOTICE] for job in named]
    if len(jobs) > len(named):
        lines.append(f"… and {len(jobs) - len(named)} more")
    name = f"Failure alert: {first.name}"[:200]
    title = "A job was paused" if first.status == Job.Status.PAUSED else "A job failed"
    notice = Job(
        owner_id=first.owner_id,
        public_id=new_public_id(NOTICE_PREFIX, now),
        name=name,
        name_skeleton=skeleton(name),
        task="notify",
        kwargs={
            "message": "\n".join(lines)[:LONGEST_NOTICE],
            **place,
            "title": title if len(jobs) == 1 else f"{len(jobs)} jobs failed",
            "priority": 4,
            "tags": ["warning"],
            **_link_to(jobs),
        },
        trigger_type=Job.TriggerType.ONCE,
        run_at=now,
        next_run_at=now,
        timezone=_profile_of(first).zone,
        attempts=5,
        made_by="cronty",
        created_at=now,
        updated_at=now,
    )
    notice.search_text = searchable_text(notice)
    notice.save(force_insert=True)


def prepare_links() -> None:
    """Load the addresses of the pages, so that no process does it for its first notice, in the middle of its work."""
    public_site()


def _link_to(jobs: Sequence[Job]) -> dict[str, str]:
    """Return what a tap on the notice opens: the page of the job, or the list of jobs if there are several."""
    if not (site := public_site()):
        return {}
    if len(jobs) > 1:
        return {"click": f"{site}{reverse('schedules:jobs')}"}
    return {"click": f"{site}{reverse('schedules:job', args=[jobs[0].public_id])}"}


def _news_of(job: Job) -> str:
    if job.has_unreadable_schedule:
        return f"{job.pause_reason.rstrip('.')}. Edit its schedule, then resume it."
    return f"{job.pause_reason}\n{job.last_error}".strip()
