"""The tools that only read: preview, upcoming and why."""

from datetime import timedelta

import pytest

from schedules import clock
from schedules.models import Incident, Job
from schedules.when.unplanned import UNKNOWN_START
from tests.factories import ExecutionFactory, JobFactory


def cron(expression):
    return {"trigger_type": "cron", "trigger_config": {"expression": expression}}


def test_preview_shows_description_runs_and_warnings_and_stores_nothing(olga, noon):
    answer = olga.call("preview_schedule", **cron("0 9 13 * 5"), timezone="Europe/Berlin", count=2)

    assert answer["next_runs"] == ["2026-02-06T09:00:00+01:00", "2026-02-13T09:00:00+01:00"]
    assert "either" in answer["warnings"][0]
    assert answer["timezone"] == "Europe/Berlin"
    assert not Job.objects.exists()


def test_preview_warns_of_a_skipped_hour(call, noon):
    answer = call("preview_schedule", **cron("30 2 * * *"), timezone="Europe/Berlin")

    assert any("29 Mar 2026" in warning for warning in answer["warnings"])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (cron("61 * * * *"), "Invalid cron expression: 61 * * * *"),
        ({**cron("* * * * *"), "count": 0}, "Invalid count: choose 1 to 50"),
        ({**cron("* * * * *"), "timezone": "Mars"}, "Unknown timezone: Mars"),
        ({"trigger_type": "x", "trigger_config": {}}, "Unknown trigger type: x"),
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


def test_gap_shows_its_number_of_slots(olga, owner, noon):
    job = JobFactory(owner=owner)
    ExecutionFactory(job=job, scheduled_for=clock.now() - timedelta(hours=2))
    hour_ago = clock.now() - timedelta(hours=1)
    ExecutionFactory(job=job, status="missed", scheduled_for=hour_ago, slots=5, last_slot=clock.now())

    gap, one = olga.call("job_status", job_id=job.public_id)["executions"]

    assert (gap["slots"], gap["last_slot"]) == (5, "2026-02-04T11:00:00+00:00")
    assert not {"slots", "last_slot"} & one.keys()
    assert olga.call("why", job_id=job.public_id)["execution"] == gap


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


def test_upcoming_by_name_has_a_job_that_runs_after_another(call, owner, noon):
    backup = JobFactory(
        owner=owner, name="Backup", cron="0 12 * * *", next_run_at=clock.now() + timedelta(hours=1)
    )
    JobFactory(
        owner=owner,
        name="Report",
        cron=f"@after {backup.public_id} failed 0",
        follows=backup,
        next_run_at=UNKNOWN_START,
    )

    (line,) = call("upcoming", query="Report")["upcoming"]

    assert line["at"] == "2026-02-04T13:00:00+01:00"
    assert line["description"] == "Only if Backup fails: After Backup fails"


@pytest.mark.parametrize(
    ("arguments", "since", "until", "runs"),
    [
        ({"from": "tomorrow"}, "2026-02-05T00:00:00+01:00", "2026-02-05T23:59:59+01:00", [5]),
        ({"from": "today", "to": "tomorrow morning"}, None, "2026-02-05T11:59:59+01:00", [5]),
        ({"from": "next week"}, "2026-02-09T00:00:00+01:00", "2026-02-15T23:59:59+01:00", [9, 15]),
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
    assert answer["count"] == line.get("runs", 1) == runs[-1] - runs[0] + 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            {"from": "tomorrow", "to": "today"},
            "Invalid to: the period ends before it begins at 2026-02-05T00:00",
        ),
        ({"to": "yesterday"}, "Invalid to: 2026-02-03T23:59:59+01:00 is past: "),
        ({"from": "today", "to": "in 40 days"}, "Invalid to: choose at most 31 days"),
        ({"from": "whenever"}, "Invalid from: "),
        ({"to": "friday", "hours": 3}, "Invalid hours: give hours or to"),
        ({"task": "nope"}, "Unknown task: nope"),
    ],
)
def test_upcoming_refuses_a_period_that_it_cannot_list(call, noon, arguments, error):
    assert call("upcoming", **arguments)["error"].startswith(error)


@pytest.mark.parametrize("hours", [0, -1, 745, 1e300])
def test_upcoming_refuses_invalid_time_spans(call, hours):
    assert call("upcoming", hours=hours)["error"].startswith("Invalid hours: ")


