"""Results of services: Ok with a value, or Err with a code and facts, which each interface turns into its own words."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Generic, TypeAlias, TypeVar

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
    """Everything that a service refuses: the kind, and what happened with which facts."""

    def __init__(self, kind: Kind, meaning: str) -> None:
        self.kind = kind

    INVALID = Kind.INVALID, "Values are missing or wrong: errors."
    TOO_FAR = Kind.INVALID, "A moment lies beyond the horizon: errors."
    NEVER_RUNS = Kind.INVALID, "A schedule is valid but has no run: errors."

    JOB_NOT_FOUND = Kind.NOT_FOUND, "No such job: subject."
    JOB_READ_ONLY = Kind.FORBIDDEN, "The caller may see this job, but not change it: subject."
    JOB_PROTECTED = Kind.FORBIDDEN, "Cronty itself needs this job: subject."
    JOB_ALREADY_PENDING = Kind.WRONG_STATE, "The job is active: subject, state."
    JOB_ALREADY_PAUSED = Kind.WRONG_STATE, "The job is paused: subject, state."
    JOB_ALREADY_RUNNING = Kind.WRONG_STATE, "The last run of the job is under way: subject, state."
    JOB_ALREADY_COMPLETED = Kind.WRONG_STATE, "The job has finished: subject, state."
    JOB_ALREADY_FAILED = Kind.WRONG_STATE, "The job has failed for good: subject, state."
    JOB_ALREADY_CANCELLED = Kind.WRONG_STATE, "The job was cancelled: subject, state."
    JOB_NOT_PAUSED = Kind.WRONG_STATE, "Only a paused job can be resumed: subject, state."
    JOB_STOPPED_AGAIN = Kind.WRONG_STATE, "The job was stopped again since the change to undo: subject."
    JOB_RUNS_ONCE = Kind.WRONG_STATE, "No run of a one-time job can be skipped: subject."
    JOB_HAS_NO_NEXT_RUN = Kind.WRONG_STATE, "There is no run to skip: subject."
    JOB_RUNS_ELSEWHERE = Kind.WRONG_STATE, "A heartbeat only waits for pings: subject."
    JOB_OWNER_INACTIVE = Kind.WRONG_STATE, "The owner of the job was deactivated: subject."
    JOB_CHANGED = Kind.CONFLICT, "Somebody else changed the job first: subject."
    JOB_FIRES_TOO_OFTEN = Kind.CONFLICT, "The job fired during every attempt to edit it: subject."
    JOB_NAME_AMBIGUOUS = Kind.CONFLICT, "Several jobs have this name: subject, matches."
    SIGNING_KEY_ALREADY_ROTATED = Kind.CONFLICT, "The signing key was rotated since it was shown: subject."
    TASK_REFUSED = Kind.FORBIDDEN, "The caller may not start this task: reason, from the task."
    JOB_UNCONFIRMED = Kind.WRONG_STATE, "A person has to confirm the job first: subject, hint is its page."
    JOB_NOT_PROPOSED = Kind.WRONG_STATE, "The job waits for no confirmation: subject."
    JOB_TIME_PASSED = Kind.WRONG_STATE, "No run is left of a job that nobody confirmed in time: subject."
    JOB_RUN_UNDER_WAY = (
        Kind.WRONG_STATE,
        "A run started by hand could be repeated with what nobody has confirmed: subject.",
    )
    CONFIRMED_BY_PEOPLE = Kind.FORBIDDEN, "An agent cannot confirm what agents propose."
    RUN_NEEDS_CONFIRMATION = Kind.FORBIDDEN, "The caller may start nothing that no person has confirmed."
    IDEMPOTENCY_KEY_REUSED = Kind.CONFLICT, "The key stands for another request: subject."
    IDEMPOTENCY_KEY_OF_DELETED_JOB = Kind.CONFLICT, "The job of this key was deleted: subject."

    CONFIRMATION_TOO_OLD = Kind.CONFLICT, "The confirmation of a bulk change has expired."
    CONFIRMATION_UNKNOWN = Kind.CONFLICT, "This confirmation was never given."
    CONFIRMATION_OUTDATED = Kind.CONFLICT, "The jobs or the request differ from what was confirmed."
    TOO_MANY_MATCHES = Kind.CONFLICT, "More jobs match than one request may change: limit."
    JOBS_CHANGED = Kind.CONFLICT, "Some jobs of a bulk change have changed meanwhile."
    CHANGE_ALREADY_UNDONE = Kind.CONFLICT, "The change was undone before."
    LAST_CALL_NOT_UNDOABLE = (
        Kind.WRONG_STATE,
        "The last call changed something that cannot be undone: state is its verb, subject what it was about.",
    )
    STARTED_RUN_NOT_UNDOABLE = (
        Kind.WRONG_STATE,
        "The last call started a run: state is its verb, subject its job.",
    )
    JOB_CHANGED_AGAIN = Kind.CONFLICT, "The job was changed since the change to undo: subject."
    CHANGED_SECRET_NOT_KEPT = Kind.CONFLICT, "The change to undo replaced a masked value: subject."
    PLAN_OUTDATED = Kind.CONFLICT, "A job changed since the plan of a file was made."
    FILE_ALREADY_APPLIED = Kind.CONFLICT, "Somebody else applied the file meanwhile."

    RUN_NOT_FOUND = Kind.NOT_FOUND, "No such run: subject."
    RUN_NOT_RUNNING = Kind.WRONG_STATE, "The run has ended: subject."
    RUN_NOT_A_COMMAND = Kind.WRONG_STATE, "Only a command can be stopped while it runs: subject."
    SLOT_PASSED = Kind.WRONG_STATE, "The time of the run to skip has come."
    PROMPT_NOT_FOUND = Kind.NOT_FOUND, "No such prompt: subject."
    PROMPT_ANSWERED = Kind.WRONG_STATE, "The prompt was answered: subject, state."
    PROMPT_DISMISSED = Kind.WRONG_STATE, "The prompt was dismissed: subject, state."
    PROMPT_NOT_WAITING = Kind.WRONG_STATE, "The prompt ended in another way: subject, state."
    PROMPT_NOT_LEASED = Kind.WRONG_STATE, "No agent holds the prompt: subject."
    PROMPT_HELD_BY_ANOTHER = (
        Kind.CONFLICT,
        "Another agent holds the prompt: subject, until in the zone of its job.",
    )
    PROMPT_NOT_HELD = Kind.CONFLICT, "The agent has not claimed the prompt: subject."
    PROMPT_LEASE_OVER = Kind.CONFLICT, "The lease of the agent has expired: subject."
    PROMPT_COUNT_OUT_OF_RANGE = Kind.INVALID, "No agent may claim so many prompts at once: limit."
    PROMPT_ERROR_TOO_LONG = Kind.INVALID, "The error that an agent reports is too long."

    NOTHING_ASKED = Kind.WRONG_STATE, "No run of the job has asked for an answer: subject."
    ALREADY_ANSWERED = (
        Kind.CONFLICT,
        "Somebody gave another answer first: subject, state, reason is by whom, until is when.",
    )
    ANSWERED_MEANWHILE = Kind.CONFLICT, "Somebody has answered since the page was shown: subject."
    QUESTION_CLOSED = Kind.WRONG_STATE, "Nobody is reminded any more: subject, reason."
    LINK_USED = Kind.CONFLICT, "The link was used before: subject, state, reason is by whom, until is when."
    LINK_UNKNOWN = Kind.NOT_FOUND, "Nobody has made this link, or its run was deleted."
    LINK_EXPIRED = Kind.WRONG_STATE, "The link is too old."
    TOO_MANY_ANSWERS = Kind.QUOTA, "One question takes no more answers: limit."
    NO_ANSWER_TO_UNDO = Kind.WRONG_STATE, "There is no answer to take back: subject."

    AGENTS_STOPPED = Kind.WRONG_STATE, "No agent may work on prompts now: reason, who stopped them."
    AGENTS_NOT_STOPPED = Kind.WRONG_STATE, "The agents are not stopped."
    AGENTS_OF_EVERYBODY = Kind.FORBIDDEN, "Only staff stop the agents of everybody, or start them again."
    AGENTS_STARTED_BY_PEOPLE = Kind.FORBIDDEN, "An agent cannot end a stop of agents."

    GRANTS_BY_PEOPLE = Kind.FORBIDDEN, "An agent would change what a job with permissions does: subject."
    APPROVALS_BY_PEOPLE = Kind.FORBIDDEN, "An agent cannot answer what an agent asks."
    APPROVAL_NOT_FOUND = Kind.NOT_FOUND, "No such approval for the caller: subject is its number."
    APPROVAL_OVER = (
        Kind.CONFLICT,
        "Nobody can answer any more: subject is its number, state in words.",
    )
    APPROVAL_CHANGED = Kind.CONFLICT, "What is asked differs from what was shown: subject is its number."
    APPROVAL_HAS_NO_GRANT = Kind.WRONG_STATE, "No rule can always allow it: subject is its number."

    TOO_MANY_JOBS = Kind.QUOTA, "The quota of active jobs is reached: limit."
    TOO_MANY_PLANNED_RUNS = Kind.QUOTA, "Too many runs a minute would be planned: limit, planned, added."
    TOO_MANY_NEW_JOBS = Kind.QUOTA, "More new jobs at once than a minute allows: limit."
    TOO_MANY_WAITING_RUNS = Kind.QUOTA, "So many manual runs of a job are waiting: limit."
    TOO_MANY_TOKENS = Kind.QUOTA, "The quota of tokens is reached: limit."
    TOO_MANY_SECRETS = Kind.QUOTA, "The quota of secrets is reached: limit."
    TOO_MANY_CALENDARS = Kind.QUOTA, "The quota of calendars is reached: limit."
    JOBS_CREATED_TOO_FAST = Kind.TOO_FAST, "Too many new jobs within a minute: limit, retry_after."
    RUNS_STARTED_TOO_FAST = Kind.TOO_FAST, "Too many manual runs within a minute: limit, retry_after."
    NOTIFICATIONS_SENT_TOO_FAST = (
        Kind.TOO_FAST,
        "Too many notifications at once within a minute: limit, retry_after.",
    )
    CALLS_TOO_FAST = Kind.TOO_FAST, "Too many calls of tools within a minute: limit, retry_after."

    PING_NOT_FOUND = Kind.NOT_FOUND, "No job has this ping address."
    PING_SLUG_AMBIGUOUS = Kind.CONFLICT, "Several jobs of the owner of the ping key have this name: subject."
    PING_KEY_CHANGED = Kind.CONFLICT, "The ping key was changed since it was shown."
    PING_KEY_TAKEN = Kind.CONFLICT, "Somebody else has this ping key."
    PING_KEY_KEPT = Kind.CONFLICT, "The owner has another ping key, and did not ask to replace it."
    PING_KEYS_DIFFER = Kind.CONFLICT, "Addresses with names have several ping keys, and a person has one."

    TRIGGER_NOT_FOUND = Kind.NOT_FOUND, "No job has this trigger address."
    TRIGGER_SIGNATURE_WRONG = Kind.FORBIDDEN, "A request to a trigger address is not genuine: reason."
    TRIGGER_REPLAYED = Kind.CONFLICT, "The same message was received before: subject is its run."
    TRIGGER_LOOP = Kind.CONFLICT, "A job would have started itself: subject is the run that says so."

    TOKEN_NOT_FOUND = Kind.NOT_FOUND, "No such token: subject."
    TOKEN_OF_SUPERIOR = Kind.FORBIDDEN, "The owner of the token has more rights than the caller."
    TOKEN_ALREADY_REVOKED = Kind.WRONG_STATE, "The token is revoked."
    TOKEN_OF_APP = Kind.WRONG_STATE, "A connected app renews its own tokens."
    USER_IS_SUPERIOR = Kind.FORBIDDEN, "The user has more rights than the caller."
    SECRET_NOT_FOUND = Kind.NOT_FOUND, "No such secret: subject."
    TOKENS_HIDDEN_FROM_AGENTS = Kind.FORBIDDEN, "Agents cannot create tokens, or revoke those of others."
    SECRETS_HIDDEN_FROM_AGENTS = Kind.FORBIDDEN, "Agents cannot see or change secrets."
    SECRETS_OF_INSTALLATION = Kind.FORBIDDEN, "Only superusers manage the secrets of the installation."
    CALENDAR_NOT_FOUND = Kind.NOT_FOUND, "No such calendar: subject."
    CALENDAR_IN_USE = Kind.WRONG_STATE, "Jobs use the calendar: subject, matches, limit is their number."
    INCIDENT_NOT_FOUND = Kind.NOT_FOUND, "No such incident of the caller: subject is its number."
    INCIDENT_OVER = Kind.WRONG_STATE, "The incident has ended: subject is its number, reason."
    CHANNEL_NOT_FOUND = Kind.NOT_FOUND, "No such channel: subject."
    CHANNEL_IN_USE = Kind.WRONG_STATE, "Jobs refer to the channel: subject, limit is how many, matches."
    CHANNEL_CODE_WRONG = Kind.INVALID, "The code was not sent to the address of the channel: subject."
    ALERTS_BY_PEOPLE = Kind.FORBIDDEN, "Agents cannot snooze alerts, which may be about what they did."
    CHANNELS_BY_PEOPLE = Kind.FORBIDDEN, "Agents cannot see or change channels; they use their names."
    TOO_MANY_CHANNELS = Kind.QUOTA, "The quota of channels is reached: limit."
    EVENT_SUBSCRIPTION_NOT_FOUND = Kind.NOT_FOUND, "No such subscription to events: subject."
    EVENT_SUBSCRIPTION_OFF = Kind.WRONG_STATE, "The subscription is switched off: subject."
    EVENTS_BY_PEOPLE = Kind.FORBIDDEN, "Agents cannot see or change subscriptions to events."
    TOO_MANY_EVENT_SUBSCRIPTIONS = Kind.QUOTA, "The quota of subscriptions to events is reached: limit."
    DELIVERY_NOT_FOUND = Kind.NOT_FOUND, "The subscription has no such delivery: subject."
    DELIVERY_UNDER_WAY = Kind.WRONG_STATE, "The delivery has not ended: subject."
    SECRET_KEY_CHANGED = Kind.WRONG_STATE, "This host does not have the current secret key."

    DATABASE_UNAVAILABLE = Kind.CONFLICT, "The database did not answer."


@dataclass(frozen=True, slots=True)
class Ok(Generic[T]):
    value: T


@dataclass(frozen=True, slots=True)
class Err:
    """A refusal: its code, and the facts that its meaning names."""

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


def invalid(field: str, reason: str) -> Err:
    """Build the error for one invalid value."""
    return invalid_fields({field: [reason]})


def invalid_fields(errors: Mapping[str, list[str]]) -> Err:
    return Err(Code.INVALID, errors=dict(errors))


def sentence(reason: str) -> str:
    """Write a reason as a sentence: a capital letter first, and a full stop at the end if no other mark is there."""
    return f"{reason[:1].upper()}{reason[1:].rstrip('.')}{'' if reason.endswith(('?', '!')) else '.'}"
