"""Subscriptions to events: added, changed, tested, switched off and deleted by people; a secret is shown once."""

import base64
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from schedules import clock, engine, limits
from schedules.channels.event_delivery import ATTEMPTS
from schedules.models import Event, EventSubscription, EventType, Job
from schedules.models.job_texts import searchable_text, skeleton
from schedules.models.jobs import new_public_id
from schedules.result import Code, Err, Ok, Result, invalid, invalid_fields
from schedules.secrets.encryption import UnreadableError, reseal, seal, unseal
from schedules.services.jobs.references import job_meant
from schedules.services.jobs.rows import change_row
from schedules.services.people.channels import current_key
from schedules.services.people.profiles import profile_of
from schedules.services.permissions import Actor
from schedules.services.quotas import creation_problem, restore_problem, wait_for_turn
from schedules.tasks import outbound
from schedules.tasks.outbound.addresses import is_allowed_in_clear
from schedules.when.unplanned import ON_DEMAND, UNKNOWN_START

Kind = EventSubscription.Kind

MAX_SUBSCRIPTIONS = 20
# How long requests are also signed with the secret before a new one.
OVERLAP = timedelta(hours=24)
# So many events in a row that all attempts have failed for: each was tried for a day.
FAILURES_UNTIL_OFF = 5


@dataclass(frozen=True)
class Wanted:
    """What a person enters about a subscription."""

    name: str
    url: str
    types: Collection[str]
    tag: str = ""
    job: str = ""
    """The id, number or name of the only job that it is about."""


@dataclass(frozen=True)
class Opened:
    """A subscription together with its secret, which nobody can read later."""

    subscription: EventSubscription
    secret: str


def list_subscriptions(actor: Actor) -> list[EventSubscription]:
    """Return what listens to the jobs of this person, with the jobs that hold the deliveries."""
    if actor.is_agent:
        return []
    mine = EventSubscription.objects.filter(owner=actor.user.pk, job__deleted_at=None)
    return list(mine.select_related("job", "only_job", "token").order_by("kind", "name", "pk")[:200])


def find_subscription(actor: Actor, reference: str) -> Result[EventSubscription]:
    """Return a subscription of this person by its id or name."""
    if actor.is_agent:
        return Err(Code.EVENTS_BY_PEOPLE)
    mine = EventSubscription.objects.filter(owner=actor.user.pk, job__deleted_at=None)
    mine = mine.select_related("job", "only_job", "token")
    found = (
        mine.filter(public_id=reference).first()
        or mine.filter(name__iexact=reference, kind=Kind.WEBHOOK).first()
    )
    return Ok(found) if found else Err(Code.EVENT_SUBSCRIPTION_NOT_FOUND, reference[:100])


def add_subscription(actor: Actor, wanted: Wanted) -> Result[Opened]:
    """Tell a receiver of events from now on; the answer has the secret that its signatures are checked with."""
    checked = _checked(actor, wanted)
    if isinstance(checked, Err):
        return checked
    now, secret = clock.now(), new_secret()
    with transaction.atomic():
        wait_for_turn(profile_of(actor.user))
        mine = EventSubscription.objects.filter(owner=actor.user.pk, kind=Kind.WEBHOOK)
        if mine.count() >= MAX_SUBSCRIPTIONS:
            return Err(Code.TOO_MANY_EVENT_SUBSCRIPTIONS, limit=MAX_SUBSCRIPTIONS)
        row = EventSubscription(owner_id=actor.user.pk, public_id=new_id(), created_at=now, **checked.value)
        if problem := _name_problem(row):
            return problem
        if problem := store(actor, row, secret, now):
            return problem
        note(actor, "add receiver", row, now, after=_shown(row))
    return Ok(Opened(row, secret))