def test_why_explains_the_outcome_of_a_run(olga, owner, noon):
    job = JobFactory(owner=owner, timezone="Europe/Berlin", created_at=clock.now() - timedelta(days=2))
    row = ExecutionFactory(
        job=job, scheduled_for=clock.now() - timedelta(hours=1), status="failed", error="it broke", attempt=3
    )

    answer = olga.call("why", job_id=job.public_id, at="2026-02-04T11:00")

    assert (answer["verdict"], answer["execution"]["id"]) == ("failed", row.pk)
    assert answer["explanation"] == "Failed after 3 attempts."
    assert answer["detail"] == "it broke"
    assert olga.call("why", job_id=job.public_id, at="2020-01-01T00:00")["verdict"] == "nothing"


def test_why_says_that_no_cluster_is_running(olga, owner):
    job = JobFactory(owner=owner, next_run_at=clock.now() - timedelta(minutes=5))

    answer = olga.call("why", job_id=job.public_id)

    assert (answer["verdict"], answer["explanation"]) == ("late", "It is due, but the worker is offline.")


def test_upcoming_warns_if_more_jobs_run_than_it_lists(call, owner, noon):
    soon = clock.now() + timedelta(minutes=5)
    often = JobFactory(owner=owner, cron="* * * * *", next_run_at=soon)
    JobFactory.create_batch(99, owner=owner, next_run_at=soon)

    whole = call("upcoming")
    JobFactory(owner=owner, next_run_at=soon + timedelta(hours=1))
    first = call("upcoming")

    assert (len(whole["upcoming"]), "warning" in whole) == (100, False)
    assert {line["runs"] for line in whole["upcoming"] if line["job_id"] == often.public_id} == {1436}
    assert len(first["upcoming"]) == 100
    assert first["warning"].startswith("Only the first 100 jobs are listed")


def test_upcoming_can_be_rehearsed(call, noon, owner):
    JobFactory(owner=owner, name="Tea", cron="0 * * * *", next_run_at=clock.now() + timedelta(hours=1))
    paused = JobFactory(
        owner=owner,
        name="Backup",
        cron="0 14,16 * * *",
        timezone="Europe/Berlin",
        status="paused",
        next_run_at=None,
    )

    answer = call("upcoming", hours=5, rehearse=True)

    assert [(line["name"], line["runs"]) for line in answer["upcoming"]] == [("Tea", 5)]
    assert answer["rehearsal"] == {
        "left_out": [
            {
                "job_id": paused.public_id,
                "name": "Backup",
                "reason": "Paused: no reason given",
                "count": 2,
                "first": "2026-02-04T14:00:00+01:00",
                "last": "2026-02-04T16:00:00+01:00",
            }
        ]
    }
    assert "rehearsal" not in call("upcoming", hours=5)


def test_rehearsal_is_a_week_unless_another_period_is_asked_for(call, noon, owner):
    JobFactory(owner=owner, cron="0 8 * * *", next_run_at=clock.now() + timedelta(hours=21))

    assert call("upcoming", rehearse=True)["count"] == 7
    assert call("upcoming")["count"] == 1
    assert call("upcoming", rehearse=True, to="in 40 days")["error"].startswith(
        "Invalid to: choose at most 31 days"
    )


def test_preview_shows_a_random_delay_and_refuses_one_that_is_too_long(call, noon):
    def preview(spread):
        config = {"expression": "*/10 * * * *", "spread": spread}
        return call("preview_schedule", trigger_type="cron", trigger_config=config)

    assert preview("5m")["description"] == "Every 10 minutes, up to 5 minutes later"
    assert "Invalid spread: choose at most 10m" in preview("20m")["error"]


def test_why_and_job_status_name_an_incident_that_lasts(call, owner, noon):
    job, now = JobFactory(owner=owner), clock.now()
    Incident.objects.create(
        **{"owner": owner, "job": job, "kind": "failing", "subject": "job", "name": job.name},
        **{"opened_at": now, "told": 1, "told_at": now, "due_at": now + timedelta(days=1)},
    )

    for text in (
        call("why", job_id=job.public_id)["explanation"],
        call("job_status", job_id=job.public_id)["reminder"],
    ):
        assert "Failing since Wed 4 Feb 2026" in text
        assert "An alert was sent on Wed 4 Feb 2026" in text
        assert "The next reminder is due on Thu 5 Feb 2026" in text
