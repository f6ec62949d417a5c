"""The task `heartbeat`: a job that runs elsewhere and reports by pings, without occupying a worker."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from schedules.tasks.argument_types import Shown
from schedules.tasks.interface import Final
from schedules.tasks.registry import task
from schedules.when.durations import in_words
from schedules.when.phrases import PhraseError, parse_delay

HEARTBEAT = "heartbeat"
DEFAULT_GRACE = "1h"
LONGEST_GRACE = timedelta(days=365)
SLUG_LENGTH = 100
SLUG = re.compile(r"[a-z0-9_-]{1,100}")


def _as_text(value: Any) -> Any:
    # Seconds may be given as a number.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _grace(text: str) -> str:
    parse_grace(text)
    return text


def _slug(text: str) -> str:
    if text and not SLUG.fullmatch(text):
        raise ValueError(f"use up to {SLUG_LENGTH} small letters, digits, - and _")
    return text


Grace = Annotated[
    str,
    BeforeValidator(_as_text),
    AfterValidator(_grace),
    Field(
        description="How long a ping may be late, and a started run may take: 15m, 1h (if empty), or seconds."
    ),
    Shown("Grace time", "How long a ping may be late, and a started run may take, like 15m; 1h if empty"),
]
Slug = Annotated[
    str,
    AfterValidator(_slug),
    Field(description="Its name in the ping address; from its name."),
    Shown(
        "Name in the ping address", "Up to 100 small letters, digits, - and _; made from the name if empty"
    ),
]


def parse_grace(value: str | int) -> timedelta:
    """Parse a duration like "15m" or a number of seconds; raises ValueError for anything else."""
    try:
        text = str(value).strip()
        grace = timedelta(seconds=int(text)) if text.isdecimal() and text.isascii() else parse_delay(text)
    except (PhraseError, OverflowError) as error:
        raise ValueError("give a duration like 15m or 1h, or seconds") from error
    if not timedelta(0) < grace <= LONGEST_GRACE:
        raise ValueError(f"choose more than 0 and at most {in_words(LONGEST_GRACE)}")
    return grace


def grace_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> timedelta:
    """Return the grace time of a heartbeat from its stored arguments."""
    return parse_grace(kwargs.get("grace", args[0] if args else None) or DEFAULT_GRACE)


def slug_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return the chosen name in the ping address from a heartbeat's stored arguments, or an empty text."""
    return str(kwargs.get("slug", args[1] if len(args) > 1 else None) or "")


@task(name=HEARTBEAT, title="Heartbeat")
async def heartbeat(grace: Grace | None = None, slug: Slug | None = None) -> None:
    """Expect a ping from a job that runs elsewhere; report it if none comes in time."""
    raise Final("This job runs elsewhere: Cronty waits for its ping and cannot start it.")