def edit_subscription(actor: Actor, reference: str, wanted: Wanted) -> Result[EventSubscription]:
    """Change what a subscription is about, and where it goes; its secret stays."""
    checked = _checked(actor, wanted)
    if isinstance(checked, Err):
        return checked
    now = clock.now()
    with transaction.atomic():
        row = locked_subscription(actor, reference)
        if isinstance(row, Err):
            return row
        before, kept = _shown(row), _secrets_of(row)
        if isinstance(kept, Err):
            return kept
        for name, value in checked.value.items():
            setattr(row, name, value)
        if problem := _name_problem(row):
            return problem
        if problem := seal_secrets(row, kept.value):
            return problem
        row.updated_at = now
        row.save()
        _rename_job(row, now)
        note(actor, "edit receiver", row, now, before=before, after=_shown(row))
    return Ok(row)


def switch_subscription(actor: Actor, reference: str, *, is_on: bool) -> Result[EventSubscription]:
    """Switch a subscription on or off; while it is off, events are not kept for it."""
    now = clock.now()
    with transaction.atomic():
        row = locked_subscription(actor, reference, any_kind=True)
        if isinstance(row, Err):
            return row
        if row.is_on == is_on and (is_on or not row.is_given_up):
            return Ok(row)
        if is_on:
            if refusal := restore_problem(profile_of(actor.user), 0.0, now):
                return refusal
            engine.rearm(row.job, now)
            note(actor, "switch on receiver", row, now)
        else:
            reason = f"Switched off by {actor.label}."[: limits.NAME_LENGTH]
            if row.is_on:
                engine.pause(row.job, now, reason)
            else:
                # It was given up; from now on, only a person switches it on again.
                change_row(row.job, now, pause_reason=reason)
                row.job.pause_reason = reason
            note(actor, "switch off receiver", row, now)
    return Ok(row)


def rotate_secret(actor: Actor, reference: str) -> Result[Opened]:
    """Give a subscription a new secret; for a day, requests are signed with both."""
    now, secret = clock.now(), new_secret()
    with transaction.atomic():
        row = locked_subscription(actor, reference)
        if isinstance(row, Err):
            return row
        kept = _secrets_of(row)
        # An unreadable one is replaced without an overlap.
        old = kept.value[:1] if isinstance(kept, Ok) else ()
        row.old_until, row.updated_at = now + OVERLAP, now
        if problem := seal_secrets(row, (secret, *old)):
            return problem
        row.save(update_fields=["sealed", "old_sealed", "old_until", "updated_at"])
        note(actor, "rotate receiver", row, now)
    return Ok(Opened(row, secret))


def delete_subscription(actor: Actor, reference: str) -> Result[str]:
    """End a subscription: what waits is withdrawn, and what was sent stays in the ledger."""
    now = clock.now()
    with transaction.atomic():
        row = locked_subscription(actor, reference, any_kind=True)
        if isinstance(row, Err):
            return row
        end(row, now)
        note(actor, "delete receiver", row, now, before=_shown(row))
    return Ok(row.name)


def new_secret() -> str:
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


def new_id() -> str:
    return f"sub_{secrets.token_hex(16)}"


def store(actor: Actor, row: EventSubscription, secret: str, now: datetime) -> Err | None:
    """Store a new subscription and the job that holds its deliveries; the caller has locked the profile."""
    if refusal := creation_problem(profile_of(actor.user), 0.0, now):
        return refusal
    row.updated_at = now
    if problem := seal_secrets(row, (secret,)):
        return problem
    row.job = _new_job(row, actor, now)
    row.job.save(force_insert=True)
    row.job_id = row.job.pk
    row.save(force_insert=True)
    return None


def end(row: EventSubscription, now: datetime) -> None:
    """Delete a locked subscription; its job goes to the trash, with the deliveries."""
    change_row(row.job, now, deleted_at=now)
    engine.withdraw(row.job, now, "deleted", also_manual=True)
    EventSubscription.objects.filter(pk=row.pk).delete()


def note(actor: Actor, verb: str, row: EventSubscription, now: datetime, **values: Any) -> None:
    Event.objects.create(
        at=now,
        owner_id=actor.user.pk,
        actor=actor.label,
        door=actor.door,
        verb=verb,
        subject=row.name,
        **values,
    )


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


