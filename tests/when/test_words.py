"""Descriptions of schedules, and warnings about them."""

from datetime import UTC, datetime, timedelta

import pytest

from schedules.when.triggers import Cron, Interval, Once
from schedules.when.words import describe_cron

START = datetime(2026, 1, 1, tzinfo=UTC)
AFTER = datetime(2026, 11, 15, 10, tzinfo=UTC)


def utc(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        (Cron("* * * * *"), "Every minute"),
        (Cron("*/15 * * * *"), "Every 15 minutes"),
        (Cron("@hourly"), "Every hour"),
        (Cron("0 */6 * * *"), "Every 6 hours"),
        (Cron("0 9 * * *"), "Every day at 09:00"),
        (Cron("30 8 * * 1-5"), "At 08:30 on Monday through Friday"),
        (Cron("*/45 * * * *"), "Every 45th minute of every hour"),
        (Cron("0 0 13 * 5"), "At 00:00 on the 13th day of month or on Friday"),
        (Cron("0 0 22 * *"), "At 00:00 on the 22nd day of every month"),
        (Cron("0 0 11 * *"), "At 00:00 on the 11th day of every month"),
        (Cron("0 17 * * 5L"), "At 17:00 on the last Friday of the month"),
        (Cron("0 10 * * 1#1"), "At 10:00 on the first Monday of the month"),
        (Cron("5 * * * *"), "At minute 5 of every hour"),
        (Interval(1, START), "Every second"),
        (Interval(2700, START), "Every 45 minutes"),
        (Interval(9000, START), "Every 2 hours 30 minutes"),
        (Interval(5400, START), "Every 1 hour 30 minutes"),
        (Interval(86400, START), "Every day"),
        (Once(utc("2026-12-03 08:30")), "Once, Thu 3 Dec 2026 08:30 UTC"),
        (Once(utc("2026-12-03 08:30:15"), "Europe/Berlin"), "Once, Thu 3 Dec 2026 09:30:15 CET"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_words(trigger, words):
    assert trigger.words() == words


def test_words_fall_back_to_the_expression(monkeypatch):
    monkeypatch.setattr("schedules.when.words.explain", lambda fields: 1 / 0)
    # Without the cache, which would keep the failure for later tests.
    monkeypatch.setattr("schedules.when.words.describe_cron", describe_cron.__wrapped__)

    assert Cron("30 8 * * 1-5").words() == "30 8 * * 1-5"


@pytest.mark.parametrize(
    ("trigger", "parts"),
    [
        (Cron("0 9 * * 1-5", "Europe/Berlin"), []),
        (Cron("*/20 * * * *", "Europe/Berlin"), []),
        (Cron("0 0 13 * 5"), ["match either"]),
        (Cron("0 0 */2 * 1"), ["must both match", "starts again every month"]),
        (Cron("*/45 * * * *"), ["*/45 starts again every hour: it means minute :00 and :45."]),
        (Cron("0 */5 * * *"), ["it means hour 0, 5, 10, 15 and 20."]),
        (Cron("*/70 * * * *"), ["it means minute :00."]),
        (Cron("0 0 31 * *"), ["without a day 31 are skipped"]),
        (Cron("0 0 31 1 *"), []),
        (Cron("0 0 29 2 *"), ["leap years"]),
        (Cron("0 0 L * *"), []),
        (
            Cron("30 2 * * *", "Europe/Berlin"),
            [
                "On 28 Mar 2027 clocks in Europe/Berlin skip 02:30: that run comes at 03:00.",
                "On 31 Oct 2027 clocks in Europe/Berlin repeat 02:30: it runs once, the first time.",
            ],
        ),
        (Cron("*/10 2 * * *", "Europe/Berlin"), ["there is no run then", "it runs both times"]),
        (Interval(30, START), ["more than once a minute"]),
        (Interval(60, START), []),
        (Once(AFTER), []),
        (
            Once(utc("2027-10-31 00:30"), "Europe/Berlin"),
            ["On 31 Oct 2027 clocks in Europe/Berlin repeat 02:30: it runs once, the first time."],
        ),
        (Once(utc("2027-10-31 01:30"), "Europe/Berlin"), ["it runs once, the second time."]),
        (Once(utc("2027-10-31 02:00"), "Europe/Berlin"), []),
    ],
    ids=lambda value: getattr(value, "expression", ""),
)
def test_warnings(trigger, parts):
    warnings = trigger.warnings(AFTER)

    assert len(warnings) == len(parts)
    assert all(part in warning for part, warning in zip(parts, warnings, strict=True))


@pytest.mark.timeout(10)
def test_clock_change_is_found_from_any_fraction_of_a_second():
    trigger = Cron("30 2 * * *", "Europe/Berlin")

    for microseconds in (1, 500_000, 1_500_000, 1_999_999):
        asked_at = utc("2027-03-01 01:00") + timedelta(microseconds=microseconds)
        assert [warning[:14] for warning in trigger.warnings(asked_at)] == [
            "On 28 Mar 2027",
            "On 31 Oct 2027",
        ]


def test_warnings_without_a_moment_leave_clock_changes_out():
    assert Cron("30 2 31 * *", "Europe/Berlin").warnings() == [
        "Months without a day 31 are skipped; L means the last day of every month."
    ]
