"""Subscriptions of people to events: add, edit, switch and delete them, and rotate their secrets, which are shown once."""

import base64
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from schedules import clock, engine, limits
from schedules.channels.event_delivery import ATTEMPTS
from schedules.models import EventSubscription, EventType, Job
from schedules.models.job_texts import searchable_text, skeleton
from schedules.models.jobs import new_public_id
from schedules.result import Code, Err, Ok, Result, invalid, invalid_fields
from schedules.secrets.encryption import UnreadableError, reseal, seal, unseal
from schedules.services.jobs.references import resolve_job
from schedules.services.jobs.rows import change_row
from schedules.services.people.profiles import profile_of
from schedules.services.people.setting_events import record_setting
from schedules.services.people.stored_secrets import current_key
from schedules.services.permissions import Actor
from schedules.services.quotas import creation_problem, restore_problem, wait_for_turn
from schedules.tasks import outbound
from schedules.tasks.outbound.addresses import is_allowed_in_clear
from schedules.when.unplanned import ON_DEMAND, UNKNOWN_START

MAX_SUBSCRIPTIONS = 20
# How long requests are also signed with the secret before a new one.
OVERLAP = timedelta(hours=24)
# Undeliverable events in a row, each tried for a day, until a subscription is switched off.
FAILURES_UNTIL_OFF = 5


@dataclass(frozen=True)
class SubscriptionSpec:
    """A subscription as a person describes it."""

    name: str
    url: str
    types: Collection[str]
    tag: str = ""
    job: str = ""
    """The id, number or name of a job: only events of this job are sent."""


@dataclass(frozen=True)
class SubscriptionSecret:
    """A subscription and its new secret, which cannot be read again later."""

    subscription: EventSubscription
    secret: str


def list_subscriptions(actor: Actor) -> list[EventSubscription]:
    """Return the subscriptions to events of this person's jobs, with the jobs that hold their deliveries."""
    if actor.is_agent:
        return []
    mine = EventSubscription.objects.filter(owner=actor.user.pk, job__deleted_at=None)
    return list(mine.select_related("job", "only_job").order_by("name", "pk")[:200])


def find_subscription(actor: Actor, reference: str) -> Result[EventSubscription]:
    """Return a subscription of this person by its id or name."""
    if actor.is_agent:
        return Err(Code.EVENTS_BY_PEOPLE)
    mine = EventSubscription.objects.filter(owner=actor.user.pk, job__deleted_at=None)
    mine = mine.select_related("job", "only_job")
    match = mine.filter(public_id=reference).first() or mine.filter(name__iexact=reference).first()
    return Ok(match) if match else Err(Code.EVENT_SUBSCRIPTION_NOT_FOUND, reference[:100])


def add_subscription(actor: Actor, spec: SubscriptionSpec) -> Result[SubscriptionSecret]:
    """Send events to a receiver from now on; return the secret with which it checks their signatures."""
    columns = _columns_of(actor, spec)
    if isinstance(columns, Err):
        return columns
    now, secret = clock.now(), new_secret()
    with transaction.atomic():
        wait_for_turn(profile_of(actor.user))
        mine = EventSubscription.objects.filter(owner=actor.user.pk)
        if mine.count() >= MAX_SUBSCRIPTIONS:
            return Err(Code.TOO_MANY_EVENT_SUBSCRIPTIONS, limit=MAX_SUBSCRIPTIONS)
        row = EventSubscription(
            owner_id=actor.user.pk,
            public_id=f"sub_{secrets.token_hex(16)}",
            created_at=now,
            updated_at=now,
            **columns.value,
        )
        problem = (
            _name_problem(row)
            or creation_problem(profile_of(actor.user), 0.0, now)
            or _seal_secrets(row, (secret,))
        )
        if problem:
            return problem
        row.job = _new_job(row, actor, now)
        row.job.save(force_insert=True)
        row.job_id = row.job.pk
        row.save(force_insert=True)
        record_setting(actor, "add receiver", row.name, now, after=_facts_of(row))
    return Ok(SubscriptionSecret(row, secret))


