"""Slots of triggers, and triggers that are refused."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedules.when import cron
from schedules.when.triggers import Cron, Interval, Once, TriggerError, load_zone

VECTORS = Path(__file__).parent / "data" / "cron_vectors.jsonl"
START = datetime(2026, 1, 1, tzinfo=UTC)
AFTER = datetime(2026, 11, 15, 10, tzinfo=UTC)
END_OF_TIME = datetime(9999, 12, 31, 23, 59, 30, tzinfo=UTC)


def utc(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def texts(moments):
    return [f"{moment:%Y-%m-%d %H:%M}" for moment in moments]


def test_runs_equal_those_of_debian_cron():
    differences = []
    for line in VECTORS.read_text().splitlines():
        vector = json.loads(line)
        trigger = Cron(vector["cron"], vector["timezone"])
        runs = trigger.upcoming(datetime.fromisoformat(vector["after"]), len(vector["next"]))
        if [f"{run:%Y-%m-%dT%H:%M:%SZ}" for run in runs] != vector["next"]:
            differences.append((vector, runs))

    assert differences == []


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        pytest.param(
            "30 2 * * *",
            "Europe/Berlin",
            "2027-03-27 12:00",
            ["2027-03-28 01:00", "2027-03-29 00:30"],
            id="fixed time in a gap fires when the gap ends",
        ),
        pytest.param(
            "0,30 2 * * *",
            "Europe/Berlin",
            "2027-03-28 00:00",
            ["2027-03-28 01:00", "2027-03-29 00:00"],
            id="two skipped times fire once",
        ),
        pytest.param(
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-24 12:00",
            ["2026-10-25 00:30", "2026-10-26 01:30"],
            id="fixed time in an overlap fires on the first pass",
        ),
        pytest.param(
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-25 01:10",
            ["2026-10-26 01:30"],
            id="second pass does not fire again",
        ),
        pytest.param(
            "*/30 * * * *",
            "Europe/Berlin",
            "2026-10-25 00:15",
            ["2026-10-25 00:30", "2026-10-25 01:00", "2026-10-25 01:30", "2026-10-25 02:00"],
            id="wildcard follows the real clock through an overlap",
        ),
        pytest.param(
            "*/30 2 * * *",
            "Europe/Berlin",
            "2027-03-28 00:00",
            ["2027-03-29 00:00"],
            id="wildcard has no run in a gap",
        ),
        pytest.param(
            "15 * * * *",
            "Australia/Lord_Howe",
            "2026-10-03 14:50",
            ["2026-10-03 16:15", "2026-10-03 17:15"],
            id="half-hour gap",
        ),
        pytest.param(
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-03 14:50",
            ["2026-10-03 15:30", "2026-10-04 15:15"],
            id="fixed time in a half-hour gap",
        ),
        pytest.param(
            "30 2 * * *",
            "Antarctica/Troll",
            "2027-03-28 00:00",
            ["2027-03-28 01:00", "2027-03-29 00:30"],
            id="two-hour gap",
        ),
        pytest.param(
            "30 0 * * *",
            "Pacific/Chatham",
            "2026-11-15 00:00",
            ["2026-11-15 10:45"],
            id="quarter-hour offset",
        ),
        pytest.param(
            "0 12 30 12 *",
            "Pacific/Apia",
            "2011-12-29 00:00",
            ["2011-12-30 10:00", "2012-12-29 22:00"],
            id="a day that was skipped",
        ),
        pytest.param(
            "* * * * *",
            "Africa/Monrovia",
            "1971-06-01 00:00",
            ["1971-06-01 00:00", "1971-06-01 00:01"],
            id="offset with odd seconds",
        ),
    ],
)
def test_runs_around_clock_changes(expression, zone, after, expected):
    assert texts(Cron(expression, zone).upcoming(utc(after), len(expected))) == expected


def test_run_inside_the_minute_is_strictly_later():
    trigger = Cron("* * * * *", "Africa/Monrovia")
    first = trigger.next_after(utc("1971-06-01 00:00"))

    assert first == utc("1971-06-01 00:00:30")
    assert trigger.next_after(first + timedelta(seconds=10)) == utc("1971-06-01 00:01:30")


expressions = st.builds(
    " ".join,
    st.tuples(
        st.sampled_from(["*", "*/15", "0", "30", "7,37", "10-20/5"]),
        st.sampled_from(["*", "*/2", "0", "2", "1-3", "9,17"]),
        st.sampled_from(["*", "*", "1", "13", "L"]),
        st.sampled_from(["*", "*", "3", "OCT-NOV"]),
        st.sampled_from(["*", "*", "SUN", "1-5", "6,7"]),
    ),
)
zones = st.sampled_from(
    ["UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Antarctica/Troll"]
)
moments = st.integers(0, 6 * 366 * 86400 * 1000).map(lambda tick: START + timedelta(milliseconds=tick))
triggers = st.one_of(
    st.builds(Cron, expressions, zones),
    st.builds(Interval, st.integers(1, 10**7), moments),
    st.builds(Once, moments),
)


@settings(max_examples=150)
@given(trigger=triggers, moment=moments, share=st.floats(0, 1))
def test_next_slot_is_later_and_the_same_for_every_moment_before_it(trigger, moment, share):
    answer = trigger.next_after(moment)

    if answer is not None:
        assert answer > moment
        between = min(moment + (answer - moment) * share, answer - timedelta(microseconds=1))
        assert trigger.next_after(between) == answer


@settings(max_examples=100)
@given(trigger=triggers, moment=moments, limit=st.integers(0, 30), hours=st.integers(0, 200))
def test_count_agrees_with_upcoming(trigger, moment, limit, hours):
    until = moment + timedelta(hours=hours)

    listed = [slot for slot in trigger.upcoming(moment, limit) if slot <= until]

    assert trigger.count_between(moment, until, limit) == len(listed)


@settings(max_examples=100)
@given(trigger=triggers, moment=moments, hours=st.integers(0, 24 * 400))
def test_latest_is_the_newest_slot_of_the_window(trigger, moment, hours):
    not_before = moment - timedelta(hours=hours)

    latest = trigger.latest_at_or_before(moment, not_before)

    if latest is None:
        first = trigger.next_after(not_before - timedelta(microseconds=1))
        assert first is None or first > moment
    else:
        assert not_before <= latest <= moment
        following = trigger.next_after(latest)
        assert following is None or following > moment


@pytest.mark.parametrize(
    "trigger", [Once(START), Interval(60, START), Cron("0 0 1 1 *")], ids=lambda t: t.words()
)
def test_latest_includes_both_ends(trigger):
    assert trigger.latest_at_or_before(START, START) == START
    assert trigger.latest_at_or_before(START - timedelta(seconds=1), START - timedelta(days=9)) is None
    assert trigger.latest_at_or_before(START, START + timedelta(seconds=1)) is None


def test_newest_slot_of_a_long_window_is_found_in_few_steps():
    cron.next_run.cache_clear()

    latest = Cron("* * 1 * *").latest_at_or_before(utc("2026-11-20 12:00"), utc("2024-01-01"))

    assert latest == utc("2026-11-01 23:59")
    assert cron.next_run.cache_info().misses < 60


def test_one_off_has_one_slot():
    trigger = Once(AFTER)

    assert trigger.next_after(AFTER - timedelta(seconds=1)) == AFTER
    assert trigger.next_after(AFTER) is None
    assert trigger.upcoming(START, 5) == [AFTER]


def test_interval_keeps_its_grid():
    trigger = Interval(2700.0, START)

    assert trigger.seconds == 2700
    assert trigger.next_after(START - timedelta(days=1)) == START
    assert trigger.next_after(START) == START + timedelta(minutes=45)
    assert trigger.next_after(
        START + 1000 * timedelta(minutes=45, microseconds=1)
    ) == START + 1001 * timedelta(minutes=45)
    assert trigger.count_between(START, START + timedelta(days=365), 10**9) == 365 * 32
    assert trigger.count_between(AFTER, START, 5) == 0


@pytest.mark.parametrize(
    "trigger",
    [Interval(3600, START), Cron("* * * * *"), Cron("0 0 * * *", "Pacific/Kiritimati"), Cron("0 0 31 12 *")],
    ids=lambda t: t.words(),
)
def test_no_slot_after_the_end_of_the_calendar(trigger):
    assert trigger.next_after(END_OF_TIME) is None


def test_cron_needs_an_aware_moment():
    with pytest.raises(TypeError, match="zone"):
        Cron("* * * * *").next_after(START.replace(tzinfo=None))


def test_bad_expression_is_refused_with_its_reason():
    for expression, reason in [
        ("0 0 9 * * *", "five fields, without seconds or years"),
        ("0 0 9 * * * 2026", "not 7"),
        ("0 9 * *", "not 4"),
        ("", "not 0"),
        ("0 9 ? * 1", r"write \* instead"),
        ("H * * * *", "hashed"),
        ("0 R * * *", "random"),
        ("@reboot", "no time of its own"),
        ("@noon", "@hourly @daily"),
        ("5-1 * * * *", "backwards"),
        ("0 0 * * FRI-SUN", "backwards"),
        ("0 0 * dec-feb *", "backwards"),
        ("*/0 * * * *", "step of zero"),
        ("60 * * * *", "minute field takes 0-59"),
        ("0 24 * * *", "hour field takes 0-23"),
        ("0 0 0 * *", "day-of-month field takes 1-31"),
        ("0 0 * 13 *", "month field takes 1-12"),
        ("0 0 * * 8", "weekday field takes 0-7"),
        ("0 0 * april *", "write APR"),
        ("0 0 * foo *", 'does not know "FOO": it takes 1-12 or JAN-DEC$'),
        ("0 0 * * fril", "5L is the last Friday"),
        ("0 0 * * 1#6", "1 to 5"),
        ("*-5 * * * *", "cannot read"),
        ("1,,2 * * * *", "cannot read"),
        ("5-5 * * * *", "write 5"),
        ("59/15 * * * *", "write 59"),
        ("0~30 5 * * *", "read in crontabs that are imported"),
        ("0 0 13 * 5#2", "disagree"),
        ("0 0 * * 1,5#2", "disagree"),
        ("0 0 30 2 *", "February has no 30th"),
        ("0 0 29 2 */7", "within five years"),
        ("0 0 * * *;", "does not belong"),
        ("\u0661 * * * *", "does not belong"),
        ("* * * * *\0", "does not belong"),
        ("\u00a0* * * * *", "does not belong"),
        ("1," * 60 + "1 * * * *", "at most 100 characters"),
        (None, "as text"),
    ]:
        with pytest.raises(TriggerError, match=reason) as refusal:
            Cron(expression)

        assert refusal.value.field == "cron"
        assert str(refusal.value).startswith("cron: ")


def test_unknown_zone_is_refused():
    for zone in [
        "",
        "../x",
        "/etc",
        "\0",
        "UTC\0",
        "UTC\n",
        "Europe",
        "Mars/Base",
        "localtime",
        "posixrules",
        "right/UTC",
        "posix/UTC",
        "zone.tab",
        "A" * 300,
        None,
        3,
    ]:
        with pytest.raises(TriggerError, match="unknown time zone") as refusal:
            Cron("* * * * *", zone)

        assert refusal.value.field == "timezone"


def test_bad_interval_is_refused_with_its_reason():
    for seconds, reason in [
        (0, "1 second"),
        (-5, "1 second"),
        (0.5, "1 second"),
        (1.5, "whole seconds"),
        (True, "number of seconds"),
        ("60", "number of seconds"),
        (float("nan"), "number of seconds"),
        (float("inf"), "five years"),
        (10**400, "five years"),
    ]:
        with pytest.raises(TriggerError, match=reason) as refusal:
            Interval(seconds, START)

        assert refusal.value.field == "every"


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Once("tomorrow"), "run_at"),
        (lambda: Once(START.replace(tzinfo=None)), "run_at"),
        (lambda: Once(END_OF_TIME, "Pacific/Kiritimati"), "run_at"),
        (lambda: Once(END_OF_TIME.replace(tzinfo=load_zone("America/Lima"))), "run_at"),
        (lambda: Once(START, "Mars/Base"), "timezone"),
        (lambda: Interval(60, START.replace(tzinfo=None)), "every"),
    ],
    ids=["text", "naive", "beyond in its zone", "beyond in UTC", "zone", "naive start"],
)
def test_bad_moment_names_its_field(make, field):
    with pytest.raises(TriggerError) as refusal:
        make()

    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("typed", "kept"),
    [("  0\t9  * * mon ", "0 9 * * mon"), ("@Daily", "@Daily"), ("0 17 * * 5L", "0 17 * * 5L")],
)
def test_expression_is_kept_as_typed_with_single_spaces(typed, kept):
    assert Cron(typed).expression == kept


@pytest.mark.parametrize("macro", cron.MACROS)
def test_macro_runs_like_its_expression(macro):
    assert Cron(macro.upper()).upcoming(START, 3) == Cron(cron.MACROS[macro]).upcoming(START, 3)


@settings(max_examples=200)
@given(st.text(alphabet=st.sampled_from("0123456789*/,-#@LWHR? monfrijan\0\u202e\u0661"), max_size=110))
def test_random_text_is_refused_or_valid(text):
    try:
        trigger = Cron(text)
    except TriggerError:
        return
    assert trigger.words()
    assert trigger.next_after(START) > START
