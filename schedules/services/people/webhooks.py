"""Webhooks of people: the job of their deliveries, switching, new secrets, tests, and the log of deliveries."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta

from django.db import transaction

from schedules import clock, engine, limits
from schedules.channels.event_delivery import ATTEMPTS, new_test_event
from schedules.channels.webhook import WEBHOOK, new_secret
from schedules.models import Channel, Execution, Job
from schedules.models.job_texts import searchable_text, skeleton
from schedules.models.jobs import new_public_id
from schedules.result import Code, Err, Ok, Result
from schedules.secrets.encryption import UnreadableError, seal, unseal
from schedules.services.people.profiles import profile_of
from schedules.services.people.stored_secrets import current_key
from schedules.services.permissions import Actor, change_row, record_setting
from schedules.services.quotas import creation_problem, room_problem, wait_for_turn
from schedules.when.unplanned import ON_DEMAND, UNKNOWN_START

# How long requests are also signed with the secret before a new one.
OVERLAP = timedelta(hours=24)
# Undeliverable events in a row, each tried for a day, until a webhook is switched off.
FAILURES_UNTIL_OFF = 5
MAX_DELIVERIES = 50
# How many deliveries may wait before tests and repeated ones are refused.
MAX_WAITING = 20


def find_webhook(actor: Actor, name: str) -> Result[Channel]:
    """Return a webhook of this person by its name."""
    if actor.is_agent:
        return Err(Code.CHANNELS_BY_PEOPLE)
    mine = Channel.objects.filter(owner=actor.user.pk, kind=WEBHOOK.name).exclude(job=None)
    row = mine.select_related("job", "owner").filter(name__iexact=name).first()
    return Ok(row) if row else Err(Code.CHANNEL_NOT_FOUND, name[:100])


def only_job_of(actor: Actor, row: Channel) -> Job | None:
    """Return the job that a webhook is limited to, if there is one."""
    job_id = str(row.options.get("job", ""))
    return actor.jobs().find(job_id) if job_id else None


def switch_webhook(actor: Actor, name: str, *, is_on: bool) -> Result[Channel]:
    """Switch the events of a webhook on or off; those that happen while they are off are not sent later."""
    now = clock.now()
    with transaction.atomic():
        row = _locked(actor, name)
        if isinstance(row, Err):
            return row
        job = _job_of(row)
        if row.is_on == is_on:
            return Ok(row)
        if is_on:
            if refusal := room_problem(profile_of(actor.user), 1, 0.0):
                return refusal
            engine.rearm(job, now)
            record_setting(actor, "switch on channel", row.name, now)
        else:
            engine.pause(job, now, f"Switched off by {actor.label}."[: limits.NAME_LENGTH])
            record_setting(actor, "switch off channel", row.name, now)
    return Ok(row)


def rotate_secret(actor: Actor, name: str) -> Result[tuple[Channel, str]]:
    """Give a webhook a new secret, which cannot be read again later; for a day, requests are signed with both."""
    now, secret = clock.now(), new_secret()
    with transaction.atomic():
        row = _locked(actor, name)
        if isinstance(row, Err):
            return row
        key = current_key()
        if key is None:
            return Err(Code.SECRET_KEY_CHANGED)
        old = secrets_of_webhook(row)
        # An unreadable secret is replaced without an overlap.
        before = {"old_secret": old.value["secret"]} if isinstance(old, Ok) else {}
        row.sealed = seal(json.dumps({"secret": secret, **before}), row.place, key)
        row.old_until = row.updated_at = now
        row.old_until += OVERLAP
        row.save(update_fields=["sealed", "old_until", "updated_at"])
        record_setting(actor, "rotate channel", row.name, now)
    return Ok((row, secret))


def secrets_of_webhook(row: Channel) -> Result[dict[str, str]]:
    """Return the secret, and the previous one if there is one."""
    try:
        return Ok(json.loads(unseal(row.sealed, row.place)))
    except UnreadableError:
        return Err(Code.SECRET_KEY_CHANGED)


def send_test_event(actor: Actor, name: str) -> Result[Execution]:
    """Queue an event that says that it is a test."""
    return _queue(actor, name, lambda row, now: engine.delivery_of(row, {"event": new_test_event(row)}, now))


def redeliver(actor: Actor, name: str, run_id: int) -> Result[Execution]:
    """Queue a delivery again, with the same event id, so that the receiver can recognize the event."""

    def again(row: Channel, now: datetime) -> Execution | Err:
        earlier = Execution.objects.filter(pk=run_id, job=row.job_id).first()
        if earlier is None or not (earlier.given or {}).get("event"):
            return Err(Code.DELIVERY_NOT_FOUND, run_id)
        if earlier.finished_at is None:
            return Err(Code.DELIVERY_UNDER_WAY, run_id)
        return engine.delivery_of(row, earlier.given or {}, now, origin=earlier.pk)

    return _queue(actor, name, again)


def list_deliveries(channel: Channel, most: int = MAX_DELIVERIES) -> list[Execution]:
    """Return the last deliveries of a webhook, newest first."""
    runs = Execution.objects.filter(job=channel.job_id)
    return list(runs.defer("traceback").order_by("-scheduled_for", "-pk")[:most])


def follow_with_job(actor: Actor, row: Channel, now: datetime) -> Err | None:
    """Create or rename the job of a webhook's deliveries, or end it if the channel is of another kind now."""
    if row.kind != WEBHOOK.name:
        end_deliveries(row, now)
        return None
    name = f"Events: {row.name}"[: limits.NAME_LENGTH]
    if row.job is None:
        if problem := creation_problem(profile_of(actor.user), 0.0, now):
            return problem
        row.job = _new_job(row, name, profile_of(actor.user).zone, now)
        row.job.save(force_insert=True)
    elif row.job.name != name:
        row.job = Job.objects.select_for_update(of=("self",)).get(pk=row.job.pk)
        row.job.name = name
        texts = {"name_skeleton": skeleton(name), "search_text": searchable_text(row.job)}
        change_row(row.job, now, name=name, **texts)
    return None


