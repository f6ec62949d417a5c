"""Schedules in words."""

from datetime import UTC, datetime
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedules.when.triggers import CalendarInterval, Cron, Interval, Once, TriggerError

START = datetime(2026, 1, 1, tzinfo=UTC)


def utc(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


TABLE = Path(__file__).parent / "data" / "cron_in_words.txt"
SENTENCES = [tuple(line.split(" | ")) for line in TABLE.read_text(encoding="utf-8").splitlines()]


def test_cron_in_words():
    assert [row for row in SENTENCES if Cron(row[0]).words() != row[1]] == []


def test_words():
    for trigger, words in [
        (Interval(1, START), "Every second"),
        (Interval(30, START), "Every 30 seconds"),
        (Interval(60, START), "Every minute"),
        (Interval(90, START), "Every 90 seconds"),
        (Interval(150, START), "Every 2 minutes and 30 seconds"),
        (Interval(2700, START), "Every 45 minutes"),
        (Interval(3600, START), "Every hour"),
        (Interval(5400, START), "Every 90 minutes"),
        (Interval(9000, START), "Every 2 hours and 30 minutes"),
        (Interval(86_400, START), "Every 24 hours"),
        (Interval(129_600, START), "Every 36 hours"),
        (Interval(172_800, START), "Every 2 days"),
        (Interval(180_000, START), "Every 2 days and 2 hours"),
        (Interval(604_800, START), "Every 7 days"),
        (Interval(864_000, START), "Every 10 days"),
        (Interval(1_209_600, START), "Every 2 weeks"),
        (Interval(95_410, START), "Every 1 day, 2 hours, 30 minutes and 10 seconds"),
        (CalendarInterval(1, "days", START, "UTC"), "Every day at 00:00, starting Thu 1 Jan 2026"),
        (CalendarInterval(3, "days", START, "Asia/Tokyo"), "Every 3 days at 09:00, starting Thu 1 Jan 2026"),
        (CalendarInterval(7, "days", START, "UTC"), "Every week on Thursday at 00:00, starting 1 Jan 2026"),
        (
            CalendarInterval(14, "days", START, "UTC"),
            "Every 2 weeks on Thursday at 00:00, starting 1 Jan 2026",
        ),
        (CalendarInterval(1, "months", START, "UTC"), "Every month on the 1st at 00:00, starting 1 Jan 2026"),
        (
            CalendarInterval(3, "months", utc("2026-01-30 08:15"), "UTC"),
            "Every 3 months on the 30th or the last day at 08:15, starting 30 Jan 2026",
        ),
        (
            CalendarInterval(12, "months", utc("2026-12-24 17:00"), "UTC"),
            "Every year on 24 December at 17:00, starting 24 Dec 2026",
        ),
        (Once(utc("2026-12-03 08:30")), "Once, on Thu 3 Dec 2026 at 08:30 UTC"),
        (Once(utc("2026-12-03 08:30:15"), "Europe/Berlin"), "Once, on Thu 3 Dec 2026 at 09:30:15 CET"),
    ]:
        assert trigger.words() == words


def _field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    ordered = st.tuples(number, number).filter(lambda pair: pair[0] < pair[1])
    return st.one_of(
        st.just("*"),
        number.map(str),
        st.lists(number, min_size=2, max_size=4, unique=True).map(lambda values: ",".join(map(str, values))),
        ordered.map(lambda pair: f"{pair[0]}-{pair[1]}"),
        st.integers(2, high).map(lambda step: f"*/{step}"),
    )


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(
    st.tuples(_field(0, 59), _field(0, 23), _field(1, 31), _field(1, 12), _field(0, 6)),
    st.tuples(_field(0, 59), _field(0, 23), _field(1, 31), _field(1, 12), _field(0, 6)),
)
def test_same_words_mean_the_same_times(one, other):
    """Mix the fields of two expressions: whatever differs in its first runs has another sentence."""
    seen: dict[str, Cron] = {}
    for place in range(6):
        try:
            trigger = Cron(" ".join([*one[:place], *other[place:]]))
        except TriggerError:
            continue
        words = trigger.words()
        if " more" in words:
            continue
        before = seen.setdefault(words, trigger)
        if before.expression != trigger.expression:
            assert before.upcoming(START, 50) == trigger.upcoming(START, 50), words
