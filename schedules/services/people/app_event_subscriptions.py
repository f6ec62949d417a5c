"""Subscriptions to events that apps make over MCP: check, verify by a challenge, renew and end them.

They are in the same table as those of people, and the same task sends their events.
"""

import base64
import binascii
import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from django.db import transaction

from schedules import clock, engine
from schedules.channels.event_requests import SUBSCRIPTION_HEADER, post
from schedules.models import EventSubscription, EventType, Job, Token
from schedules.result import Code, Err, Ok, Result, invalid
from schedules.secrets.encryption import UnreadableError, unseal
from schedules.services.jobs.references import resolve_job
from schedules.services.people.event_subscriptions import (
    OVERLAP,
    end_subscription,
    seal_secrets,
    store_subscription,
    url_problem,
)
from schedules.services.people.hourly_limits import HourlyLimit
from schedules.services.people.profiles import profile_of
from schedules.services.people.setting_events import record_setting
from schedules.services.people.tokens import FAMILIES, tasks_of
from schedules.services.permissions import Actor
from schedules.services.quotas import wait_for_turn
from schedules.tasks import outbound

MAX_SUBSCRIPTIONS = 50
SHORTEST_TTL, DEFAULT_TTL, LONGEST_TTL = timedelta(hours=1), timedelta(days=7), timedelta(days=30)
# How long an address stays verified after it has answered a challenge.
VERIFIED_FOR = timedelta(days=1)
SECRET_BYTES = range(24, 65)
CHALLENGES_AN_HOUR = 60
_challenges = HourlyLimit(CHALLENGES_AN_HOUR)


@dataclass(frozen=True)
class AppSubscriptionSpec:
    """A subscription as an app requests it."""

    type: str
    url: str
    arguments: Mapping[str, str]
    secret: str = ""
    ttl: timedelta | None = None

    def id_for(self, actor: Actor, token_id: int) -> str:
        """Return the id of this subscription: the same for the same app, address, event and arguments."""
        key = json.dumps([actor.user.pk, token_id, self.url, self.type, self.arguments], sort_keys=True)
        return f"sub_{sha256(key.encode()).hexdigest()[:32]}"


class CallbackError(Exception):
    """The address did not answer the challenge; the reason is a code for programs."""


def check_subscription(actor: Actor, token_id: int, spec: AppSubscriptionSpec) -> Result[bool]:
    """Check a subscription; return whether its address must answer a challenge first."""
    if problem := _problem(spec):
        return problem
    job = _job_of(actor, spec)
    if isinstance(job, Err):
        return job
    now = clock.now()
    mine = EventSubscription.objects.filter(owner=actor.user.pk, kind=EventSubscription.Kind.MCP)
    existing = mine.filter(public_id=spec.id_for(actor, token_id)).select_related("job").first()
    if existing and (problem := _off_problem(existing)):
        return problem
    if not existing and mine.count() >= MAX_SUBSCRIPTIONS:
        return Err(Code.TOO_MANY_EVENT_SUBSCRIPTIONS, limit=MAX_SUBSCRIPTIONS)
    verified = mine.filter(token=token_id, url=spec.url, verified_at__gt=now - VERIFIED_FOR)
    if verified.exists():
        return Ok(False)
    if not _challenges.allows(str(actor.user.pk)):
        return Err(Code.CALLS_TOO_FAST, limit=CHALLENGES_AN_HOUR, retry_after=3600)
    return Ok(True)


async def challenge(spec: AppSubscriptionSpec, subscription_id: str) -> None:
    """Ask the address to repeat a random text; raises CallbackError."""
    text = secrets.token_urlsafe(32)
    body = json.dumps({"type": "verification", "challenge": text}).encode()
    headers = {SUBSCRIPTION_HEADER: subscription_id}
    message_id = f"msg_verification_{secrets.token_hex(8)}"
    try:
        reply = await post(spec.url, [spec.secret], message_id, body, headers)
    except outbound.OutboundError as error:
        raise CallbackError("timeout" if "within" in str(error) else "connection_refused") from error
    if not 200 <= reply.status < 300:
        raise CallbackError(f"http_{reply.status // 100}xx")
    try:
        answer = json.loads(reply.text)
    except (ValueError, RecursionError) as error:
        raise CallbackError("challenge_failed") from error
    echoed = answer.get("challenge") if isinstance(answer, dict) else None
    if not isinstance(echoed, str) or not hmac.compare_digest(echoed.encode(), text.encode()):
        raise CallbackError("challenge_failed")


def keep_subscription(
    actor: Actor, token_id: int, spec: AppSubscriptionSpec, *, is_verified: bool
) -> Result[EventSubscription]:
    """Store a checked subscription, or renew it; `is_verified` says that its address has just answered a challenge."""
    now = clock.now()
    with transaction.atomic():
        wait_for_turn(profile_of(actor.user))
        job = _job_of(actor, spec)
        if isinstance(job, Err):
            return job
        row = _find(actor, token_id, spec)
        if row is None:
            row = EventSubscription(
                owner_id=actor.user.pk,
                public_id=spec.id_for(actor, token_id),
                kind=EventSubscription.Kind.MCP,
                name=f"{outbound.Target.parse(spec.url).host} {spec.type}"[-EventSubscription.NAME_LENGTH :],
                url=spec.url,
                types=[spec.type],
                tag=spec.arguments.get("tag", ""),
                only_job=job,
                token_id=token_id,
                created_at=now,
            )
            row.expires_at, row.verified_at = _expiry_of(spec, now), now
            if problem := store_subscription(actor, row, spec.secret, now):
                return problem
            record_setting(actor, "add receiver", row.name, now, after={"types": row.types})
            return Ok(row)
        if problem := _off_problem(row) or _renew(row, spec, now):
            return problem
        if is_verified:
            row.verified_at = now
        row.save()
        if row.is_given_up:
            # Its address did not answer, and now it does.
            engine.rearm(row.job, now)
    return Ok(row)


