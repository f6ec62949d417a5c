"""Requests with an idempotency key: done once, and answered alike however often they are repeated.

The key is stored in the transaction of the change: after a crash, either both are there or neither is.
"""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction

from schedules import clock, limits
from schedules.models import IdempotencyKey
from schedules.result import Code, Err, Ok, Result, invalid
from schedules.services.jobs.creation import digest_of
from schedules.services.permissions import Actor

FIELD = "Idempotency-Key"
KEPT_FOR = timedelta(days=1)
# Of one person; beyond it, the oldest are forgotten.
MAX_KEYS_KEPT = 1_000
# How often it is looked for those beyond the limit.
_CHECK_EVERY = 50


def answer_once(
    actor: Actor, key: str, request: dict[str, Any], act: Callable[[], dict[str, Any]]
) -> Result[tuple[dict[str, Any], bool]]:
    """Return the answer of `act`, or of an earlier equal request with this key, and whether it is such a repetition.

    What `act` raises undoes everything, and the key can be used again.
    """
    if not 0 < len(key) <= limits.NAME_LENGTH or not key.isascii() or limits.line_problem(key):
        return invalid(FIELD, "Use 1 to 200 printable ASCII characters.")
    tasks = None if actor.tasks is None else sorted(actor.tasks)
    digest = digest_of({**request, "tasks": tasks})
    if earlier := _answer_of(actor, key, digest):
        return earlier
    now = clock.now()
    with transaction.atomic():
        try:
            with transaction.atomic():
                row = IdempotencyKey.objects.create(
                    owner_id=actor.user.pk, key=key, digest=digest, created_at=now
                )
        except IntegrityError:
            # Another request with this key was faster, and has been committed.
            return _answer_of(actor, key, digest) or Err(Code.IDEMPOTENCY_KEY_REUSED, key)
        answer = act()
        # As text, because PostgreSQL orders the names in JSON anew.
        IdempotencyKey.objects.filter(pk=row.pk).update(answer=json.dumps(answer))
        _forget(actor, row.pk)
    return Ok((answer, False))


def _answer_of(actor: Actor, key: str, digest: str) -> Result[tuple[dict[str, Any], bool]] | None:
    since = clock.now() - KEPT_FOR
    mine = IdempotencyKey.objects.filter(owner=actor.user.pk, key=key)
    row = mine.first()
    if row is None:
        return None
    if row.created_at <= since:
        mine.filter(created_at__lte=since).delete()
        return None
    return (
        Ok((json.loads(row.answer), True)) if row.digest == digest else Err(Code.IDEMPOTENCY_KEY_REUSED, key)
    )


def _forget(actor: Actor, key: int) -> None:
    """Delete what is a day old, and now and then what is beyond the limit."""
    mine = IdempotencyKey.objects.filter(owner=actor.user.pk)
    mine.filter(created_at__lte=clock.now() - KEPT_FOR).delete()
    if key % _CHECK_EVERY == 0:
        oldest = list(
            mine.order_by("-created_at").values_list("pk", flat=True)[MAX_KEYS_KEPT : 2 * MAX_KEYS_KEPT]
        )
        if oldest:
            IdempotencyKey.objects.filter(pk__in=oldest).delete()
