"""Random text and JSON for every parser of schedules: each input is read, or refused with a reason, at once.

Long form, in `make fuzz`: FUZZ_INPUTS=200000 in the environment; FUZZ_SEED chooses other inputs. Only the long form
checks the time per input, because it runs alone and without coverage.
"""

import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
import time_machine
from django.core.exceptions import ValidationError

from schedules.mcp.tools.moments import read_moment, read_one_moment
from schedules.mcp.tools.triggers import read_trigger
from schedules.models.triggers import trigger_of
from schedules.result import Err, Ok
from schedules.spec.readers import read_span
from schedules.web.forms.when import WhenForm
from schedules.when import cron, durations
from schedules.when.clauses import parse_plan
from schedules.when.cron import CronError
from schedules.when.durations import HORIZON
from schedules.when.phrases import PhraseError, parse_delay, parse_moment
from schedules.when.repeats import parse_trigger
from schedules.when.triggers import CalendarInterval, Cron, Interval, Once, Trigger, TriggerError, load_zone
from schedules.when.zone_names import zone_named
from tests.fuzz import inputs
from tests.fuzz.inputs import DELAYS, EXPRESSIONS, MOMENTS, PHRASES, anything, number, text, zone
from tests.sizes import sizes

IS_LONG = "FUZZ_INPUTS" in os.environ
SEED = os.environ.get("FUZZ_SEED", "parsers")
LIMIT_SECONDS = 0.05
TRIES = 3
SLOTS = 3
LONGEST_REASON = 500

