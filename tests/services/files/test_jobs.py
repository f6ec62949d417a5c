"""Jobs of a file: their fields, and complaints about wrong ones with their places."""

from datetime import UTC, datetime, timedelta

import pytest

from schedules.services.files.jobs import read_jobs
from schedules.when.triggers import CalendarInterval, Cron, Interval, Once

NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)
JOB = "jobs:\n  A:\n    task: notify\n    schedule: every day at 9:00\n"


def read(text: str):
    return read_jobs([("x.yaml", text)], "Europe/Berlin", NOW)


def trigger_of(schedule: str):
    specs, problems = read(f"jobs: {{A: {{task: notify, schedule: {schedule}}}}}")
    assert problems == []
    return specs[0].trigger


def test_job_has_its_call_and_the_zone_of_its_file():
    specs, problems = read(
        """
timezone: Tokyo
jobs:
  Stand-up:
    name: Stand up
    task: notify
    arguments: {message: Stand up, topic: t, tags: [a, 1, null]}
    args: [1]
    schedule: every weekday at 8:30
    ends_at: 2027-12-31
    paused: false
"""
    )

    assert problems == []
    (spec,) = specs
    assert (spec.key, str(spec.place), spec.paused, spec.has_start) == (
        "Stand-up",
        "x.yaml:4:3",
        False,
        False,
    )
    assert spec.trigger == Cron("30 8 * * 1-5", "Asia/Tokyo")
    assert spec.columns == {
        "name": "Stand up",
        "task": "notify",
        "kwargs": {"message": "Stand up", "topic": "t", "tags": ["a", 1, None]},
        "args": [1],
        "timezone": "Asia/Tokyo",
        "ends_at": datetime(2027, 12, 31, 14, 59, 59, 999999, tzinfo=UTC),
    }


def test_schedules_of_every_kind():
    start = datetime(2026, 12, 1, 8, tzinfo=UTC)

    assert trigger_of('"*/15 * * * *"') == Cron("*/15 * * * *", "Europe/Berlin")
    assert trigger_of("2026-12-24T18:00") == Once(datetime(2026, 12, 24, 17, tzinfo=UTC), "Europe/Berlin")
    assert trigger_of("{every: 36h}") == Interval(129_600, NOW + timedelta(hours=36))
    assert trigger_of("{every: 36h, start: 2026-12-01T09:00}") == Interval(129_600, start)
    assert trigger_of("{months: 1, start: 2026-12-01T09:00}") == CalendarInterval(
        1, "months", start, "Europe/Berlin"
    )


def test_wrong_files_are_refused_with_the_place():
    for text, complaint in [
        ("[]", 'x.yaml:1:1: begin with "jobs:"'),
        ("a: 1", "x.yaml:1:1: unknown field 'a'; a file has timezone, jobs"),
        ("timezone: UTC", 'x.yaml:1:1: "jobs" is missing'),
        ("jobs: [a]", "x.yaml:1:7: write the jobs as"),
        ("jobs: {A: notify}", "x.yaml:1:11: write the fields of a job below its name"),
        ("jobs: {'': {}}", "x.yaml:1:8: use a name of"),
        ("jobs: {A: {}}", "x.yaml:1:8: A: 'task' is missing"),
        ("timezone: Mars/Base\njobs: {}", "x.yaml:1:11: "),
        (JOB + "    tsak: x\n", "x.yaml:5:5: unknown field 'tsak'; a job has name, task"),
        (JOB + "    attempts: many\n", "x.yaml:5:15: give a whole number"),
        (JOB + "    name: 7\n", "x.yaml:5:11: give a text, in quotes"),
        (JOB + "    tags: [home, 7]\n", "x.yaml:5:18: give a text, in quotes"),
        (JOB + "    arguments: [x]\n", "x.yaml:5:16: give values by name"),
        (JOB + "    args: {a: 1}\n", "x.yaml:5:11: give a list"),
        (JOB + "    ends_at: in 3 days\n", "x.yaml:5:14: a file means the same whenever"),
        (JOB + "    timezone: Mars/Base\n", "x.yaml:5:15: "),
        ("jobs: {A: {task: x, schedule: tomorrow at 9:00}}", "x.yaml:1:31: a file means the same whenever"),
        ("jobs: {A: {task: x, schedule: every blue moon}}", "x.yaml:1:31: couldn't read that schedule"),
        ("jobs: {A: {task: x, schedule: 7}}", "x.yaml:1:31: give a text"),
        ("jobs: {A: {task: x, schedule: {every: 1h, days: 1}}}", "x.yaml:1:31: give exactly one of"),
        ("jobs: {A: {task: x, schedule: {days: 1}}}", "x.yaml:1:38: give the start"),
        ("jobs: {A: {task: x, schedule: {hours: 1}}}", "x.yaml:1:32: unknown field 'hours'"),
        (
            "jobs: {A: {task: x, schedule: {days: x, start: 2026-12-01T09:00}}}",
            "x.yaml:1:38: give a whole number",
        ),
        ("jobs: {A: {task: x, schedule: {every: 1h, start: monday}}}", "x.yaml:1:50: give a date and time"),
        ("jobs: {A: {task: x, schedule: {days: 99999, start: 2026-12-01T09:00}}}", "x.yaml:1:31: "),
    ]:
        _, problems = read(text)

        assert [str(problem)[: len(complaint)] for problem in problems[:1]] == [complaint]


def test_same_job_in_two_files_is_refused():
    _, problems = read_jobs([("a.yaml", JOB), ("b.yaml", JOB)], "UTC", NOW)

    assert [str(problem) for problem in problems] == ["b.yaml:2:3: 'A' is also in a.yaml:2:3"]


def test_all_problems_of_all_jobs_are_found():
    _, problems = read(
        "jobs:\n"
        "  A: {task: notify, schedule: never ever, attempts: many, ends_at: someday, colour: red}\n"
        "  B: {schedule: '0 9 * * *', tags: home}\n"
    )

    assert sorted((problem.place.line, problem.place.column) for problem in problems) == [
        (2, 31), (2, 53), (2, 68), (2, 77), (3, 3), (3, 36)
    ]  # fmt: skip


def test_job_without_its_unreadable_fields_can_be_checked_further():
    specs, problems = read("jobs: {A: {task: notify, schedule: never ever, attempts: many, max_runs: 3}}")

    assert len(problems) == 2
    assert [(spec.columns["task"], spec.columns["max_runs"]) for spec in specs] == [("notify", 3)]
    assert "attempts" not in specs[0].columns


@pytest.mark.parametrize("text", ["", "jobs:", "jobs: {}"])
def test_empty_file_has_no_jobs(text):
    assert read(text) == ([], [])
