"""Events for external receivers: each delivery is a run of its channel's job, written together with the change.

Without a receiver, an event costs one short query, and a run that succeeds costs none.
"""

import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Count, Q
from django.urls import reverse

from schedules.engine.followers import depth_of
from schedules.engine.history import Outcome
from schedules.models import Approval, Channel, Event, EventType, Execution, Incident, Job
from schedules.models.job_queries import NOTICE_PREFIX
from schedules.tasks.links import public_site

Status = Execution.Status

# The task that sends events.
SEND_EVENT = "send_event"
# How many deliveries of one channel may wait; further events are only counted, in a skipped row.
MAX_WAITING = 5000
BATCH = 500
# How many requests all workers together send to one receiver at a time; further deliveries wait in line.
AT_ONCE = 4
# While a receiver does not answer, one delivery in line tries this often; the others wait, with all their attempts.
PROBE_EVERY = timedelta(seconds=10)
LONGEST_TEXT = 1000
# Verbs of events that do not change the job itself.
_NO_CHANGES = (
    "run",
    "stop",
    "answer",
    "allow",
    "deny",
    "reply",
    "decline",
    "complete",
    "dismiss",
    "release",
    "rotate key",
    "open trigger",
    "rotate trigger",
    "close trigger",
)


class Happening(NamedTuple):
    """Something that receivers may be told of."""

    type: EventType
    job_id: int
    run_id: int | None = None
    data: Mapping[str, Any] = {}


def publish(happenings: Sequence[Happening], now: datetime, *, owners: Collection[int] | None = None) -> int:
    """Write a delivery for every channel that wants it, in the transaction of the change; return how many.

    `owners` of the jobs, if the caller knows them, save a query.
    """
    if not happenings:
        return 0
    job_ids = {happening.job_id for happening in happenings}
    of_jobs: Any = Job.objects.filter(pk__in=job_ids).order_by().values("owner") if owners is None else owners
    listening = Channel.objects.listening().filter(owner__in=of_jobs).select_related("job")
    by_owner: dict[int, list[Channel]] = defaultdict(list)
    for channel in listening.order_by("pk"):
        by_owner[channel.owner_id].append(channel)
    if not by_owner:
        return 0
    jobs = (
        Job.objects.filter(pk__in=job_ids)
        .only("pk", "owner_id", "public_id", "name", "task", "tags")
        .in_bulk()
    )
    wanted = [
        (happening, channel)
        for happening in happenings
        if (job := jobs.get(happening.job_id)) and is_reportable(job)
        for channel in by_owner[job.owner_id]
        if channel.wants(happening.type, job)
    ]
    return _write(wanted, jobs, now) if wanted else 0


def is_reportable(job: Job) -> bool:
    """Return whether events report a job: not deliveries and alerts, which would report each other forever."""
    return job.task != SEND_EVENT and not job.public_id.startswith(f"{NOTICE_PREFIX}_")


def publish_prompts(outcomes: Iterable[Outcome], now: datetime) -> None:
    """Publish prompts that wait for an agent from now on."""
    publish([Happening(EventType.PROMPT_DUE, each.job_id, each.execution_id) for each in outcomes], now)


def publish_taken_prompt(owner_id: int, job_id: str, run_id: int, runner: str, now: datetime) -> None:
    """Publish a prompt that a runner works on at once; `job_id` is the public id."""
    if not Channel.objects.listening().filter(owner=owner_id).exists():
        return
    key = Job.objects.called(job_id).values_list("pk", flat=True).first()
    if key:
        publish([Happening(EventType.PROMPT_DUE, key, run_id, {"runner": runner})], now, owners=[owner_id])


def publish_failures(outcomes: Iterable[Outcome], now: datetime) -> None:
    """Publish runs that have failed for good."""
    publish([Happening(EventType.RUN_FAILED, each.job_id, each.execution_id) for each in outcomes], now)


def publish_recoveries(incidents: Iterable[Incident], now: datetime) -> None:
    """Publish jobs that work again; `incidents` are those of their failures."""
    publish(
        [
            Happening(EventType.RUN_RECOVERED, each.job_id, data={"failing_since": moment(each.opened_at)})
            for each in incidents
            if each.job_id
        ],
        now,
    )


def publish_missed(missed: Mapping[int, tuple[int, str]], now: datetime) -> None:
    """Publish slots that no worker could start: how many of each job, and why."""
    publish(
        [
            Happening(EventType.SLOT_MISSED, job_id, data={"slots": count, "reason": reason[:LONGEST_TEXT]})
            for job_id, (count, reason) in missed.items()
        ],
        now,
    )


def publish_changes(events: Collection[Event], now: datetime) -> None:
    """Publish changes of jobs, without the values, which may be private."""
    publish(
        [
            Happening(
                EventType.JOB_CHANGED,
                event.job_id,
                data={
                    "change": event.verb,
                    "by": event.actor,
                    "through": str(event.door),
                    "fields": sorted({*event.before, *event.after}),
                },
            )
            for event in events
            if event.job_id and event.verb not in _NO_CHANGES
        ],
        now,
        owners={event.owner_id for event in events},
    )


def publish_approvals(approvals: Iterable[Approval], now: datetime) -> None:
    """Publish that runs wait for a person, without arguments or the question, which may be private."""
    publish(
        [
            Happening(
                EventType.APPROVAL_REQUESTED,
                each.job_id,
                each.execution_id,
                {
                    "tool": each.tool,
                    "why": each.why[:LONGEST_TEXT],
                    "expires_at": moment(each.expires_at),
                },
            )
            for each in approvals
            if each.job_id
        ],
        now,
    )


