"""Results of services: Ok with a value, or Err with a code, whose text names the facts of the refusal."""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, Generic, ParamSpec, Self, TypeAlias, TypeVar

T = TypeVar("T")


class Kind(StrEnum):
    """The kind of a refusal, for callers that need to know no more than that."""

    NOT_FOUND = "not_found"
    """It does not exist for this caller: unknown, deleted, or owned by another user."""
    FORBIDDEN = "forbidden"
    """The caller may see it, but not do this with it."""
    INVALID = "invalid"
    """A value is missing or wrong; `errors` names each field."""
    WRONG_STATE = "wrong_state"
    """It exists, but its state does not allow the request."""
    CONFLICT = "conflict"
    """Another caller changed it first."""
    QUOTA = "quota"
    """The caller has reached a quota."""
    TOO_FAST = "too_fast"
    """Too many requests: `retry_after` says how long to wait, in seconds."""


class Code(Enum):
    """Everything that a service refuses: the kind, and the text, in which {0} is the refusal."""

    kind: Kind
    text: str

    def __new__(cls, kind: Kind, text: str) -> Self:
        member = object.__new__(cls)
        # A value of its own, because several members have the same text.
        member._value_ = len(cls.__members__)
        member.kind, member.text = kind, text
        return member

    INVALID = Kind.INVALID, "{0.named_reasons}"
    TOO_FAR = Kind.INVALID, "{0.named_reasons}"
    NEVER_RUNS = Kind.INVALID, "{0.reasons}"

    JOB_NOT_FOUND = Kind.NOT_FOUND, "Job not found: {0.subject}"
    JOB_READ_ONLY = Kind.FORBIDDEN, "You may look at this job, but not change it: {0.subject}"
    JOB_PROTECTED = (
        Kind.FORBIDDEN,
        "Cronty needs this job: it cannot be edited, stopped or deleted ({0.subject}).",
    )
    JOB_ALREADY_PENDING = Kind.WRONG_STATE, "Job already {0.state}: {0.subject}"
    JOB_ALREADY_PAUSED = Kind.WRONG_STATE, "Job already {0.state}: {0.subject}"
    JOB_ALREADY_RUNNING = Kind.WRONG_STATE, "Job already {0.state}: {0.subject}"
    JOB_ALREADY_COMPLETED = Kind.WRONG_STATE, "Job already {0.state}: {0.subject}"
    JOB_ALREADY_FAILED = Kind.WRONG_STATE, "Job already {0.state}: {0.subject}"
    JOB_ALREADY_CANCELLED = Kind.WRONG_STATE, "Job already {0.state}: {0.subject}"
    JOB_NOT_PAUSED = Kind.WRONG_STATE, "Job is not paused: {0.subject}"
    JOB_STOPPED_AGAIN = Kind.WRONG_STATE, "Job was stopped again since then: {0.subject}"
    JOB_RUNS_ONCE = Kind.WRONG_STATE, "Job runs only once: {0.subject}. Cancel it, or change its time."
    JOB_HAS_NO_NEXT_RUN = Kind.WRONG_STATE, "Job has no next run: {0.subject}"
    JOB_RUNS_ELSEWHERE = (
        Kind.WRONG_STATE,
        "A heartbeat runs elsewhere and cannot be started here: {0.subject}",
    )
    JOB_OWNER_INACTIVE = Kind.WRONG_STATE, "The owner's account is not active, so this job cannot run."
    JOB_CHANGED = (
        Kind.CONFLICT,
        "Somebody else changed this job meanwhile: {0.subject}. Read it again, then edit.",
    )
    JOB_FIRES_TOO_OFTEN = (
        Kind.CONFLICT,
        "This job fires all the time: {0.subject}. Try again, or pause it first.",
    )
    JOB_NAME_AMBIGUOUS = (
        Kind.CONFLICT,
        "Several jobs have this name: {0.listed_matches}. Give the id of the one you mean.",
    )
    SIGNING_KEY_ALREADY_ROTATED = Kind.CONFLICT, "The signing key of {0.subject} was already rotated."
    TASK_REFUSED = Kind.FORBIDDEN, "{0.reason}"
    JOB_UNCONFIRMED = (
        Kind.WRONG_STATE,
        "This job waits until a person confirms it{0.hint}: {0.subject}. Ask the user to do so there.",
    )
    JOB_NOT_PROPOSED = Kind.WRONG_STATE, "This job waits for no confirmation: {0.subject}"
    JOB_TIME_PASSED = (
        Kind.WRONG_STATE,
        "Its time passed before anybody confirmed it, so it did not run: {0.subject}. Change its schedule, or delete it.",
    )
    JOB_RUN_UNDER_WAY = (
        Kind.WRONG_STATE,
        "A run that was started by hand is under way: {0.subject}. Change the job when it has ended.",
    )
    CONFIRMED_BY_PEOPLE = Kind.FORBIDDEN, "Only a person can confirm a job that an agent has made or changed."
    RUN_NEEDS_CONFIRMATION = (
        Kind.FORBIDDEN,
        "A person confirms what this token runs, so nothing can be started at once: schedule it as a job. {0.hint}",
    )
    IDEMPOTENCY_KEY_REUSED = (
        Kind.CONFLICT,
        "The idempotency_key {0.subject!r} was used for another request: choose a new one.",
    )
    IDEMPOTENCY_KEY_OF_DELETED_JOB = (
        Kind.CONFLICT,
        "The job that the idempotency_key {0.subject!r} made was deleted: choose a new one.",
    )

    CONFIRMATION_TOO_OLD = Kind.CONFLICT, "This confirmation is too old: it is good for ten minutes."
    CONFIRMATION_UNKNOWN = Kind.CONFLICT, "This is not a confirmation that Cronty has given."
    CONFIRMATION_OUTDATED = Kind.CONFLICT, "The jobs or the request have changed since this was confirmed."
    TOO_MANY_MATCHES = Kind.CONFLICT, "More than {0.limit} jobs match: choose fewer, by tag, task or query."
    JOBS_CHANGED = Kind.CONFLICT, "Some of these jobs have changed meanwhile."
    CHANGE_ALREADY_UNDONE = Kind.CONFLICT, "This change was already undone."
    LAST_CALL_NOT_UNDOABLE = (
        Kind.WRONG_STATE,
        "Your last call cannot be undone: {0.state} ({0.subject}). Undo an earlier one by the number of its change, which the list of changes shows.",
    )
    STARTED_RUN_NOT_UNDOABLE = (
        Kind.WRONG_STATE,
        "Your last call started a run of {0.subject}, and a run cannot be undone. Undo an earlier one by the number of its change, which the list of changes shows.",
    )
    JOB_CHANGED_AGAIN = Kind.CONFLICT, "Changed again since then: {0.subject}"
    CHANGED_SECRET_NOT_KEPT = (
        Kind.CONFLICT,
        "A secret value was changed, which is not kept: edit the job and write it again.",
    )
    PLAN_OUTDATED = Kind.CONFLICT, "A job was changed meanwhile: look at the plan again."
    FILE_ALREADY_APPLIED = Kind.CONFLICT, "Somebody else applied this file meanwhile: look at the plan again."

    SOURCE_NOT_FOUND = Kind.NOT_FOUND, "No job has the source {0.subject}"

    RUN_NOT_FOUND = Kind.NOT_FOUND, "Run not found: {0.subject}"
    RUN_NOT_RUNNING = Kind.WRONG_STATE, "Run {0.subject} is not running."
    RUN_NOT_A_COMMAND = Kind.WRONG_STATE, "Only a command can be stopped while it runs."
    SLOT_PASSED = Kind.WRONG_STATE, "It is too late to skip this run: its time has come."
    PROMPT_NOT_FOUND = Kind.NOT_FOUND, "Prompt not found: {0.subject}"
    PROMPT_ANSWERED = Kind.WRONG_STATE, "Prompt already {0.state}: {0.subject}"
    PROMPT_DISMISSED = Kind.WRONG_STATE, "Prompt already {0.state}: {0.subject}"
    PROMPT_NOT_WAITING = Kind.WRONG_STATE, "Prompt already {0.state}: {0.subject}"
    PROMPT_NOT_LEASED = Kind.WRONG_STATE, "No agent holds prompt {0.subject}."
    PROMPT_HELD_BY_ANOTHER = Kind.CONFLICT, "Another agent holds prompt {0.subject} until {0.until}."
    PROMPT_NOT_HELD = Kind.CONFLICT, "You do not hold prompt {0.subject}: claim it first."
    PROMPT_LEASE_OVER = Kind.CONFLICT, "Your lease on prompt {0.subject} is over: claim it again."
    PROMPT_COUNT_OUT_OF_RANGE = Kind.INVALID, "limit: choose 1 to {0.limit}."
    PROMPT_ERROR_TOO_LONG = Kind.INVALID, "error: too long"

    NOTHING_ASKED = Kind.WRONG_STATE, "No notification of this job has asked for an answer: {0.subject}"
    ALREADY_ANSWERED = Kind.CONFLICT, "Already {0.state}, by {0.reason} ({0.until}): {0.subject}"
    ANSWERED_MEANWHILE = Kind.CONFLICT, "Somebody has answered meanwhile: {0.subject}"
    QUESTION_CLOSED = Kind.WRONG_STATE, "No more reminders are sent: {0.subject}. {0.reason}"
    LINK_USED = Kind.CONFLICT, "This link was used before."
    LINK_UNKNOWN = Kind.NOT_FOUND, "This link is not valid."
    LINK_EXPIRED = Kind.WRONG_STATE, "This link has expired."
    TOO_MANY_ANSWERS = Kind.QUOTA, "This notification was answered {0.limit} times already."
    NO_ANSWER_TO_UNDO = Kind.WRONG_STATE, "There is no answer to undo: {0.subject}"

    RUNNER_NOT_FOUND = Kind.NOT_FOUND, "{0.reason}"
    AGENTS_STOPPED = Kind.WRONG_STATE, "{0.reason} A person can start them again."
    AGENTS_NOT_STOPPED = Kind.WRONG_STATE, "The agents are not stopped."
    AGENTS_OF_EVERYBODY = Kind.FORBIDDEN, "Only staff can stop the agents of everybody, or start them again."
    AGENTS_STARTED_BY_PEOPLE = Kind.FORBIDDEN, "Only a person can start the agents again."

    GRANTS_BY_PEOPLE = (
        Kind.FORBIDDEN,
        "Only a person can give a job permissions, or change what it does while it has some{0.hint}.",
    )
    APPROVALS_BY_PEOPLE = Kind.FORBIDDEN, "Only a person can answer what an agent asks."
    APPROVAL_NOT_FOUND = Kind.NOT_FOUND, "There is no such approval: it may have been deleted with its run."
    APPROVAL_OVER = Kind.CONFLICT, "This was {0.state}."
    APPROVAL_CHANGED = Kind.CONFLICT, "What is asked is not what was shown. Look at it again."
    APPROVAL_HAS_NO_GRANT = Kind.WRONG_STATE, "No rule can always allow this: allow it once, or deny it."

    TOO_MANY_JOBS = Kind.QUOTA, "at most {0.limit:,} active jobs; stop or delete some first"
    TOO_MANY_PLANNED_RUNS = (
        Kind.QUOTA,
        "at most {0.limit:,} planned runs a minute: this schedule would add {0.added:,.4g} to the {0.planned:,.4g} of your active jobs; choose a longer interval, or stop or delete some jobs first",
    )
    TOO_MANY_NEW_JOBS = Kind.QUOTA, "at most {0.limit} new jobs a minute; create fewer at once"
    TOO_MANY_WAITING_RUNS = Kind.QUOTA, "{0.limit} runs of this job are waiting already."
    TOO_MANY_TOKENS = Kind.QUOTA, "at most {0.limit} tokens; revoke one first"
    TOO_MANY_SECRETS = Kind.QUOTA, "There are {0.limit} secrets already: delete one first."
    TOO_MANY_CALENDARS = Kind.QUOTA, "There are {0.limit} calendars already: delete one first."
    JOBS_CREATED_TOO_FAST = (
        Kind.TOO_FAST,
        "at most {0.limit} new jobs a minute; try again in {0.seconds} seconds",
    )
    RUNS_STARTED_TOO_FAST = (
        Kind.TOO_FAST,
        "at most {0.limit} runs by hand a minute; try again in {0.seconds} seconds",
    )
    NOTIFICATIONS_SENT_TOO_FAST = (
        Kind.TOO_FAST,
        "at most {0.limit} notifications sent at once a minute; try again in {0.seconds} seconds",
    )
    CALLS_TOO_FAST = Kind.TOO_FAST, "at most {0.limit} calls a minute; try again in {0.seconds} seconds"

    PING_NOT_FOUND = Kind.NOT_FOUND, "No job has this ping address."
    PING_SLUG_AMBIGUOUS = Kind.CONFLICT, "Several jobs are called {0.subject} in ping addresses."
    PING_KEY_CHANGED = Kind.CONFLICT, "The ping key was already changed: this is the new one."
    PING_KEY_TAKEN = Kind.CONFLICT, "Somebody else here has this ping key: change it in healthchecks first."
    PING_KEY_KEPT = (
        Kind.CONFLICT,
        "Your ping key is another one, and addresses with names need that of the checks: replace yours, which stops your addresses with names, or take over checks with UUIDs only.",
    )
    PING_KEYS_DIFFER = (
        Kind.CONFLICT,
        "These checks are from several projects, each with a ping key of its own: take over one project for each person.",
    )

    TRIGGER_NOT_FOUND = Kind.NOT_FOUND, "No job has this trigger address."
    TRIGGER_SIGNATURE_WRONG = Kind.FORBIDDEN, "{0.reason}"
    TRIGGER_REPLAYED = Kind.CONFLICT, "This message was received before; it started run {0.subject}."
    TRIGGER_LOOP = Kind.CONFLICT, "Stopped: the job would have started itself; run {0.subject} says so."

    TOKEN_NOT_FOUND = Kind.NOT_FOUND, "Token not found: {0.subject}"
    TOKEN_OF_SUPERIOR = (
        Kind.FORBIDDEN,
        "Only its owner can revoke it, because they have more rights than you.",
    )
    TOKEN_ALREADY_REVOKED = Kind.WRONG_STATE, "This token is already revoked."
    TOKEN_OF_APP = Kind.WRONG_STATE, "A connected app renews its tokens itself: disconnect it instead."
    USER_IS_SUPERIOR = Kind.FORBIDDEN, "You can't do this for a user with more rights than you."
    SECRET_NOT_FOUND = Kind.NOT_FOUND, "Secret not found: {0.subject}"
    TOKENS_HIDDEN_FROM_AGENTS = (
        Kind.FORBIDDEN,
        "Agents cannot create tokens, or revoke those of others: use a token of the type Program.",
    )
    SECRETS_HIDDEN_FROM_AGENTS = (
        Kind.FORBIDDEN,
        "Agents cannot see or change secrets: use a token of the type Program.",
    )
    SECRETS_OF_INSTALLATION = Kind.FORBIDDEN, "Only superusers manage the secrets of the installation."
    CALENDAR_NOT_FOUND = Kind.NOT_FOUND, "Calendar not found: {0.subject}"
    CALENDAR_IN_USE = (
        Kind.WRONG_STATE,
        "Jobs use the calendar {0.subject}: {0.listed_matches}. Take it out of them first.",
    )
    INCIDENT_NOT_FOUND = Kind.NOT_FOUND, "Alert not found: {0.subject}"
    INCIDENT_OVER = Kind.WRONG_STATE, "That is over already: alert {0.subject}."
    CHANNEL_NOT_FOUND = Kind.NOT_FOUND, "Channel not found: {0.subject}"
    CHANNEL_IN_USE = (
        Kind.WRONG_STATE,
        "{0.limit} jobs use the channel {0.subject}, like {0.listed_matches}: let them use another one first.",
    )
    CHANNEL_CODE_WRONG = (
        Kind.INVALID,
        "This is not the code for {0.subject}. Copy it from the newest message.",
    )
    ALERTS_BY_PEOPLE = (
        Kind.FORBIDDEN,
        "Agents cannot snooze alerts: use a token of the type Program.",
    )
    CHANNELS_BY_PEOPLE = (
        Kind.FORBIDDEN,
        "Agents cannot see or change channels: use a token of the type Program, or refer to them by name.",
    )
    TOO_MANY_CHANNELS = Kind.QUOTA, "There are {0.limit} channels already: delete one first."
    CHANNEL_OFF = Kind.WRONG_STATE, "{0.subject} is switched off: switch it on first."
    DELIVERY_NOT_FOUND = Kind.NOT_FOUND, "Delivery not found: {0.subject}"
    DELIVERY_UNDER_WAY = Kind.WRONG_STATE, "Delivery {0.subject} has not ended yet."
    SECRET_KEY_CHANGED = (
        Kind.WRONG_STATE,
        "The secret key was changed on another host: the operator must give it to this one first.",
    )

    DATABASE_UNAVAILABLE = Kind.CONFLICT, "The database does not answer just now: try again in a moment"