def forget_subscription(actor: Actor, token_id: int, spec: AppSubscriptionSpec) -> Result[str]:
    """End a subscription of this app."""
    now = clock.now()
    with transaction.atomic():
        wait_for_turn(profile_of(actor.user))
        row = _find(actor, token_id, spec)
        if row is None:
            return Err(Code.EVENT_SUBSCRIPTION_NOT_FOUND, spec.id_for(actor, token_id))
        if _off_problem(row):
            # Keep the row, so that the app cannot switch it on by subscribing again.
            row.expires_at = row.updated_at = now
            row.save(update_fields=["expires_at", "updated_at"])
        else:
            end_subscription(row, now)
        record_setting(actor, "delete receiver", row.name, now, before={"types": row.types})
    return Ok(row.public_id)


def may_hear(token: Token, event_type: str) -> bool:
    """Return whether the token of an app lets it receive these events."""
    families = token.families or FAMILIES
    # An agent that is limited to some kinds of jobs does not receive events of the others.
    has_all_jobs = event_type == EventType.PROMPT_DUE or tasks_of(families) is None
    return has_all_jobs and "read" in token.scopes and bool(families_for(event_type).intersection(families))


def families_for(event_type: str) -> frozenset[str]:
    """Return the tool families of which an app needs one to receive these events."""
    return frozenset({"core", "jobs"} | ({"prompts"} if event_type == EventType.PROMPT_DUE else set()))


def end_forbidden(actor: Actor, token: Token, now: datetime) -> None:
    """End the subscriptions that an app may no longer have; the caller has locked the profile of its person."""
    rows = EventSubscription.objects.filter(token=token.pk, kind=EventSubscription.Kind.MCP)
    for row in rows.order_by("pk"):
        if all(may_hear(token, each) for each in row.types):
            continue
        row.job = Job.objects.select_for_update(of=("self",)).get(pk=row.job_id)
        end_subscription(row, now)
        record_setting(actor, "delete receiver", row.name, now, before={"types": row.types})


def _find(actor: Actor, token_id: int, spec: AppSubscriptionSpec) -> EventSubscription | None:
    mine = EventSubscription.objects.filter(owner=actor.user.pk, kind=EventSubscription.Kind.MCP)
    row = mine.filter(public_id=spec.id_for(actor, token_id)).first()
    if row:
        row.job = Job.objects.select_for_update(of=("self",)).get(pk=row.job_id)
    return row


def _off_problem(row: EventSubscription) -> Err | None:
    """Refuse a subscription that a person has switched off: only a person can switch it on again."""
    return None if row.is_on or row.is_given_up else Err(Code.EVENT_SUBSCRIPTION_OFF, row.name)


def _renew(row: EventSubscription, spec: AppSubscriptionSpec, now: datetime) -> Err | None:
    """Set the new expiry and secret; for a day, requests are signed with both secrets."""
    row.expires_at, row.updated_at = _expiry_of(spec, now), now
    try:
        current = unseal(row.sealed, row.place)
    except UnreadableError:
        current = ""
    if current == spec.secret:
        return None
    row.old_until = now + OVERLAP
    return seal_secrets(row, (spec.secret, current) if current else (spec.secret,))


def _expiry_of(spec: AppSubscriptionSpec, now: datetime) -> datetime:
    return now + min(max(spec.ttl or DEFAULT_TTL, SHORTEST_TTL), LONGEST_TTL)


def _problem(spec: AppSubscriptionSpec) -> Err | None:
    if spec.type not in EventType.values:
        return Err(Code.EVENT_TYPE_NOT_FOUND, spec.type[:100])
    if unknown := set(spec.arguments) - {"job", "tag"}:
        return invalid("arguments", f"Unknown: {min(unknown)[:50]}. Choose from: job, tag.")
    if not spec.url.startswith("https://"):
        return invalid("delivery.url", "Use an https address.")
    if problem := url_problem(spec.url):
        return invalid("delivery.url", problem)
    return (
        None
        if is_secret(spec.secret)
        else invalid("delivery.secret", "Use whsec_ and base64 of 24 to 64 bytes.")
    )


def is_secret(text: str) -> bool:
    """Return whether a text is a secret in the format of Standard Webhooks."""
    try:
        return text.startswith("whsec_") and len(base64.b64decode(text[6:], validate=True)) in SECRET_BYTES
    except (binascii.Error, ValueError):
        return False


def _job_of(actor: Actor, spec: AppSubscriptionSpec) -> Job | Err | None:
    reference = spec.arguments.get("job", "").strip()
    if not reference:
        return None
    match = resolve_job(actor.jobs(), reference)
    if isinstance(match, Err):
        return match
    return match.value or invalid("arguments.job", f"There is no job {reference[:100]}.")
