"""Event feed: the events that an actor may see, in the order they are committed.

PostgreSQL assigns keys before transactions commit, so an event may appear after one with a later key. A feed remembers
the keys that were missing, and so does its position, from which another feed can continue.
"""

import re
from datetime import datetime, timedelta
from typing import NamedTuple, Self

from schedules.models import Event
from schedules.services.event_list import EventQuery
from schedules.services.permissions import Actor

# After this time, no transaction that has taken a key is still open.
LATEST_COMMIT = timedelta(minutes=1)
# How many of the newest keys are searched for missing ones, and how many missing ones are remembered.
MAX_KEYS = 1_000
MAX_MISSING = 100
_POSITION = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}(?:\.[0-9]{1,18}){0,99}))?")


class Position(NamedTuple):
    """The last key that was read, and earlier keys that were missing then."""

    last: int
    missing: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse a position, such as the id of an event."""
        match = _POSITION.fullmatch(text)
        if match is None:
            return None
        last, missing = int(match[1]), map(int, match[2].split(".")) if match[2] else ()
        return cls(last, tuple(key for key in missing if key < last))

    def __str__(self) -> str:
        return "-".join(filter(None, (str(self.last), ".".join(map(str, self.missing)))))


class EventFeed:
    """Reads the events after a position, or from now on without one."""

    def __init__(self, actor: Actor, position: Position | None, now: datetime) -> None:
        self._events = EventQuery().scope(actor).order_by("pk")
        self._last = position.last if position else _newest_key()
        # Each missing key, and when it was first noticed.
        self._missing = dict.fromkeys(position.missing if position else (), now)
        keys = _keys_after(self._last - MAX_KEYS, self._last)
        if keys:
            self._note_missing(keys[0][0], keys, now)

    def read(self, limit: int, now: datetime) -> list[tuple[Position, Event]]:
        """Return the next events, each with the position after it; formerly missing ones come first."""
        late = self._read_late(now)
        read = []
        waiting = sorted({*self._missing, *(event.pk for event in late)})
        for event in late:
            waiting.remove(event.pk)
            read.append((Position(self._last, tuple(waiting)), event))
        before = self._last
        keys = _keys_after(before)
        if len(keys) == MAX_KEYS:
            # Only the newest keys can still be missing.
            before = max(before, _newest_key() - MAX_KEYS)
            keys = _keys_after(before)
        if not keys:
            return read
        top = keys[-1][0]
        events = list(self._events.filter(pk__gt=self._last, pk__lte=top)[:limit])
        if len(events) == limit:
            top = events[-1].pk
        self._note_missing(before, [key for key in keys if key[0] <= top], now)
        for event in events:
            # In case it was committed between the two queries.
            self._missing.pop(event.pk, None)
        for event in events:
            missing = tuple(sorted(key for key in self._missing if key < event.pk))
            read.append((Position(event.pk, missing), event))
        self._last = top
        return read

    def _read_late(self, now: datetime) -> list[Event]:
        """Return events that were missing so far, and forget keys that will never be committed."""
        if not self._missing:
            return []
        committed = list(Event.objects.filter(pk__in=self._missing).values_list("pk", flat=True))
        late = list(self._events.filter(pk__in=committed)) if committed else []
        for key in committed:
            del self._missing[key]
        self._missing = {key: at for key, at in self._missing.items() if at > now - LATEST_COMMIT}
        return late

    def _note_missing(self, before: int, keys: list[tuple[int, datetime]], now: datetime) -> None:
        """Remember the gaps in these keys, which follow the key `before`."""
        for key, at in keys:
            if at > now - LATEST_COMMIT:
                for missing in range(max(before + 1, key - MAX_MISSING), key):
                    self._missing.setdefault(missing, now)
            before = key
        self._missing = dict(sorted(self._missing.items())[-MAX_MISSING:])


def _newest_key() -> int:
    return next(iter(Event.objects.order_by("-pk").values_list("pk", flat=True)[:1]), 0)


def _keys_after(key: int, last: int | None = None) -> list[tuple[int, datetime]]:
    events = Event.objects.filter(pk__gt=key).order_by("pk")
    if last is not None:
        events = events.filter(pk__lte=last)
    return list(events.values_list("pk", "at")[:MAX_KEYS])
