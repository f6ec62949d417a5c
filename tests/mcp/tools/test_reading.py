"""The tools that look ahead: preview_schedule and upcoming."""

from datetime import timedelta

import pytest

from schedules import clock
from schedules.models import Job, Profile
from tests.factories import JobFactory


def cron(expression):
    return {"trigger_type": "cron", "trigger_config": {"expression": expression}}


def test_preview_shows_description_runs_and_warnings_and_stores_nothing(olga, noon):
    answer = olga.call("preview_schedule", **cron("0 9 13 * 5"), timezone="Europe/Berlin", count=2)

    assert answer["next_runs"] == ["2026-02-06T09:00:00+01:00", "2026-02-13T09:00:00+01:00"]
    assert "either" in answer["warnings"][0]
    assert answer["timezone"] == "Europe/Berlin"
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (cron("61 * * * *"), "Invalid cron expression: 61 * * * *"),
        ({**cron("* * * * *"), "count": 0}, "Invalid count: choose 1 to 50"),
        (
            {"trigger_type": "interval", "trigger_config": {"seconds": 5}},
            "Invalid trigger_config: the smallest interval for an agent is 10 seconds",
        ),
        (
            {"trigger_type": "once", "trigger_config": {"run_at": "2026-02-04T11:00"}},
            "Invalid trigger_config: the moment is in the past (now 2026-02-04T12:00:00+01:00)",
        ),
    ],
)
def test_preview_refuses_what_scheduling_refuses(call, noon, arguments, error):
    assert call("preview_schedule", **arguments)["error"].startswith(error)


def test_upcoming_shows_a_job_that_runs_often_on_one_line_in_the_zone_of_the_user(
    olga, owner, stranger, noon
):
    job = JobFactory(owner=owner, cron="0 * * * *", next_run_at=clock.now() + timedelta(hours=1))
    JobFactory(owner=stranger)

    answer = olga.call("upcoming", hours=3)

    assert answer["upcoming"] == [
        {
            "at": "2026-02-04T13:00:00+01:00",
            "job_id": job.public_id,
            "name": job.name,
            "task": job.task,
            "runs": 3,
            "last": "2026-02-04T15:00:00+01:00",
            "description": "Every hour",
        }
    ]
    assert (answer["count"], answer["until"]) == (3, "2026-02-04T15:00:00+01:00")
    assert "No worker is running" in answer["warning"]


@pytest.mark.parametrize(
    ("arguments", "since", "until", "runs"),
    [
        ({"from": "tomorrow"}, "2026-02-05T00:00:00+01:00", "2026-02-05T23:59:59+01:00", [5]),
        ({"from": "saturday", "hours": 48}, "2026-02-07T00:00:00+01:00", "2026-02-09T00:00:00+01:00", [7, 8]),
        ({"to": "friday at 9:00"}, None, "2026-02-06T09:00:00+01:00", [5, 6]),
    ],
)
def test_upcoming_answers_about_any_period(call, owner, noon, arguments, since, until, runs):
    nine = clock.now() + timedelta(hours=21)
    JobFactory(owner=owner, cron="0 9 * * *", timezone="Europe/Berlin", next_run_at=nine)

    answer = call("upcoming", **arguments)
    (line,) = answer["upcoming"]

    assert (answer.get("since"), answer["until"]) == (since, until)
    assert [line["at"], line.get("last", line["at"])] == [
        f"2026-02-{day:02}T09:00:00+01:00" for day in (runs[0], runs[-1])
    ]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"from": "tomorrow", "to": "today"}, "Invalid to: the period ends before it begins at 2026-02-05"),
        ({"to": "yesterday"}, "Invalid to: 2026-02-03T23:59:59+01:00 is past: "),
        ({"from": "today", "to": "in 40 days"}, "Invalid to: choose at most 31 days"),
        ({"to": "friday", "hours": 3}, "Invalid hours: give hours or to"),
        ({"hours": 1e300}, "Invalid hours: "),
    ],
)
def test_upcoming_refuses_a_period_that_it_cannot_list(call, noon, arguments, error):
    assert call("upcoming", **arguments)["error"].startswith(error)


def test_upcoming_warns_if_more_jobs_run_than_it_lists(call, owner, noon):
    soon = clock.now() + timedelta(minutes=5)
    JobFactory.create_batch(101, owner=owner, next_run_at=soon)

    answer = call("upcoming")

    assert len(answer["upcoming"]) == 100
    assert answer["warning"].startswith("Only the first 100 jobs are listed")


def test_upcoming_can_be_rehearsed(call, noon, owner):
    JobFactory(owner=owner, name="Tea", cron="0 8 * * *", next_run_at=clock.now() + timedelta(hours=21))
    JobFactory(owner=owner, name="Backup", cron="0 14 * * *", status="paused", next_run_at=None)

    answer = call("upcoming", rehearse=True)

    assert [(line["name"], line["runs"]) for line in answer["upcoming"]] == [("Tea", 7)]
    assert [(line["name"], line["count"]) for line in answer["rehearsal"]["left_out"]] == [("Backup", 7)]
    assert "rehearsal" not in call("upcoming", hours=5)


@pytest.mark.parametrize("rehearse", [False, True])
def test_list_of_coming_runs_says_what_quiet_hours_hold(call, owner, noon, rehearse):
    kwargs = {"message": "Tea", "topic": "home"}
    JobFactory(
        owner=owner,
        task="notify",
        kwargs=kwargs,
        cron="0 * * * *",
        next_run_at=clock.now() + timedelta(hours=1),
    )
    asked = {"hours": 23, "rehearse": rehearse}
    assert "During" not in call("upcoming", **asked).get("warning", "")

    Profile.objects.filter(user=owner).update(quiet_hours="22:00-07:00")

    assert "During 22:00-07:00" in call("upcoming", **asked)["warning"]