def delivery_of(
    channel: Channel, given: Mapping[str, Any], now: datetime, *, origin: int | None = None
) -> Execution:
    """Build the run of one delivery; it is sent when it is claimed."""
    return Execution.of(
        channel.job,
        now,
        cause=Execution.Cause.EVENT,
        available_at=now,
        given=dict(given),
        origin=origin,
    )


def new_event(event_type: str, data: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Build an event as it is stored and sent; its id stays the same over retries and manual deliveries."""
    event_id = f"evt_{secrets.token_hex(16)}"
    return {"id": event_id, "type": str(event_type), "timestamp": moment(now), "data": dict(data)}


def moment(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def waiting_deliveries(job_ids: Collection[int]) -> dict[int, int]:
    """Count the deliveries that are not finished, by the job of their channel."""
    live = Execution.objects.live().filter(job__in=job_ids).order_by()
    return dict(live.values("job").annotate(count=Count("pk")).values_list("job", "count"))


def free_places(rows: Iterable[Execution]) -> dict[int, int]:
    """Return how many deliveries may start, by the job of their channel, which the caller has locked."""
    job_ids = {row.job_id or 0 for row in rows if row.cause == Execution.Cause.EVENT}
    if not job_ids:
        return {}
    held = Execution.objects.live().filter(job__in=job_ids, status__in=Execution.HELD).order_by()
    counts = dict(held.values("job").annotate(count=Count("pk")).values_list("job", "count"))
    return {job_id: max(0, AT_ONCE - counts.get(job_id, 0)) for job_id in job_ids}


def release_deliveries(ended: Iterable[Outcome], now: datetime) -> None:
    """Let the next deliveries in line go, after these attempts; the caller has locked their jobs."""
    silent: dict[int, bool] = {}
    for outcome in ended:
        is_unanswered = outcome.retry_at is not None and outcome.result is None
        silent[outcome.job_id] = silent.get(outcome.job_id, False) or is_unanswered
    for job_id, is_silent in silent.items():
        live = Execution.objects.live().filter(job=job_id)
        is_released = Q(status=Status.QUEUED, attempt=0, available_at__isnull=False)
        free = (1 if is_silent else AT_ONCE) - live.filter(Q(status__in=Execution.HELD) | is_released).count()
        if free > 0:
            line = live.filter(status=Status.QUEUED, available_at=None).order_by("pk")
            keys = list(line.values_list("pk", flat=True)[:free])
            at = now + PROBE_EVERY if is_silent else now
            Execution.objects.filter(pk__in=keys).update(available_at=at, reason="")


def _write(wanted: Sequence[tuple[Happening, Channel]], jobs: Mapping[int, Job], now: datetime) -> int:
    run_ids = {happening.run_id for happening, _ in wanted if happening.run_id}
    runs = Execution.objects.defer("result", "traceback").in_bulk(run_ids) if run_ids else {}
    waiting = waiting_deliveries({_key_of(channel) for _, channel in wanted})
    events: dict[int, dict[str, Any]] = {}
    unsent: dict[int, tuple[Channel, int]] = {}
    rows = []
    for happening, channel in wanted:
        key = _key_of(channel)
        waiting[key] = waiting.get(key, 0) + 1
        if waiting[key] > MAX_WAITING:
            unsent[key] = (channel, unsent.get(key, (channel, 0))[1] + 1)
            continue
        run = runs.get(happening.run_id or 0)
        event = events.get(id(happening)) or new_event(
            happening.type, _data_of(happening, jobs[happening.job_id], run), now
        )
        events[id(happening)] = event
        given = {"event": event, "depth": depth_of(run.given) + 1 if run else 0}
        rows.append(delivery_of(channel, given, now, origin=happening.run_id))
    rows += [_unsent_row(channel, count, now) for channel, count in unsent.values()]
    Execution.objects.bulk_create(rows, batch_size=BATCH)
    return len(rows)


def _key_of(channel: Channel) -> int:
    assert channel.job_id is not None
    return channel.job_id


def _unsent_row(channel: Channel, count: int, now: datetime) -> Execution:
    """Build one skipped run for the events that a channel has no room for."""
    reason = (
        f"{count} event{' was' if count == 1 else 's were'} not sent: {MAX_WAITING} deliveries wait already."
    )
    row = Execution.of(channel.job, now, cause=Execution.Cause.EVENT, status=Status.SKIPPED, reason=reason)
    row.slots, row.last_slot, row.finished_at = count, now, now
    return row


def _data_of(happening: Happening, job: Job, run: Execution | None) -> dict[str, Any]:
    site = public_site()
    data: dict[str, Any] = {"job": {"id": job.public_id, "name": job.name, "tags": job.tags}}
    if site:
        data["job"]["url"] = f"{site}{reverse('schedules:job', args=[job.public_id])}"
    if happening.run_id:
        data["run"] = _run_data(happening.run_id, run, site)
    return {**data, **happening.data}


def _run_data(run_id: int, run: Execution | None, site: str) -> dict[str, Any]:
    data: dict[str, Any] = {"id": run_id}
    if run:
        data |= {
            "scheduled_for": moment(run.scheduled_for),
            "status": run.status,
            "attempt": run.attempt,
        }
        data |= {
            name: getattr(run, name)[:LONGEST_TEXT] for name in ("error", "reason") if getattr(run, name)
        }
    if site:
        data["url"] = f"{site}{reverse('schedules:run', args=[run_id])}"
    return data
