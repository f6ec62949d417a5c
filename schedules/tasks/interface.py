"""The interface of tasks: the current run, special results, and errors that say whether to retry."""

import enum
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol, Self

from schedules.tasks.asking import Ask, ReminderStep


class SpecialResult(enum.Enum):
    """Special values that a task can return instead of a result."""

    WAITING = "waiting"


# Returned by a task whose work waits for an agent to claim and complete it.
WAITING = SpecialResult.WAITING


class Asked(NamedTuple):
    """Returned by a task whose notification asks for an answer: its result, and the reminders until there is one."""

    result: Any
    question: Ask


class Answered(NamedTuple):
    """Returned by a task whose agent has answered: the answer, the channel to send it by, and the gate's answer."""

    result: Any
    deliver_to: str = ""
    """The owner's channel that the answer is sent by, or an empty text."""
    gate: Mapping[str, Any] | None = None


class Final(Exception):  # noqa: N818  (part of the interface of tasks)
    """Raised by a task: the run failed, and a retry would not help."""

    server_message: str = ""
    """The end of the message, if it quotes another server."""
    result: Any = None
    """What is known about the run although it failed, like the exit code of a command."""


class RetryLater(Exception):  # noqa: N818  (part of the interface of tasks)
    """Raised by a task: the run failed, and a retry may help once `after` has passed, a duration or seconds."""

    server_message: str = ""
    """The end of the message, if it quotes another server."""
    result: Any = None
    """What is known about the run although it failed, like the exit code of a command."""
    after: timedelta | None = None

    def __init__(self, message: str, after: timedelta | float | None = None) -> None:
        super().__init__(message)
        if isinstance(after, int | float):
            self.after = timedelta(seconds=after)
        elif isinstance(after, timedelta):
            self.after = after
        elif after is not None:
            raise TypeError(f"RetryLater: give `after` as a timedelta or in seconds, not as {after!r}.")


class AskPerson(Exception):  # noqa: N818  (part of the interface of tasks)
    """Raised by a task: the run waits until a person has answered, and continues as its next attempt."""

    def __init__(self, message: str, request: Mapping[str, Any], within: timedelta) -> None:
        super().__init__(message)
        self.request = request
        """The question, as columns of `Approval`."""
        self.within = within


class Skip(Exception):  # noqa: N818  (part of the interface of tasks)
    """Raised by a task: this run is skipped on purpose; the message says why."""


class FindSecrets(Protocol):
    """Finds secrets for a run: those of its owner, or those of the installation for the operator's files."""

    async def __call__(
        self, names: Collection[str], *, host: str = "", command: str = "", of_installation: bool = False
    ) -> dict[str, str]:
        """Return secrets by name; raises Final for one that is missing or must not go to this host or command."""


class OutputText(NamedTuple):
    """The part of a run's output that is kept: its beginning and its end; positions count characters."""

    head: str
    tail: str
    position: int
    """The length of the whole output."""
    colours: tuple[tuple[int, str], ...] = ()
    """Where colours begin: a position, and the codes of the terminal's escape sequence."""


async def _find_no_secrets(
    names: Collection[str], *, host: str = "", command: str = "", of_installation: bool = False
) -> dict[str, str]:
    if names:
        raise Final(f"There is no secret {min(names)}: this run belongs to no job.")
    return {}


def _unmasked(text: str) -> str:
    return text


async def _is_no_reminder() -> ReminderStep | None:
    return None


async def _save_nothing(value: object) -> None:
    """Do nothing: this run has no row in the ledger."""


@dataclass(frozen=True)
class Run:
    """The current run, passed to a task that has a keyword-only parameter annotated `Run`."""

    execution_id: int
    key: str
    job_id: str
    job_name: str
    attempt: int
    scheduled_for: datetime
    owner_id: int
    signing_keys: Callable[[], tuple[str, ...]] = field(repr=False)
    """Returns the keys of the job, newest first; only webhooks need them."""
    timeout: float
    secrets: FindSecrets = field(repr=False, default=_find_no_secrets)
    mask_cut: Callable[[str], str] = field(repr=False, default=_unmasked)
    """Masks the secrets in a text that was cut off, including a partial one at its end."""
    repeats: bool = False
    """Whether the job has more than one slot."""
    find_reminder: Callable[[], Awaitable[ReminderStep | None]] = field(repr=False, default=_is_no_reminder)
    """Returns which reminder this is, or None for the first message."""
    save_output: Callable[[OutputText], Awaitable[None]] = field(repr=False, default=_save_nothing)
    """Saves the output so far, so that people can watch the run."""
    save_agent_run: Callable[[Mapping[str, Any]], Awaitable[None]] = field(repr=False, default=_save_nothing)
    """Saves what an agent has done so far, as columns of `AgentRun`."""

    @classmethod
    def without_job(cls, now: datetime, owner_id: int, timeout: float) -> Self:
        """Describe a run outside of the ledger, which belongs to no job and is not retried."""
        return cls(
            execution_id=0,
            key="",
            job_id="",
            job_name="",
            attempt=1,
            scheduled_for=now,
            owner_id=owner_id,
            signing_keys=tuple,
            timeout=timeout,
        )
