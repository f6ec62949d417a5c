"""Access tokens of agents and programs: issue, verify, rotate and revoke them, and limit their calls per minute.

A token is shown once and stored as a keyed digest.
"""

import hmac
import re
import secrets
import threading
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Protocol

from django.conf import settings
from django.db import IntegrityError, OperationalError, transaction
from django.db.models import F, Q

from schedules import clock, limits
from schedules.models import Event, Token
from schedules.result import Code, Err, Ok, Result, invalid
from schedules.services.people.profiles import is_above, is_person, profile_of
from schedules.services.quotas import token_problem, wait_for_turn

SCOPES = ("read", "write")
# `core` has the everyday tools of the other families.
FAMILIES = ("core", "jobs", "prompts", "notifications", "more")
# The task whose jobs a family is limited to; `core` and `jobs` have all jobs, `more` those of the other families.
TASKS_OF_FAMILY = {"prompts": "prompt", "notifications": "notify"}
LAST_USED_EVERY = timedelta(minutes=1)
# How often a process at its limit reports its calls; a higher number is more exact.
REPORTS_PER_MINUTE = 20
# Checked before the lookup, because PostgreSQL raises an error for some characters.
SHAPE = re.compile(r"cronty_(?P<prefix>[0-9a-f]{8})_[A-Za-z0-9_-]{32}")
_DIGEST_OF_NO_TOKEN = "0" * 64
_TOKENS = Token.objects.select_related("owner__cronty_profile").order_by()


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token and its secret text, which is shown only once."""

    token: Token
    text: str


def issue_token(
    user: Any,
    *,
    name: str,
    scopes: Sequence[str] = SCOPES,
    expires_in: timedelta | None = None,
    kind: str = Token.Kind.CONVERSATION,
    families: Sequence[str] = (),
    confirm: str = Token.Confirm.NEVER,
    by: Any = None,
    door: Event.Door = Event.Door.WEB,
) -> Result[IssuedToken]:
    """Create a token for an agent of this user; `by` is who creates it, if that is another user."""
    now = clock.now()
    if problem := _problem_with(name, scopes, expires_in, kind, families, confirm):
        return problem
    prefix, secret = secrets.token_hex(4), secrets.token_urlsafe(24)
    text = f"cronty_{prefix}_{secret}"
    try:
        with transaction.atomic():
            wait_for_turn(profile_of(user))
            if refusal := token_problem(user):
                return refusal
            token = Token.objects.create(
                owner=user,
                name=name,
                kind=kind,
                prefix=prefix,
                digest=_digest(text, settings.SECRET_KEY),
                scopes=[scope for scope in SCOPES if scope in scopes],
                families=[family for family in FAMILIES if family in families],
                confirm=confirm,
                created_at=now,
                expires_at=now + expires_in if expires_in else None,
            )
            record_token_event(token, "issue token", by or user, door, now)
    except IntegrityError:
        return invalid("name", f'You already have a token named "{name}". Choose another name, or revoke it.')
    return Ok(IssuedToken(token, text))


def revoke_token(user: Any, token_id: int, *, door: Event.Door = Event.Door.WEB) -> Result[Token]:
    """Revoke a token at once; in the admin, staff may revoke any token, except those of users with more rights."""
    now = clock.now()
    mine = (
        Token.objects.all()
        if getattr(user, "is_staff", False) and door == Event.Door.ADMIN
        else Token.objects.filter(owner=user)
    )
    with transaction.atomic():
        token = mine.filter(pk=token_id).first()
        if token is None:
            return Err(Code.TOKEN_NOT_FOUND, token_id)
        if is_above(token.owner, user):
            return Err(Code.TOKEN_OF_SUPERIOR)
        if not Token.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
            return Err(Code.TOKEN_ALREADY_REVOKED)
        record_token_event(token, "revoke token", user, door, now)
    token.refresh_from_db()
    return Ok(token)


def rotate_token(user: Any, token_id: int) -> Result[IssuedToken]:
    """Replace a token by a new one with the same name, permissions and expiry; the old one stops working at once.

    If the old one has already expired, the new one gets the same lifetime.
    """
    with transaction.atomic():
        # Lock the profile, so that nobody takes the name between the two changes.
        wait_for_turn(profile_of(user))
        replaced = _replace(user, token_id)
        if isinstance(replaced, Err):
            # Keep the old token if there is no new one.
            transaction.set_rollback(True)
    return replaced


def _replace(user: Any, token_id: int) -> Result[IssuedToken]:
    revoked = revoke_token(user, token_id)
    if isinstance(revoked, Err):
        return revoked
    old, now = revoked.value, clock.now()
    if old.oauth_client:
        return Err(Code.TOKEN_OF_APP)
    lifetime = None
    if old.expires_at:
        lifetime = old.expires_at - (now if old.expires_at > now else old.created_at)
    return issue_token(
        user,
        name=old.name,
        scopes=old.scopes,
        kind=old.kind,
        families=old.families,
        confirm=old.confirm,
        expires_in=lifetime,
    )


def verify_token(text: str) -> Token | None:
    """Return the usable token with this text, with its owner and profile, or None; both take the same time."""
    now = clock.now()
    token = _token_of(text)
    if token is None or not token.is_usable_at(now):
        return None
    # After a change of the secret key, the digest is replaced by one with the new key.
    mark_used(token, now, digest=_digest(text, settings.SECRET_KEY))
    return token


def why_unusable(text: str) -> str:
    """Return why a token was refused: it is revoked, expired or inactive, or its text is unknown."""
    token = _token_of(text)
    if token is None:
        return "unknown"
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.expires_at and token.expires_at <= clock.now() else "inactive"


def _token_of(text: str) -> Token | None:
    """Return the token with exactly this text, usable or not, or None."""
    shape = SHAPE.fullmatch(text)
    # This query delays every call over HTTP, so Python checks the other conditions, which is faster.
    token = next(iter(_TOKENS.filter(prefix=shape["prefix"] if shape else "")[:1]), None)
    digest = token.digest if token else _DIGEST_OF_NO_TOKEN
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    is_match = any(hmac.compare_digest(_digest(text, key), digest) for key in keys)
    return token if is_match else None


def mark_used(token: Token, now: datetime, **fields: Any) -> None:
    """Store about once a minute that the token is in use, along with these fields."""
    if token.last_used_at and token.last_used_at >= now - LAST_USED_EVERY:
        return
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - LAST_USED_EVERY)
    # The call must not fail just because this timestamp cannot be written.
    with suppress(OperationalError):
        Token.objects.filter(stale, pk=token.pk).update(last_used_at=now, **fields)


def tasks_of(families: Collection[str]) -> frozenset[str] | None:
    """Return the tasks whose jobs an agent with these tool families may see and change; None means all."""
    tasks = frozenset(TASKS_OF_FAMILY[family] for family in families if family in TASKS_OF_FAMILY)
    return None if {"core", "jobs"} & set(families) or not tasks else tasks


def report_calls(token_id: int, calls: int) -> None:
    """Add calls of this process to the token's count, which the other processes read."""
    # The call must not fail just because this count cannot be written.
    with suppress(OperationalError):
        Token.objects.filter(pk=token_id).update(call_count=F("call_count") + calls)


