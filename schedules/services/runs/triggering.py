"""Trigger addresses: verify a signed request and start a run, once per message and never in a loop."""

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from schedules import clock, engine, limits
from schedules.models import Event, Execution, Job, Secret, TriggerAddress, TriggerCall
from schedules.models.people import is_active
from schedules.result import Code, Err, Ok, Result, invalid
from schedules.secrets.encryption import UnreadableError, unseal
from schedules.services.jobs.addresses import digest_of
from schedules.services.jobs.validation import use_problem
from schedules.services.permissions import Actor, locked_job, record, wrong_state
from schedules.services.quotas import trigger_problem, wait_for_owner
from schedules.services.runs.actions import WAITING_MANUAL_RUNS
from schedules.tasks import registry
from schedules.tasks.outbound.signing import signature_header, standard_signature
from schedules.tasks.placeholders import fill_arguments, has_placeholder

_STATES = (Job.Status.PAUSED, Job.Status.CANCELLED)


class TriggerRequest(NamedTuple):
    """A request to a trigger address; header names are lowercase."""

    key: str
    body: bytes
    headers: Mapping[str, str]


class TriggerResult(NamedTuple):
    """The run that a request started; None for a message that only tests the connection."""

    run: Execution | None
    is_repeated: bool = False
    """Whether this message was received before, so that no new run started."""


def trigger(request: TriggerRequest) -> Result[TriggerResult]:
    """Verify a request to a trigger address, and start a run of its job."""
    now = clock.now()
    address = _find(request.key, now)
    if address is None:
        return Err(Code.TRIGGER_NOT_FOUND)
    secret = _secret_of(address)
    if isinstance(secret, Err):
        return secret
    verified = verify(address.scheme, secret, request.headers, request.body, now)
    if isinstance(verified, str):
        return Err(Code.TRIGGER_SIGNATURE_WRONG, reason=verified)
    if address.scheme == Scheme.GITHUB and request.headers.get("x-github-event") == "ping":
        return Ok(TriggerResult(None))
    actor = Actor(address.owner, Event.Door.TRIGGER, "trigger address")
    with transaction.atomic():
        wait_for_owner(address.job.public_id)
        job = locked_job(actor, address.job.public_id)
        if isinstance(job, Err):
            return Err(Code.TRIGGER_NOT_FOUND)
        message_id = hashlib.sha256(verified.message_id.encode("utf-8", "replace")).hexdigest()
        signature = hashlib.sha256(verified.signature.encode("utf-8", "replace")).hexdigest()
        if verified.message_id and (earlier := _earlier_call(address, message_id)):
            return _repeated_call(
                earlier, is_replay=bool(verified.signature) and earlier.signature == signature
            )
        started = _start(actor, job, request, now)
        if isinstance(started, Ok) and verified.message_id:
            TriggerCall.objects.create(
                address=address,
                message_id=message_id,
                signature=signature,
                received_at=now,
                execution=started.value.run,
            )
    return started


def run_of_trigger(run_id: int) -> Execution | None:
    """Return the current state of a run, for a sender that waits for its end."""
    return Execution.objects.filter(pk=run_id).first()


def _find(key: str, now: datetime) -> TriggerAddress | None:
    digest = digest_of(key)
    mine = Q(digest=digest) | Q(old_digest=digest, old_until__gt=now)
    active = TriggerAddress.objects.filter(mine, is_active("owner__"), job__deleted_at=None)
    return active.select_related("owner", "job").first()


def _secret_of(address: TriggerAddress) -> str | Err:
    if not address.scheme:
        return ""
    row = Secret.objects.filter(owner=address.owner_id, name=address.secret_name).first()
    if row is None:
        return Err(Code.TRIGGER_SIGNATURE_WRONG, reason="The owner has deleted the secret of this address.")
    try:
        return unseal(row.sealed, row.place)
    except UnreadableError:
        return Err(Code.TRIGGER_SIGNATURE_WRONG, reason="The secret of this address must be written again.")


def _earlier_call(address: TriggerAddress, message_id: str) -> TriggerCall | None:
    return TriggerCall.objects.filter(address=address, message_id=message_id).first()


def _repeated_call(earlier: TriggerCall, *, is_replay: bool) -> Result[TriggerResult]:
    """Refuse an exact replay of a message; if the sender signed it again, return the run that it started before."""
    if is_replay:
        return Err(Code.TRIGGER_REPLAYED, earlier.execution_id or "")
    return Ok(TriggerResult(run_of_trigger(earlier.execution_id or 0), is_repeated=True))


def _start(actor: Actor, job: Job, request: TriggerRequest, now: datetime) -> Result[TriggerResult]:
    if job.status in _STATES:
        return wrong_state(job)
    values = _placeholder_values(job, request)
    if isinstance(values, Err):
        return values
    origin = _origin(job, request)
    depth = engine.depth_of(origin.given) + 1 if origin else 0
    row = Execution.of(job, now, cause=Execution.Cause.TRIGGER, given=values | {"depth": depth})
    row.origin, row.job = origin.pk if origin else None, job
    if origin and (depth > engine.DEEPEST_CHAIN or _comes_from(job, origin)):
        row.status, row.finished_at = Execution.Status.SKIPPED, now
        row.reason = (
            f"Stopped: it would have been started by its own run {origin.pk}, directly or through others."
        )
        row.save(force_insert=True)
        return Err(Code.TRIGGER_LOOP, row.pk)
    waiting = Execution.objects.live().filter(job=job, cause=Execution.Cause.TRIGGER, attempt=0)
    if waiting.filter(status__in=("queued", "claimed")).count() >= WAITING_MANUAL_RUNS:
        return Err(Code.TOO_MANY_WAITING_RUNS, limit=WAITING_MANUAL_RUNS)
    if reason := use_problem(actor, job):
        return Err(Code.TASK_REFUSED, reason=reason)
    if refusal := trigger_problem(job.owner_id, now):
        return refusal
    row.available_at = now
    row.save(force_insert=True)
    record(actor, "run", now, job=job, after={"execution": row.pk})
    return Ok(TriggerResult(row))