def url_problem(url: str) -> str | None:
    """Return why no events may go to an address, or None; its name is looked up at every request."""
    if problem := outbound.problem_with_url(url):
        return problem
    target = outbound.Target.parse(url)
    if target.scheme == "https" or is_allowed_in_clear(target.host, target.port):
        return None
    return "Use an https address; http only for hosts that the operator allows in CRONTY_OUTBOUND_ALLOW."


def _checked(actor: Actor, wanted: Wanted) -> Result[dict[str, Any]]:
    """Return the columns of what a person entered."""
    if actor.is_agent:
        return Err(Code.EVENTS_BY_PEOPLE)
    name, url, tag = wanted.name.strip(), wanted.url.strip(), wanted.tag.strip()
    problems: dict[str, list[str]] = {}
    if not 0 < len(name) <= EventSubscription.NAME_LENGTH or limits.line_problem(name):
        problems["name"] = [f"Use 1 to {EventSubscription.NAME_LENGTH} printable characters."]
    if problem := url_problem(url):
        problems["url"] = [problem]
    if unknown := set(wanted.types) - set(EventType.values):
        problems["types"] = [f"Unknown: {min(unknown)[:50]}. Choose from: {', '.join(EventType.values)}."]
    elif not wanted.types:
        problems["types"] = ["Choose at least one event."]
    if tag and (len(tag) > limits.TAG_LENGTH or limits.line_problem(tag)):
        problems["tag"] = [f"Use at most {limits.TAG_LENGTH} printable characters."]
    if problems:
        return invalid_fields(problems)
    job = _job_of(actor, wanted.job.strip())
    if isinstance(job, Err):
        return job
    types = [each for each in EventType.values if each in wanted.types]
    return Ok({"name": name, "url": url, "types": types, "tag": tag, "only_job": job})


def _job_of(actor: Actor, reference: str) -> Job | Err | None:
    if not reference:
        return None
    match = job_meant(Job.objects.owned_by(actor.user.pk).kept(), reference)
    if isinstance(match, Err):
        return match
    return match.value or invalid("job", f"There is no job {reference[:100]}.")


def _name_problem(row: EventSubscription) -> Err | None:
    others = EventSubscription.objects.filter(owner=row.owner_id, kind=Kind.WEBHOOK, name__iexact=row.name)
    if others.exclude(pk=row.pk).exists():
        return invalid("name", f"There is already a subscription {row.name}.")
    return None


def locked_subscription(actor: Actor, reference: str, *, any_kind: bool = False) -> EventSubscription | Err:
    """Lock a subscription and its job; an app manages its own, except that people may end them."""
    wait_for_turn(profile_of(actor.user))
    found = find_subscription(actor, reference)
    if isinstance(found, Err):
        return found
    row = found.value
    if row.kind == Kind.MCP and not any_kind:
        return Err(Code.EVENT_SUBSCRIPTION_OF_APP, row.name)
    row.job = Job.objects.select_for_update(of=("self",)).get(pk=row.job_id)
    return row


def seal_secrets(row: EventSubscription, texts: Collection[str]) -> Err | None:
    """Encrypt the secret and the one before it for the address of the subscription."""
    key = current_key()
    if key is None:
        return Err(Code.SECRET_KEY_CHANGED)
    row.sealed, *old = [seal(text, row.place, key) for text in texts]
    row.old_sealed = old[0] if old else ""
    return None


def _secrets_of(row: EventSubscription) -> Result[tuple[str, ...]]:
    """Return the secret, and the one before it if there is one."""
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
        # The task itself says how long to wait.
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


def _shown(row: EventSubscription) -> Mapping[str, Any]:
    """Return what an event of the audit log says; an address may contain a key, so only its host."""
    return {
        "receiver": outbound.Target.parse(row.url).place,
        "types": row.types,
        "tag": row.tag,
        "job": row.only_job.public_id if row.only_job else "",
    }
