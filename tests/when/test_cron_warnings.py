"""Warnings about schedules that may surprise."""

from datetime import UTC, datetime, timedelta

from schedules.when.triggers import CalendarInterval, Cron, Interval, Once

START = datetime(2026, 1, 1, tzinfo=UTC)
AFTER = datetime(2026, 11, 15, 10, tzinfo=UTC)


def utc(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_warnings():
    for trigger, parts in [
        (Cron("0 9 * * 1-5", "Europe/Berlin"), []),
        (Cron("*/20 * * * *", "Europe/Berlin"), []),
        (Cron("0 0 13 * 5"), ["match either"]),
        (Cron("0 0 */2 * 1"), ["must both match", "restarts every month"]),
        (Cron("0/90 * * * *"), ["0/90 restarts every hour: it runs at minute :00."]),
        (Cron("*/45 * * * *"), ["*/45 restarts every hour: it runs at minute :00 and :45."]),
        (Cron("0 */5 * * *"), ["it runs at hour 0, 5, 10, 15 and 20."]),
        (Cron("*/70 * * * *"), ["it runs at minute :00."]),
        (Cron("0 0 31 * *"), ["without a 31st are skipped"]),
        (Cron("0 0 31 1 *"), []),
        (
            Cron("0 0 31W * *"),
            ["without a 31st are skipped. For the last working day of every month, use LW."],
        ),
        (Cron("0 0 15W * *"), []),
        (Cron("0 0 29 2 *"), ["leap years"]),
        (Cron("0 0 L * *"), []),
        (
            Cron("30 2 * * *", "Europe/Berlin"),
            [
                "On 28 Mar 2027 clocks in Europe/Berlin go forward: 02:30 is skipped, and the job runs at 03:00.",
                "On 31 Oct 2027 clocks in Europe/Berlin go back: 02:30 happens twice, and the job runs the first time only.",
            ],
        ),
        (Cron("*/10 2 * * *", "Europe/Berlin"), ["the job doesn't run then", "the job runs both times"]),
        (
            CalendarInterval(2, "days", utc("2026-11-16 01:30"), "Europe/Berlin"),
            [
                "On 28 Mar 2027 clocks in Europe/Berlin go forward: 02:30 is skipped, and the job runs at 03:00."
            ],
        ),
        (CalendarInterval(14, "days", utc("2027-01-10 01:30"), "Europe/Berlin"), ["On 31 Oct 2027"]),
        (CalendarInterval(2, "days", utc("2026-11-16 08:00"), "Europe/Berlin"), []),
        (CalendarInterval(1, "months", utc("2026-12-28 01:30"), "Europe/Berlin"), ["On 28 Mar 2027"]),
        (CalendarInterval(1, "months", utc("2026-12-31 08:00"), "Europe/Berlin"), ["without a 31st"]),
        (Interval(30, START), ["more than once a minute"]),
        (Interval(60, START), []),
        (Once(AFTER), []),
        (
            Once(utc("2027-10-31 00:30"), "Europe/Berlin"),
            [
                "On 31 Oct 2027 clocks in Europe/Berlin go back: 02:30 happens twice, and the job runs the first time only."
            ],
        ),
        (Once(utc("2027-10-31 01:30"), "Europe/Berlin"), ["the job runs the second time only."]),
        (Once(utc("2027-10-31 02:00"), "Europe/Berlin"), []),
    ]:
        warnings = trigger.warnings(AFTER)

        assert len(warnings) == len(parts)
        assert all(part in warning for part, warning in zip(parts, warnings, strict=True))


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
        "Months without a 31st are skipped. For the last day of every month, use L."
    ]
