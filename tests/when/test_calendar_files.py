"""Calendar files are compiled in a process of their own, with limits, unless they are cheap."""

from datetime import date

import pytest

from schedules.when import calendar_files
from schedules.when.calendar_data import read
from schedules.when.calendar_files import MAX_INLINE, compile_file
from schedules.when.calendar_rules import RuleError

EVENT = "BEGIN:VEVENT\r\nUID:{0}\r\nDTSTART:20260401T100000Z\r\nSUMMARY:Standup \u2713 \r\n{1}END:VEVENT\r\n"
DAILY = "RRULE:FREQ=DAILY;COUNT=3\r\n"
SPEC = {"first": date(2026, 1, 1), "last": date(2026, 12, 31), "name": "c", "closes": True, "timezone": ""}


def file_of(*events: str) -> str:
    return f"BEGIN:VCALENDAR\r\n{''.join(events)}END:VCALENDAR\r\n"


@pytest.fixture
def inline(monkeypatch):
    """Records what is compiled in this process."""
    compiled, compile_here = [], calendar_files._compile

    def record(text, zone, **calendar):
        compiled.append(text)
        return compile_here(text, zone, **calendar)

    monkeypatch.setattr(calendar_files, "_compile", record)
    return compiled


def test_only_short_files_without_repetitions_are_compiled_in_this_process(inline):
    short = file_of(EVENT.format(1, ""))
    long = short + " " * MAX_INLINE
    repeating = file_of(EVENT.format(1, DAILY.lower()))

    compiled = [compile_file(text, "UTC", **SPEC) for text in (short, long, repeating)]

    assert inline == [short]
    assert compiled[0] == compiled[1]
    assert [len(read(file.compiled).events) for file in compiled] == [1, 1, 3]
    assert compiled[2].until == SPEC["last"]


def test_child_passes_on_why_a_file_is_refused():
    with pytest.raises(RuleError, match="broken: export it again"):
        compile_file(file_of(DAILY, "BEGIN:VEVENT\r\n"), "UTC", **SPEC)


@pytest.mark.parametrize(("name", "value"), [("WALL_SECONDS", 0.001), ("_START", "import os; os.abort()")])
def test_child_that_reaches_a_limit_refuses_the_file(monkeypatch, name, value):
    monkeypatch.setattr(calendar_files, name, value)

    with pytest.raises(RuleError, match="too long"):
        compile_file(file_of(EVENT.format(1, DAILY)), "UTC", **SPEC)


def test_few_files_are_read_at_a_time(monkeypatch):
    monkeypatch.setattr(calendar_files, "MAX_WAIT_SECONDS", 0.001)
    for _ in range(calendar_files.MAX_CHILDREN):
        calendar_files._places.acquire()
    try:
        with pytest.raises(RuleError, match="Try again in a minute"):
            compile_file(file_of(EVENT.format(1, DAILY)), "UTC", **SPEC)
    finally:
        calendar_files._places.release(calendar_files.MAX_CHILDREN)
