"""Wall times that a cron expression matches."""

import random
import re
from datetime import date, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from cronsim import CronSim

from schedules.when import cron

EXPRESSIONS = (
    "* * * * *",
    "*/7 3-5 * * *",
    "59 23 31 12 *",
    "0 0 1 1 *",
    "30 8 * * 1-5",
    "15,45 */6 L * *",
    "0 12 29 2 *",
    "5 4 13 * 5",
    "5 4 */2 * 5",
    "0 9 * * 1#2",
    "0 9 * 2,11 5L",
)
MOMENTS = (
    "2026-02-28T23:59:59.999999",
    "2026-11-13T04:05",
    "2026-12-31T23:59",
    "2027-01-01T00:00:00.000001",
    "2028-02-29T12:00",
)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_next_wall_equals_cronsim(expression):
    for moment in MOMENTS:
        start = datetime.fromisoformat(moment)
        whole = CronSim(expression, start)
        found = [start]
        for _ in range(5):
            found.append(cron.next_wall(expression, found[-1]))

        assert found[1:] == [next(whole) for _ in range(5)]
        assert all(earlier < later for earlier, later in pairwise(found))


def random_expression(dice: random.Random) -> str:
    """Return five fields, with the terms that cron programs often read in different ways."""

    def terms(low: int, high: int, *others: str) -> str:
        first = dice.randint(low, high - 2)
        last = dice.randint(first + 1, high - 1)
        choices = ("*", f"*/{last}", f"{first}", f"{first}-{last}", f"{first}-{last}/2", f"{first}/{last}")
        return ",".join(dice.choices([*choices, *others], k=dice.choice([1, 1, 1, 2, 3])))

    time = dice.choice(["0 0", f"{terms(0, 59)} {terms(0, 23)}"])
    months = dice.choice(["*", terms(1, 12)])
    return f"{time} {terms(1, 31, 'L')} {months} {terms(0, 7, '1#2', '5L', 'TUE/2')}"


def test_random_expression_is_read_as_cronsim_does_or_refused():
    dice = random.Random(7)
    start, accepted = datetime.fromisoformat("2026-01-01T00:00"), 0
    for expression in (random_expression(dice) for _ in range(3_000)):
        try:
            cron.normalise(expression)
        except cron.CronError:
            continue
        accepted += 1
        theirs = CronSim(expression, start)
        found = [start]
        for _ in range(5):
            found.append(cron.next_wall(expression.upper(), found[-1]))
        assert found[1:] == [next(theirs) for _ in range(5)], expression
    assert accepted > 500


def test_no_match_after_the_end_of_the_calendar():
    assert cron.next_wall("0 0 * * *", datetime.fromisoformat("9999-12-31T12:00")) is None


def test_days_between_are_the_matching_dates():
    days = cron.days_between("13 * 5", date(2026, 11, 1), date(2026, 11, 20))

    assert [day.day for day in days] == [6, 13, 20]
    assert list(cron.days_between("* * *", date(9999, 12, 30), date.max)) == [date(9999, 12, 30), date.max]


def test_days_are_those_of_a_second_parser_for_decades():
    for days in [
        "* * *",
        "29 2 *",
        "L * *",
        "31 * 1",
        "*/3 * 1-5",
        "1-7 */2 0",
        "* * 5L",
        "* 2 1#5",
        "15 6 */2",
    ]:
        first, last = date(2026, 1, 1), date(2056, 12, 31)
        theirs = CronSim(f"0 0 {days}", datetime.fromisoformat("2025-12-31T23:59"))
        expected = []
        while (day := next(theirs).date()) <= last:
            expected.append(day)

        assert list(cron.days_between(days, first, last)) == expected
        assert cron.count_days(days, first, last) == len(expected)


@pytest.mark.parametrize(("first", "last", "count"), [(31, 31, 1), (1, 30, 3), (2, 8, 1), (9, 8, 0)])
def test_counted_days_include_the_first_and_the_last(first: int, last: int, count: int):
    assert cron.count_days("1,8,30,31 * *", date(2026, 12, first), date(2026, 12, last)) == count


def test_run_later_on_the_same_day_is_found_in_the_far_future():
    noon = datetime.fromisoformat("2400-06-01T12:00")

    assert cron.next_wall("0 15 * * *", noon) == noon.replace(hour=15)


QUARTZ = Path(__file__).parent / "data" / "quartz_working_days.txt"
WORKING_DAYS = [line.split() for line in QUARTZ.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("term", "dates"), [(term, dates) for term, *dates in WORKING_DAYS])
def test_working_days_are_those_of_quartz(term: str, dates: list[str]):
    days = cron.days_between(f"{term} * *", date(2026, 1, 1), date.fromisoformat(dates[-1]))

    assert [day.isoformat() for day in days] == dates


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("0 9 15W * 1", "write * as weekday"),
        ("0 9 0W * *", "takes 1-31"),
        ("0 9 32W * *", "takes 1-31"),
        ("0 9 W * *", "write 15W"),
        ("0 9 * * LW", "LW for the last one"),
        ("0 9 1-15W * *", "write 15W"),
        ("0 9 31W 2 *", "doesn't run"),
    ],
)
def test_working_day_that_cannot_be_read_is_explained(expression: str, reason: str):
    with pytest.raises(cron.CronError, match=re.escape(reason)):
        cron.normalise(expression)


def test_working_days_and_dates_can_be_mixed():
    days = cron.days_between("1,15W,LW 8 *", date(2026, 1, 1), date(2026, 12, 31))

    assert [day.day for day in days] == [1, 14, 31]
