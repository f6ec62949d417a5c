"""Random cron expressions, zones and windows: the forecast equals `next_after`.

Long form, in `make fuzz`: FUZZ_INPUTS=200000 in the environment; FUZZ_SEED chooses other inputs.
"""

import os
import random
from datetime import UTC, datetime, timedelta

import pytest

from schedules.when.slot_batches import slots
from schedules.when.triggers import Cron, TriggerError, load_zone
from schedules.when.zones import clock_changes
from tests.fuzz.inputs import EXPRESSIONS, ZONES, fields
from tests.sizes import sizes

INPUTS_PER_WINDOW = 100
SEED = os.environ.get("FUZZ_SEED", "forecast")
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
TWO_YEARS = timedelta(days=730)
MOST_RUNS = 150
TICK = timedelta(microseconds=1)


def some_trigger(dice: random.Random) -> Cron:
    while True:
        expression = dice.choice(EXPRESSIONS) if dice.random() < 0.5 else fields(dice)
        try:
            return Cron(expression, dice.choice(ZONES))
        except TriggerError:
            continue


def some_start(dice: random.Random, timezone: str) -> datetime:
    """Return a moment shortly before or after a clock change, or any moment if the zone has none."""
    start = FIRST + dice.random() * TWO_YEARS
    changes = list(clock_changes(load_zone(timezone), start, start + TWO_YEARS))
    return dice.choice(changes).at + dice.uniform(-6, 2) * timedelta(hours=1) if changes else start


@pytest.mark.parametrize("number_of_inputs", sizes(1_000, 8_000, "FUZZ_INPUTS"))
def test_forecast_equals_next_after(number_of_inputs: int):
    dice = random.Random(SEED)
    differences = []
    for _ in range(number_of_inputs // INPUTS_PER_WINDOW):
        trigger = some_trigger(dice)
        start = some_start(dice, trigger.timezone)
        expected = trigger.upcoming(start - TICK, MOST_RUNS)
        end = min(expected[-1], start + timedelta(days=dice.choice([1, 3, 40])))
        found = [moment for batch in slots(trigger, start, end) for moment in batch.moments()]
        if found != [run for run in expected if run < end]:
            differences.append((trigger, start, end))

    assert differences == []