NOWS = [
    datetime(2026, 11, 15, 10, 0, 0, 5, tzinfo=UTC),
    datetime(2027, 3, 1, 1, 0, 1, 500_000, tzinfo=UTC),
    datetime(2027, 3, 28, 0, 59, 59, tzinfo=UTC),
    datetime(2027, 10, 31, 0, 30, tzinfo=UTC),
    datetime(2028, 2, 29, 12, tzinfo=UTC),
    datetime(2026, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
]
# A reason that names no field must say how to fix the input.
A_FIX = re.compile(
    r"\b(?:write|try|give|make|enter|use|choose|check|did you mean|limit|shortest|takes|at most|at least|must|the known ones are)\b",
    re.IGNORECASE,
)


class Refusal(Exception):  # noqa: N818
    """A refusal by any parser: its reasons, each with the field it names, if any."""

    def __init__(self, reasons: list[tuple[str, str]]) -> None:
        super().__init__(reasons)
        self.reasons = reasons


class Reader(NamedTuple):
    """One of the product's parsers: how to make its input, and how to call it."""

    make: Callable[[random.Random], tuple[Any, ...]]
    read: Callable[..., Any]


def read_columns(now: datetime, kind: str, config: dict[str, Any], timezone: str) -> Any:
    # Without phrases, which may name calendars in the database and have a reader of their own below.
    columns = unwrapped(read_trigger(kind, config, timezone, now, takes_phrases=False))
    return trigger_of(columns | {"anchor_at": now})


def read_form(now: datetime, data: dict[str, str]) -> Any:
    form = WhenForm(data)
    if not form.is_valid():
        raise Refusal([(field, str(reason)) for field, reasons in form.errors.items() for reason in reasons])
    assert form.trigger_columns()["timezone"] == zone_named(data["timezone"])
    return form.trigger


def unwrapped(result: Any) -> Any:
    if isinstance(result, Err):
        raise Refusal([(field, reason) for field, reasons in result.errors.items() for reason in reasons])
    assert isinstance(result, Ok)
    return result.value


READERS = {
    "cron expression": Reader(
        lambda dice: (text(dice, EXPRESSIONS),), lambda now, expression: Cron(cron.normalise(expression))
    ),
    "cron trigger": Reader(
        lambda dice: (anything(dice, EXPRESSIONS), zone(dice)),
        lambda now, expression, timezone: Cron(expression, timezone),
    ),
    "interval": Reader(lambda dice: (number(dice),), lambda now, seconds: Interval(seconds, now)),
    "once": Reader(
        lambda dice: (dice.choice([*NOWS, anything(dice, MOMENTS)]), zone(dice)),
        lambda now, moment, timezone: Once(moment, timezone),
    ),
    "zone": Reader(lambda dice: (zone(dice),), lambda now, timezone: load_zone(timezone)),
    "moment": Reader(
        lambda dice: (anything(dice, MOMENTS), zone(dice)),
        lambda now, phrase, timezone: parse_moment(phrase, now=now, timezone=timezone),
    ),
    "past moment": Reader(
        lambda dice: (anything(dice, MOMENTS), zone(dice)),
        lambda now, phrase, timezone: parse_moment(phrase, now=now, timezone=timezone, past=True),
    ),
    "phrase": Reader(
        lambda dice: (anything(dice, PHRASES), zone(dice)),
        lambda now, phrase, timezone: parse_trigger(phrase, now=now, timezone=timezone),
    ),
    "whole phrase": Reader(
        lambda dice: (anything(dice, PHRASES), zone(dice)),
        lambda now, phrase, timezone: parse_plan(phrase, now=now, timezone=timezone).trigger,
    ),
    "delay": Reader(lambda dice: (anything(dice, DELAYS),), lambda now, delay: parse_delay(delay)),
    "agent's trigger": Reader(lambda dice: (*inputs.configuration(dice), zone(dice)), read_columns),
    "agent's moment": Reader(
        lambda dice: (text(dice, MOMENTS), zone(dice)),
        lambda now, phrase, timezone: unwrapped(read_moment(phrase, timezone, now, "run_at")),
    ),
    "agent's notification": Reader(
        lambda dice: (inputs.notification(dice), zone(dice)),
        lambda now, when, timezone: unwrapped(read_one_moment(when, timezone)),
    ),
    "option of a job": Reader(lambda dice: (text(dice, DELAYS),), lambda now, span: read_span(span, now)),
    "schedule form": Reader(lambda dice: (inputs.form(dice),), read_form),
}


def use(value: Any, now: datetime) -> None:
    """Use an accepted value as the product does."""
    match value:
        case Cron() | Interval() | CalendarInterval() | Once():
            use_trigger(value, now)
        case datetime():
            assert value - now <= HORIZON
            use_trigger(Once(value, str(value.tzinfo)), now)
        case timedelta():
            if timedelta(0) < value <= HORIZON and not value.microseconds:
                assert parse_delay(durations.typed(value)) == value
        case ZoneInfo():
            # Subtracted, because moments of two zones never compare equal within a repeated hour.
            assert now.astimezone(value) - now == timedelta(0)
        case _:
            assert value is None, "only an optional field may be read as None"


def use_trigger(trigger: Trigger, now: datetime) -> None:
    slots = trigger.upcoming(now, SLOTS)
    assert all(earlier < later for earlier, later in zip([now, *slots], slots, strict=False))
    assert len(slots) == SLOTS or isinstance(trigger, Once)
    assert trigger.words().isprintable()
    assert all(trigger.warnings(now))
    if isinstance(trigger, Cron):
        assert Cron(trigger.expression, trigger.timezone) == trigger


def check_refusal(refusal: Refusal) -> None:
    assert refusal.reasons, "a refusal says why"
    for field, reason in refusal.reasons:
        assert len(reason.split()) >= 3, f"not a sentence: {reason}"
        assert len(reason) <= LONGEST_REASON, f"too long: {reason[:200]}"
        assert field or A_FIX.search(reason), f"names neither field nor fix: {reason}"


def read(reader: Reader, now: datetime, given: tuple[Any, ...]) -> Any:
    """Read an input; turn every documented error into a Refusal and let anything else rise as a crash."""
    try:
        return reader.read(now, *given)
    except TriggerError as error:
        raise Refusal([(error.field, error.reason)]) from error
    except (PhraseError, CronError) as error:
        raise Refusal([("", str(error))]) from error
    except ValidationError as error:
        # Raised by a form field; the page shows it beside that field.
        raise Refusal([("field", reason) for reason in error.messages]) from error


def play(reader: Reader, now: datetime, given: tuple[Any, ...]) -> tuple[str, float]:
    """Read one input and use the result; return the answer and the time of the longer of the two steps."""
    for cached in (
        cron.normalise,
        cron.times,
        cron._next_day,
        cron.next_run,
    ):
        cached.cache_clear()
    # Processor time, because wall time says little on a busy machine.
    started = time.thread_time()
    try:
        value = read(reader, now, given)
    except Refusal as refusal:
        took = time.thread_time() - started
        check_refusal(refusal)
        return "refused", took
    accepted = time.thread_time()
    use(value, now)
    return "accepted", max(accepted - started, time.thread_time() - accepted)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number_of_inputs", sizes(500, 6_000, "FUZZ_INPUTS"))
def test_any_input_is_parsed_or_refused_with_a_reason_quickly(number_of_inputs: int):
    answers: Counter[tuple[str, str]] = Counter()
    slowest = 0.0, ""
    for place in range(number_of_inputs):
        dice = random.Random(f"{SEED} {place}")
        name = list(READERS)[place % len(READERS)]
        now, given = dice.choice(NOWS), READERS[name].make(dice)
        words = f"input {place}, {name}: {ascii(given)[:300]}"
        with time_machine.travel(now, tick=False):
            try:
                answer, took = play(READERS[name], now, given)
                for _ in range(TRIES - 1):
                    if IS_LONG and took > LIMIT_SECONDS:
                        took = min(took, play(READERS[name], now, given)[1])
            except Exception as error:
                error.add_note(words)
                raise
        assert took <= LIMIT_SECONDS or not IS_LONG, f"{took * 1000:.0f} ms for {words}"
        answers[name, answer] += 1
        slowest = max(slowest, (took, words))
    for name in READERS:
        # A generator that makes only valid or only invalid inputs would test nothing.
        assert answers[name, "accepted"] > 0
        assert answers[name, "refused"] > 0
    for (name, answer), count in sorted(answers.items()):
        print(f"{name:<24} {answer:<9} {count:>7}")  # noqa: T201
    print(f"slowest {slowest[0] * 1000:.1f} ms: {slowest[1]}")  # noqa: T201