def edit_subscription(actor: Actor, reference: str, spec: SubscriptionSpec) -> Result[EventSubscription]:
    """Change which events a subscription sends, and where; its secret stays."""
    columns = _columns_of(actor, spec)
    if isinstance(columns, Err):
        return columns
    now = clock.now()
    with transaction.atomic():
        row = locked_subscription(actor, reference)
        if isinstance(row, Err):
            return row
        before, old_secrets = _facts_of(row), _secrets_of(row)
        if isinstance(old_secrets, Err):
            return old_secrets
        for name, value in columns.value.items():
            setattr(row, name, value)
        if problem := _name_problem(row):
            return problem
        if problem := _seal_secrets(row, old_secrets.value):
            return problem
        row.updated_at = now
        row.save()
        _rename_job(row, now)
        record_setting(actor, "edit receiver", row.name, now, before=before, after=_facts_of(row))
    return Ok(row)


def switch_subscription(actor: Actor, reference: str, *, is_on: bool) -> Result[EventSubscription]:
    """Switch a subscription on or off; events that happen while it is off are not sent later."""
    now = clock.now()
    with transaction.atomic():
        row = locked_subscription(actor, reference)
        if isinstance(row, Err):
            return row
        if row.is_on == is_on:
            return Ok(row)
        if is_on:
            if refusal := restore_problem(profile_of(actor.user), 0.0, now):
                return refusal
            engine.rearm(row.job, now)
            record_setting(actor, "switch on receiver", row.name, now)
        else:
            engine.pause(row.job, now, f"Switched off by {actor.label}."[: limits.NAME_LENGTH])
            record_setting(actor, "switch off receiver", row.name, now)
    return Ok(row)


def rotate_secret(actor: Actor, reference: str) -> Result[SubscriptionSecret]:
    """Give a subscription a new secret; for a day, requests are signed with both."""
    now, secret = clock.now(), new_secret()
    with transaction.atomic():
        row = locked_subscription(actor, reference)
        if isinstance(row, Err):
            return row
        old_secrets = _secrets_of(row)
        # An unreadable secret is replaced without an overlap.
        old = old_secrets.value[:1] if isinstance(old_secrets, Ok) else ()
        row.old_until, row.updated_at = now + OVERLAP, now
        if problem := _seal_secrets(row, (secret, *old)):
            return problem
        row.save(update_fields=["sealed", "old_sealed", "old_until", "updated_at"])
        record_setting(actor, "rotate receiver", row.name, now)
    return Ok(SubscriptionSecret(row, secret))


def delete_subscription(actor: Actor, reference: str) -> Result[str]:
    """End a subscription: waiting deliveries are withdrawn, and sent ones stay in the ledger."""
    now = clock.now()
    with transaction.atomic():
        row = locked_subscription(actor, reference)
        if isinstance(row, Err):
            return row
        change_row(row.job, now, deleted_at=now)
        engine.withdraw(row.job, now, "deleted", also_manual=True)
        EventSubscription.objects.filter(pk=row.pk).delete()
        record_setting(actor, "delete receiver", row.name, now, before=_facts_of(row))
    return Ok(row.name)


def new_secret() -> str:
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


def reseal_subscriptions() -> list[str]:
    """Encrypt every secret with the current secret key; return the names of those that no known key can read."""
    unreadable = []
    for row in EventSubscription.objects.select_for_update(of=("self",)).order_by("pk"):
        try:
            old = reseal(row.old_sealed) if row.old_sealed else ""
            EventSubscription.objects.filter(pk=row.pk).update(sealed=reseal(row.sealed), old_sealed=old)
        except UnreadableError:
            unreadable.append(f"event subscription {row.name}")
    return unreadable


def _url_problem(url: str) -> str | None:
    """Return why no events may go to an address, or None; its name is looked up at every request."""
    if problem := outbound.problem_with_url(url):
        return problem
    target = outbound.Target.parse(url)
    if target.scheme == "https" or is_allowed_in_clear(target.host, target.port):
        return None
    return "Use an https address; http only for hosts that the operator allows in CRONTY_OUTBOUND_ALLOW."


