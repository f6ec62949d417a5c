"""Triggers without known slots: machine start, the end of another job, and runs on demand."""

import enum
import json
import re
from abc import abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

from schedules.when import durations
from schedules.when.slots import Slots, TriggerError

AT_START = "@reboot"
ON_DEMAND = "@manual"
AFTER = "@after"
# A moment that no clock reaches stands for the next run of such a job until it is known.
UNKNOWN_START = datetime(9000, 1, 1, tzinfo=UTC)
LONGEST_DELAY = timedelta(days=30)
_AFTER_EXPRESSION = re.compile(
    r'@after (?P<job>"(?:[^"\\]|\\.)*"|\S+)(?: (?P<when>\w+))?(?: (?P<delay>\d{1,9}))?'
)
_PUBLIC_ID = re.compile(r"[a-z]+_[0-9]+_[0-9]+")


class Ending(enum.StrEnum):
    """How the other job must have ended; those after `ANY` are verdicts of prompts."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ANY = "any"
    DONE = "done"
    NOTHING_TO_DO = "nothing_to_do"
    NEEDS_YOU = "needs_you"
    REFUSED = "refused"
    OVER_BUDGET = "over_budget"
    TIMED_OUT = "timed_out"
    UNKNOWN = "unknown"

    @property
    def is_verdict(self) -> bool:
        return self not in (Ending.SUCCEEDED, Ending.FAILED, Ending.ANY)

    @property
    def words(self) -> str:
        """What the other job does, after its name."""
        plain = {Ending.SUCCEEDED: "succeeds", Ending.FAILED: "fails", Ending.ANY: "ends"}
        return plain.get(self) or f'ends as "{self.replace("_", " ")}"'


class Unplanned(Slots):
    """A trigger whose slots are not known in advance."""

    __slots__ = ()

    def next_after(self, moment: datetime) -> datetime | None:
        """Return UNKNOWN_START for every moment before it."""
        return UNKNOWN_START if moment < UNKNOWN_START else None

    def upcoming(self, after: datetime, count: int) -> list[datetime]:
        """Return no slots, because none is known."""
        return []

    def latest_at_or_before(self, moment: datetime, not_before: datetime) -> datetime | None:
        """Return None: only the ledger knows past runs."""
        return None

    @property
    @abstractmethod
    def expression(self) -> str:
        """Return the text to store in the column for cron expressions."""

    @abstractmethod
    def words(self) -> str:
        """Describe it."""

    @property
    @abstractmethod
    def awaited(self) -> str:
        """Return what the job waits for, as a phrase that follows "waiting for"."""

    def warnings(self, after: datetime | None = None) -> list[str]:
        """List warnings to show before it is saved."""
        return []


@dataclass(frozen=True, slots=True)
class AtStart(Unplanned):
    """Runs when a machine starts: the engine moves its slot from UNKNOWN_START to the moment of the start."""

    @property
    def expression(self) -> str:
        return AT_START

    def words(self) -> str:
        return "When the machine starts"

    @property
    def awaited(self) -> str:
        return "the next start"

    def warnings(self, after: datetime | None = None) -> list[str]:
        return ["It runs once after every start of the machine; a restart of Cronty alone does not run it."]


@dataclass(frozen=True, slots=True)
class OnDemand(Unplanned):
    """Runs only when somebody starts it: by hand, by a tool, or by its trigger address."""

    @property
    def expression(self) -> str:
        return ON_DEMAND

    def words(self) -> str:
        return "Only when it is started"

    @property
    def awaited(self) -> str:
        return "somebody who starts it"


@dataclass(frozen=True, slots=True)
class After(Unplanned):
    """Runs after another job has ended: `job` is its public id, or any reference that is not resolved yet."""

    job: str
    when: Ending = Ending.SUCCEEDED
    delay: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        if not self.job.strip():
            raise TriggerError("cron", "name the other job: after nightly backup succeeds")
        if not timedelta(0) <= self.delay <= LONGEST_DELAY:
            raise TriggerError("cron", f"the longest delay is {durations.in_words(LONGEST_DELAY)}")

    @property
    def expression(self) -> str:
        job = self.job if _PUBLIC_ID.fullmatch(self.job) else json.dumps(self.job)
        return f"{AFTER} {job} {self.when.value} {int(self.delay.total_seconds())}"

    def words(self) -> str:
        return self.words_with(self.job)

    def words_with(self, name: str) -> str:
        """Describe it with a name of the other job."""
        after = f"{durations.in_words(self.delay)} after" if self.delay else "After"
        return f"{after} {name} {self.when.words}"

    @property
    def awaited(self) -> str:
        return "the other job"


def unplanned_trigger(expression: object) -> Unplanned | None:
    """Return the trigger of an expression like @reboot, or None for any other; raise TriggerError if it is invalid."""
    text = str(expression).strip()
    lower = text.lower()
    if lower == AT_START:
        return AtStart()
    if lower == ON_DEMAND:
        return OnDemand()
    return _after(text) if lower.split(" ")[0] == AFTER else None


@cache
def endings() -> str:
    return ", ".join(Ending)


def read_ending(text: str) -> Ending:
    """Return the ending with this name; raise TriggerError for another text."""
    try:
        return Ending(text.strip().lower().replace(" ", "_"))
    except ValueError as error:
        raise TriggerError("cron", f"choose how the other job ends: {endings()}") from error


def _after(text: str) -> After:
    match = _AFTER_EXPRESSION.fullmatch(AFTER + text[len(AFTER) :])
    if match is None:
        raise TriggerError(
            "cron", "write @after, the other job, how it ends, and perhaps the seconds to wait"
        )
    job = match["job"]
    if job.startswith('"'):
        try:
            job = json.loads(job)
        except ValueError as error:
            raise TriggerError("cron", "the name of the other job is not a text in quotes") from error
    ending = read_ending(match["when"] or Ending.SUCCEEDED)
    return After(job, ending, timedelta(seconds=int(match["delay"] or 0)))
