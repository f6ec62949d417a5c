"""Results of services: Ok with a value, or Err with a reason; unexpected failures raise."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")


class Code(StrEnum):
    """The kind of an error, for code to match on; the message is for people."""

    NOT_FOUND = "not_found"
    """It does not exist for this caller: unknown, deleted, or owned by another user."""
    FORBIDDEN = "forbidden"
    """The caller may see it, but not do this with it."""
    INVALID = "invalid"
    """A value is missing or wrong; `errors` names each field."""
    TOO_FAR = "too_far"
    """A moment lies beyond the horizon; `errors` names the field."""
    NEVER_RUNS = "never_runs"
    """The schedule is valid but has no run."""
    WRONG_STATE = "wrong_state"
    """It exists, but its state does not allow the request."""
    CONFLICT = "conflict"
    """Another caller changed it first."""
    QUOTA = "quota"
    """The caller has reached a quota."""
    TOO_FAST = "too_fast"
    """Too many requests: `retry_after` says how long to wait, in seconds."""


@dataclass(frozen=True, slots=True)
class Ok(Generic[T]):
    value: T


@dataclass(frozen=True, slots=True)
class Err:
    code: Code
    message: str
    errors: Mapping[str, list[str]] = field(default_factory=dict)
    retry_after: float | None = None
    hint: str = ""


Result: TypeAlias = Ok[T] | Err


def invalid(field: str, reason: str) -> Err:
    """Build the error for one invalid value."""
    return invalid_fields({field: [reason]})


def invalid_fields(errors: Mapping[str, list[str]]) -> Err:
    words = "; ".join(f"{field}: {' '.join(reasons)}" for field, reasons in errors.items())
    return Err(Code.INVALID, words, errors=dict(errors))


def sentence(words: str) -> str:
    """Write a reason as a sentence: a capital letter first, and a full stop at the end if no other mark is there."""
    return f"{words[:1].upper()}{words[1:].rstrip('.')}{'' if words.endswith(('?', '!')) else '.'}"