def _placeholder_values(job: Job, request: TriggerRequest) -> dict[str, Any] | Err:
    """Return the values that the request gives to the placeholders in the job's arguments, checked against its task."""
    if not has_placeholder([job.args, job.kwargs]):
        # No argument uses the body.
        return {}
    try:
        text = request.body.decode()
    except UnicodeDecodeError:
        return invalid("body", "The body must be text in UTF-8.")
    value: Any = text
    if "json" in request.headers.get("content-type", "") or text.lstrip()[:1] in ("{", "["):
        try:
            value = json.loads(text) if text.strip() else None
        except (ValueError, RecursionError):
            return invalid("body", "The body is no valid JSON.")
    problem = limits.json_problem(value, max_bytes=settings.CRONTY_MAX_JSON_BYTES)
    if problem:
        return invalid("body", problem)
    values = {"trigger": {"body": value}}
    task = registry.get(job.task)
    filled = fill_arguments(job.task, job.args, job.kwargs, values)
    problems = task.check(*filled, are_filled=True) if task else []
    return invalid("body", f"It does not fit: {'; '.join(problems)}.") if problems else values


def _origin(job: Job, request: TriggerRequest) -> Execution | None:
    """Return the run of the same owner that sent this request, if the request names one."""
    number = request.headers.get("cronty-execution", "")
    if not (number.isascii() and number.isdecimal() and len(number) <= 18):
        return None
    return Execution.objects.filter(pk=int(number), owner=job.owner_id).first()


def _comes_from(job: Job, origin: Execution) -> bool:
    """Return whether a run that led to this request belongs to the same job."""
    run: Execution | None = origin
    for _ in range(engine.DEEPEST_CHAIN + 1):
        if run is None:
            return False
        if run.job_id == job.pk:
            return True
        run = Execution.objects.filter(pk=run.origin).first() if run.origin else None
    return True


# How far a sender's clock may be off.
TOLERANCE = timedelta(minutes=5)
Scheme = TriggerAddress.Scheme


class Verified(NamedTuple):
    """A genuine message: its id, and its signature, which is the same in a replay."""

    message_id: str
    signature: str


def verify(
    scheme: str, secret: str, headers: Mapping[str, str], body: bytes, now: datetime
) -> Verified | str:
    """Return the id of a correctly signed message, or what is wrong with it; header names are lowercase."""
    match scheme:
        case Scheme.GITHUB:
            return _github(secret, headers, body)
        case Scheme.STRIPE:
            return _stripe(secret, headers, body, now)
        case Scheme.STANDARD:
            return _standard(secret, headers, body, now)
        case Scheme.CRONTY:
            return _cronty(secret, headers, body, now)
        case _:
            # The address itself is the secret; the sender may give the message an id.
            return Verified(headers.get("idempotency-key", "")[:200], "")


def _github(secret: str, headers: Mapping[str, str], body: bytes) -> Verified | str:
    received = headers.get("x-hub-signature-256", "")
    expected = f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"
    # GitHub's delivery id is not signed, so the signature serves as the id.
    return (
        Verified(expected, expected)
        if _is_among(expected, [received])
        else _wrong("X-Hub-Signature-256", received)
    )


def _stripe(secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> Verified | str:
    header = headers.get("stripe-signature", "")
    parts = [part.strip().partition("=") for part in header.split(",")[:20]]
    timestamp = next((value for name, _, value in parts if name == "t"), "")
    if problem := _time_problem(timestamp, now):
        return problem
    expected = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
    if not _is_among(expected, (value for name, _, value in parts if name == "v1")):
        return _wrong("Stripe-Signature", header)
    try:
        event_id = json.loads(body)["id"]
    except (ValueError, TypeError, KeyError, RecursionError):
        event_id = None
    return Verified(event_id if isinstance(event_id, str) else expected, expected)


def _standard(secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> Verified | str:
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not message_id:
        return "The header webhook-id is missing."
    if problem := _time_problem(timestamp, now):
        return problem
    header = headers.get("webhook-signature", "")
    try:
        expected = standard_signature(secret, message_id, timestamp, body)
    except ValueError:
        return "The secret of this address is no key of Standard Webhooks: whsec_ and base64."
    is_right = _is_among(expected, header.split(" ")[:20])
    return Verified(message_id, expected) if is_right else _wrong("webhook-signature", header)


def _cronty(secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> Verified | str:
    key, timestamp = headers.get("idempotency-key", ""), headers.get("cronty-timestamp", "")
    if problem := _time_problem(timestamp, now):
        return problem
    header = headers.get("cronty-signature", "")
    expected = signature_header([secret], timestamp, key, body)
    is_right = _is_among(expected, (part.strip() for part in header.split(",")[:20]))
    return Verified(key or expected, expected) if is_right else _wrong("Cronty-Signature", header)


def _time_problem(timestamp: str, now: datetime) -> str:
    if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= 12):
        return "The time of the signature is missing."
    if abs(now.timestamp() - int(timestamp)) > TOLERANCE.total_seconds():
        return "The signature is too old, or the clock of the sender is wrong."
    return ""


def _is_among(expected: str, received: Iterable[str]) -> bool:
    return any(hmac.compare_digest(expected.encode(), each.encode("utf-8", "replace")) for each in received)


def _wrong(header: str, received: str) -> str:
    return f"The header {header} is {'wrong' if received else 'missing'}."
