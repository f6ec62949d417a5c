"""Idempotency keys: a repeated request is carried out once, and gets the same answer each time.

The key is stored in the transaction of the change, so that a crash leaves both or neither.
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
# Per person; beyond it, the oldest keys are deleted.
MAX_KEYS_KEPT = 1_000
# The limit is checked once per this many keys.
_CHECK_EVERY = 50


def answer_once(
    actor: Actor, key: str, request: dict[str, Any], act: Callable[[], dict[str, Any]]
) -> Result[tuple[dict[str, Any], bool]]:
    """Return the answer of `act`, or that of an equal earlier request with this key, and whether it is a repetition.

    If `act` raises, everything is rolled back, and the key can be used again.
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
            # Another request with this key was faster, and is committed.
            return _answer_of(actor, key, digest) or Err(Code.IDEMPOTENCY_KEY_REUSED, key)
        answer = act()
        # As text, because PostgreSQL would reorder the names in JSON.
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
    """Delete keys that are a day old, and now and then those beyond the limit."""
    mine = IdempotencyKey.objects.filter(owner=actor.user.pk)
    mine.filter(created_at__lte=clock.now() - KEPT_FOR).delete()
    if key % _CHECK_EVERY == 0:
        oldest = list(
            mine.order_by("-created_at").values_list("pk", flat=True)[MAX_KEYS_KEPT : 2 * MAX_KEYS_KEPT]
        )
        if oldest:
            IdempotencyKey.objects.filter(pk__in=oldest).delete()