def end_deliveries(row: Channel, now: datetime) -> None:
    """Withdraw what waits for a webhook that goes; what was sent stays in the ledger."""
    if row.job and row.job.deleted_at is None:
        change_row(row.job, now, deleted_at=now)
        engine.withdraw(row.job, now, "deleted", also_manual=True)
    row.job = None


def _queue(
    actor: Actor, name: str, build: Callable[[Channel, datetime], Execution | Err]
) -> Result[Execution]:
    now = clock.now()
    with transaction.atomic():
        row = _locked(actor, name)
        if isinstance(row, Err):
            return row
        if not row.is_on:
            return Err(Code.CHANNEL_OFF, row.name)
        job_id = _job_of(row).pk
        if engine.waiting_deliveries([job_id]).get(job_id, 0) >= MAX_WAITING:
            return Err(Code.TOO_MANY_WAITING_RUNS, limit=MAX_WAITING)
        delivery: Execution | Err = build(row, now)
        if isinstance(delivery, Err):
            return delivery
        delivery.save(force_insert=True)
    return Ok(delivery)


def _locked(actor: Actor, name: str) -> Channel | Err:
    """Lock a webhook and its job."""
    wait_for_turn(profile_of(actor.user))
    result = find_webhook(actor, name)
    if isinstance(result, Err):
        return result
    row = result.value
    row.job = Job.objects.select_for_update(of=("self",)).get(pk=_job_of(row).pk)
    return row


def _job_of(row: Channel) -> Job:
    assert row.job is not None
    return row.job


def _new_job(row: Channel, name: str, zone: str, now: datetime) -> Job:
    job = Job(
        owner_id=row.owner_id,
        public_id=new_public_id("events", now),
        name=name,
        name_skeleton=skeleton(name),
        task=engine.SEND_EVENT,
        trigger_type=Job.TriggerType.CRON,
        cron=ON_DEMAND,
        next_run_at=UNKNOWN_START,
        timezone=zone,
        attempts=ATTEMPTS,
        # The task sets the wait between attempts itself.
        backoff=timedelta(seconds=1),
        timeout=timedelta(minutes=5),
        overlap=Job.Overlap.ALLOW,
        pause_after_failures=FAILURES_UNTIL_OFF,
        made_by="cronty",
        created_at=now,
        updated_at=now,
    )
    job.search_text = searchable_text(job)
    return job