@dataclass(frozen=True, slots=True)
class Ok(Generic[T]):
    value: T


@dataclass(frozen=True, slots=True)
class Err:
    """A refusal: its code, and the facts that its text names."""

    code: Code
    subject: str | int = ""
    """The id, number, key or name of what the refusal is about."""
    state: str = ""
    limit: int = 0
    planned: float = 0
    added: float = 0
    until: str = ""
    """A moment in the zone of the job."""
    matches: tuple[str, ...] = ()
    """The ids of the jobs that are meant, each with its schedule."""
    reason: str = ""
    errors: Mapping[str, list[str]] = field(default_factory=dict)
    """What the parsers and validators of single values say, by field."""
    retry_after: float | None = None
    hint: str = ""

    @property
    def kind(self) -> Kind:
        return self.code.kind

    @property
    def text(self) -> str:
        """What the refusal says to programs and in the terminal."""
        return self.code.text.format(self)

    @property
    def texts(self) -> dict[str, str]:
        """The reasons of each field as sentences; at a place in a file, they begin with the name of a job."""
        joined = {name: " ".join(reasons) for name, reasons in self.errors.items()}
        return {name: text if ":" in name else sentence(text) for name, text in joined.items()}

    @property
    def seconds(self) -> int:
        """The time to wait, rounded up."""
        return math.ceil(self.retry_after or 0)

    @property
    def listed_matches(self) -> str:
        return ", ".join(self.matches)

    @property
    def reasons(self) -> str:
        """The reasons of all fields, without their names."""
        return " ".join(reason for reasons in self.errors.values() for reason in reasons)

    @property
    def named_reasons(self) -> str:
        """The reasons of all fields, each after the name of its field."""
        return "; ".join(f"{name}: {' '.join(reasons)}" for name, reasons in self.errors.items())


Result: TypeAlias = Ok[T] | Err
Document: TypeAlias = dict[str, Any]
P = ParamSpec("P")


class RefusedError(Exception):
    """A refusal on its way out of an operation."""

    def __init__(self, error: Err) -> None:
        super().__init__(error.code.name)
        self.error = error


def expect(result: Result[T]) -> T:
    """Return the value of a result, or raise its refusal."""
    if isinstance(result, Err):
        raise RefusedError(result)
    return result.value


def operation(function: Callable[P, T]) -> Callable[P, Result[T]]:
    """Let a function return what it raises as a refusal."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> Result[T]:
        try:
            return Ok(function(*args, **kwargs))
        except RefusedError as refused:
            return refused.error

    return run


def invalid(field: str, reason: str) -> Err:
    """Build the error for one invalid value."""
    return invalid_fields({field: [reason]})


def invalid_fields(errors: Mapping[str, list[str]]) -> Err:
    return Err(Code.INVALID, errors=dict(errors))


def sentence(reason: str) -> str:
    """Write a reason as a sentence: a capital letter first, and a full stop at the end if no other mark is there."""
    return f"{reason[:1].upper()}{reason[1:].rstrip('.')}{'' if reason.endswith(('?', '!')) else '.'}"
