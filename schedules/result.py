"""What a service answers: Ok with a value, or Err with a reason; surprises still raise."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")


class Code(StrEnum):
    """Why a request was refused; callers match on these, people read the message."""

    NOT_FOUND = "not_found"
    """No such thing for this caller: unknown, deleted, or somebody else's."""
    INVALID = "invalid"
    """A value is missing or wrong; `errors` names each field."""
    NEVER_RUNS = "never_runs"
    """The schedule can be read, but there is no run in it."""
    WRONG_STATE = "wrong_state"
    """The thing exists, but what was asked does not fit its state."""
    CONFLICT = "conflict"
    """Somebody else changed it first."""
    QUOTA = "quota"
    """The caller has too much of it already."""
    TOO_FAST = "too_fast"
    """Fine, but later: `retry_after` says when."""


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
    """Refuse one value."""
    return invalid_fields({field: [reason]})


def invalid_fields(errors: Mapping[str, list[str]]) -> Err:
    words = "; ".join(f"{field}: {' '.join(reasons)}" for field, reasons in errors.items())
    return Err(Code.INVALID, words, errors=dict(errors))