def _columns_of(actor: Actor, spec: SubscriptionSpec) -> Result[dict[str, Any]]:
    """Validate a spec, and return its columns."""
    if actor.is_agent:
        return Err(Code.EVENTS_BY_PEOPLE)
    name, url, tag = spec.name.strip(), spec.url.strip(), spec.tag.strip()
    problems: dict[str, list[str]] = {}
    if not 0 < len(name) <= EventSubscription.NAME_LENGTH or limits.line_problem(name):
        problems["name"] = [f"Use 1 to {EventSubscription.NAME_LENGTH} printable characters."]
    if problem := _url_problem(url):
        problems["url"] = [problem]
    if unknown := set(spec.types) - set(EventType.values):
        problems["types"] = [f"Unknown: {min(unknown)[:50]}. Choose from: {', '.join(EventType.values)}."]
    elif not spec.types:
        problems["types"] = ["Choose at least one event."]
    if tag and (len(tag) > limits.TAG_LENGTH or limits.line_problem(tag)):
        problems["tag"] = [f"Use at most {limits.TAG_LENGTH} printable characters."]
    if problems:
        return invalid_fields(problems)
    job = _job_of(actor, spec.job.strip())
    if isinstance(job, Err):
        return job
    types = [each for each in EventType.values if each in spec.types]
    return Ok({"name": name, "url": url, "types": types, "tag": tag, "only_job": job})


def _job_of(actor: Actor, reference: str) -> Job | Err | None:
    if not reference:
        return None
    match = resolve_job(Job.objects.owned_by(actor.user.pk).kept(), reference)
    if isinstance(match, Err):
        return match
    return match.value or invalid("job", f"There is no job {reference[:100]}.")


def _name_problem(row: EventSubscription) -> Err | None:
    others = EventSubscription.objects.filter(owner=row.owner_id, name__iexact=row.name)
    if others.exclude(pk=row.pk).exists():
        return invalid("name", f"There is already a subscription {row.name}.")
    return None


def locked_subscription(actor: Actor, reference: str) -> EventSubscription | Err:
    """Lock a subscription and its job."""
    wait_for_turn(profile_of(actor.user))
    result = find_subscription(actor, reference)
    if isinstance(result, Err):
        return result
    row = result.value
    row.job = Job.objects.select_for_update(of=("self",)).get(pk=row.job_id)
    return row


def _seal_secrets(row: EventSubscription, texts: Collection[str]) -> Err | None:
    """Encrypt the secret, and the previous one if it is given."""
    key = current_key()
    if key is None:
        return Err(Code.SECRET_KEY_CHANGED)
    row.sealed, *old = [seal(text, row.place, key) for text in texts]
    row.old_sealed = old[0] if old else ""
    return None


def _secrets_of(row: EventSubscription) -> Result[tuple[str, ...]]:
    """Return the secret, and the previous one if there is one."""
    try:
        return Ok(tuple(unseal(text, row.place) for text in (row.sealed, row.old_sealed) if text))
    except UnreadableError:
        return Err(Code.SECRET_KEY_CHANGED)


def _new_job(row: EventSubscription, actor: Actor, now: datetime) -> Job:
    name = _job_name(row)
    job = Job(
        owner_id=row.owner_id,
        public_id=new_public_id("events", now),
        name=name,
        name_skeleton=skeleton(name),
        task=engine.SEND_EVENT,
        trigger_type=Job.TriggerType.CRON,
        cron=ON_DEMAND,
        next_run_at=UNKNOWN_START,
        timezone=profile_of(actor.user).zone,
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


def _job_name(row: EventSubscription) -> str:
    return f"Events: {row.name}"[: limits.NAME_LENGTH]


def _rename_job(row: EventSubscription, now: datetime) -> None:
    job, name = row.job, _job_name(row)
    if job.name != name:
        job.name = name
        change_row(job, now, name=name, name_skeleton=skeleton(name), search_text=searchable_text(job))


def _facts_of(row: EventSubscription) -> Mapping[str, Any]:
    """Return what the event about a change records: of the address only the host, because it may contain a key."""
    return {
        "receiver": outbound.Target.parse(row.url).place,
        "types": row.types,
        "tag": row.tag,
        "job": row.only_job.public_id if row.only_job else "",
    }
