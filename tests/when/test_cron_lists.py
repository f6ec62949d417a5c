"""Lists with a * in any place, as Debian's cron reads them: compared with a parser that is written like its own."""

import random
from datetime import UTC, datetime, timedelta

from schedules.when import cron
from schedules.when.triggers import Cron

START = datetime(2027, 2, 26, 22, 30, tzinfo=UTC)
RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def values(field: str, low: int, high: int) -> set[int]:
    """Read a field as `get_list` and `get_range` of Debian's cron do."""
    found: set[int] = set()
    for term in field.split(","):
        bounds, _, step = term.partition("/")
        first, _, last = bounds.partition("-")
        start, end = (low, high) if bounds == "*" else (int(first), int(last or first))
        found |= set(range(start, end + 1, int(step or 1)))
    return found


def debian_runs(expression: str, after: datetime, count: int) -> list[datetime]:
    fields = expression.split()
    minutes, hours, days, months, weekdays = (
        values(field, *limits) for field, limits in zip(fields, RANGES, strict=True)
    )
    weekdays |= {0} if 7 in weekdays else set()
    # Only the first character of the field counts for the flags DOM_STAR and DOW_STAR.
    is_and = fields[2].startswith("*") or fields[4].startswith("*")
    runs: list[datetime] = []
    day = after.replace(hour=0, minute=0)
    while len(runs) < count:
        by_day, by_weekday = day.day in days, day.isoweekday() % 7 in weekdays
        if day.month in months and (by_day and by_weekday if is_and else by_day or by_weekday):
            moments = (
                day.replace(hour=hour, minute=minute) for hour in sorted(hours) for minute in sorted(minutes)
            )
            runs += [moment for moment in moments if moment > after]
        day += timedelta(days=1)
    return runs[:count]


def test_star_may_stand_anywhere_in_a_list():
    for expression in [
        "1,2,3-5,*/20 * * * *",
        "0 1,*/6 * * *",
        "0 0 1,*/10 * 1",
        "0 0 */10,1 * 1",
        "0 0 1,*/2 * 5",
        "0 0 * 1,*/5 1",
        "0 0 1 * 1,*/3",
        "15,*/30 8-10,*/12 * * *",
    ]:
        assert Cron(expression).upcoming(START, 200) == debian_runs(expression, START, 200)
        assert Cron(expression).words()


def test_random_lists_are_read_as_debian_does_or_refused():
    chance = random.Random(5)

    def term(low: int, high: int) -> str:
        first = chance.randint(low, high - 2)
        last = chance.randint(first + 1, high)
        return chance.choice(
            [str(first), f"{first}-{last}", f"{first}-{last}/2", f"*/{chance.randint(2, 9)}"]
        )

    def field(low: int, high: int) -> str:
        return (
            "*" if chance.random() < 0.3 else ",".join(term(low, high) for _ in range(chance.randint(1, 4)))
        )

    read = 0
    for _ in range(300):
        expression = " ".join(field(low, min(high, 28)) for low, high in RANGES)
        try:
            found = Cron(expression).upcoming(START, 10)
        except ValueError:
            continue
        assert found == debian_runs(expression, START, 10), expression
        read += ",*" in expression
    assert read > 50


def test_time_is_fixed_unless_the_field_begins_with_a_star():
    assert cron.is_fixed(cron.split("1,*/20 1,*/6 * * *"))
    assert not cron.is_fixed(cron.split("*/20,1 1 * * *"))