def _problem_with(
    name: str,
    scopes: Sequence[str],
    expires_in: timedelta | None,
    kind: str,
    families: Sequence[str],
    confirm: str,
) -> Err | None:
    if not 0 < len(name.strip()) <= 100 or limits.line_problem(name):
        return invalid("name", "Give it a name of 1 to 100 printable characters, like laptop.")
    if is_person(name.strip()):
        return invalid(
            "name", "A user has this name. Choose another one, so that the activity log can tell them apart."
        )
    if not scopes or set(scopes) - set(SCOPES):
        return invalid("scopes", "Choose from: read, write.")
    if set(families) - set(FAMILIES):
        return invalid("families", f"Choose from: {', '.join(FAMILIES)}.")
    if kind not in Token.Kind.values:
        return invalid("kind", f"Choose one of: {', '.join(Token.Kind.values)}.")
    if confirm not in Token.Confirm.values:
        return invalid("confirm", f"Choose one of: {', '.join(Token.Confirm.values)}.")
    if expires_in is not None and not timedelta(0) < expires_in <= timedelta(days=3660):
        return invalid("expires_in", "Choose between now and ten years, like 365d.")
    return None


def _digest(text: str, key: str) -> str:
    return hmac.new(key.encode(), text.encode("utf-8", "replace"), sha256).hexdigest()


def record_token_event(token: Token, verb: str, by: Any, door: Event.Door, now: datetime) -> None:
    Event.objects.create(
        at=now,
        owner=token.owner,
        actor=by.get_username()[: limits.ACTOR_LENGTH],
        door=door,
        verb=verb,
        subject=token.name,
        after={"scopes": token.scopes, "kind": token.kind}
        | ({} if token.confirm == Token.Confirm.NEVER else {"confirm": token.confirm}),
    )


class HasToken(Protocol):
    """A caller with the id of its token, or None for the local agent that started this process."""

    @property
    def token_id(self) -> int | None: ...


@dataclass(slots=True)
class _Bucket:
    """The remaining calls of a caller, and what other processes know about its calls."""

    remaining: float
    at: float
    unreported: int = 0
    """Calls to this process that were not reported to the others yet."""
    deducted: int | None = None
    """The reported calls of all processes that are already deducted from `remaining`."""


@dataclass(slots=True)
class CallRate:
    """A token bucket per caller, which limits calls per minute over all processes.

    Processes exchange their counts through the token's row. Reading is free, because every request reads that row anyway,
    and a process writes to it only once per twentieth of the limit.
    """

    _buckets: dict[Any, _Bucket] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    def wait(self, caller: HasToken) -> float:
        """Count one call; return the seconds to wait if the caller has none left, or else zero."""
        with self._lock:
            bucket = self._filled(caller.token_id)
            if bucket.remaining < 1:
                return (1 - bucket.remaining) * 60 / settings.CRONTY_MCP_CALLS_PER_MINUTE
            bucket.remaining -= 1
            bucket.unreported += 1
            return 0.0

    def left(self, caller: HasToken) -> int:
        """Return how many calls the caller may make at once now."""
        with self._lock:
            return max(0, int(self._filled(caller.token_id).remaining))

    def exchange(self, token: Token) -> int:
        """Deduct the calls that other processes reported; return how many this one should report now."""
        limit = settings.CRONTY_MCP_CALLS_PER_MINUTE
        with self._lock:
            bucket = self._filled(token.pk)
            if bucket.deducted is not None:
                bucket.remaining = max(
                    bucket.remaining - max(0, token.call_count - bucket.deducted), -float(limit)
                )
            # The row may have been read before our last report.
            bucket.deducted = max(token.call_count, bucket.deducted or 0)
            if bucket.unreported < max(1, limit // REPORTS_PER_MINUTE):
                return 0
            calls, bucket.unreported = bucket.unreported, 0
            bucket.deducted += calls
            return calls

    def _filled(self, token_id: int | None) -> _Bucket:
        limit, now = float(settings.CRONTY_MCP_CALLS_PER_MINUTE), time.monotonic()
        bucket = self._buckets.setdefault(token_id, _Bucket(limit, now))
        bucket.remaining = min(limit, bucket.remaining + (now - bucket.at) * limit / 60)
        bucket.at = now
        return bucket


call_rate = CallRate()
