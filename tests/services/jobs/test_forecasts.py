"""Previews and upcoming runs."""

from datetime import UTC, datetime, timedelta

import pytest

from schedules.models import Job
from schedules.services.jobs.chains import upcoming
from schedules.services.jobs.forecasts import (
    next_runs_of,
    preview_of,
    words_of,
)
from schedules.services.jobs.schedule_texts import preview
from tests.factories import JobFactory
from tests.services.conftest import NOW


def minutes(*numbers: int) -> list[datetime]:
    return [NOW + timedelta(minutes=number) for number in numbers]


def job_of(actor, **fields):
    return JobFactory(owner=actor.user, **({"next_run_at": NOW + timedelta(minutes=5)} | fields))


def test_preview_describes_the_schedule_and_lists_its_next_runs(actor):
    columns = {"trigger_type": "cron", "cron": "30 2 * * *", "timezone": "Europe/Berlin"}
    shown = preview(actor.user.pk, columns, NOW, 2).value

    assert (shown.description, shown.timezone) == ("Every day at 02:30", "Europe/Berlin")
    assert shown.next_runs == [datetime(2026, 2, day, 1, 30, tzinfo=UTC) for day in (5, 6)]
    assert any("29 Mar 2026" in warning for warning in shown.warnings)


@pytest.mark.parametrize(
    ("fields", "runs"),
    [
        pytest.param({}, minutes(5, 10, 15, 20, 25), id="endless"),
        pytest.param({"ends_at": NOW + timedelta(minutes=12)}, minutes(5, 10), id="until its end"),
        pytest.param({"max_runs": 5, "slot_count": 2}, minutes(5, 10, 15), id="runs left"),
        pytest.param({"next_run_at": NOW - timedelta(minutes=5)}, minutes(-5, 5, 10, 15, 20), id="overdue"),
        pytest.param({"paused": True, "next_run_at": None}, [], id="paused"),
        pytest.param({"ended": True, "next_run_at": None}, [], id="over"),
    ],
)
def test_preview_of_a_job_shows_its_remaining_runs(db, fields, runs):
    job = JobFactory(**({"next_run_at": NOW + timedelta(minutes=5)} | fields))

    assert preview_of(job, NOW).next_runs == runs


def test_preview_of_an_invalid_schedule_shows_its_text_and_the_reason(db):
    broken, foreign = JobFactory(cron="nonsense"), JobFactory.build(trigger_type="lunar", cron="")

    assert (words_of(broken), words_of(foreign)) == ("nonsense", "lunar")
    assert preview_of(broken, NOW).next_runs == []
    assert preview_of(broken, NOW).warnings


def test_upcoming_lists_the_runs_of_all_jobs_soonest_first(actor, stranger):
    often = job_of(actor, cron="*/20 * * * *", next_run_at=NOW + timedelta(minutes=20))
    once = JobFactory(owner=actor.user, once=True, run_at=NOW + timedelta(minutes=30))
    JobFactory(owner=stranger)
    job_of(actor, next_run_at=NOW + timedelta(hours=2))

    listed = upcoming(actor, NOW, hours=1)

    assert [(moment, job.pk) for moment, job in listed] == list(
        zip(minutes(20, 30, 40, 60), [often.pk, once.pk, often.pk, often.pk], strict=True)
    )


def test_upcoming_runs_of_jobs_that_share_a_schedule_are_those_of_each_job(actor):
    each = {"*/10 * * * *": minutes(7, 30, 30), "*/15 * * * *": minutes(2), "": minutes(1)}
    for expression, moments in each.items():
        for moment in moments:
            every = (
                {} if expression else {"interval": True, "every": timedelta(minutes=13), "anchor_at": moment}
            )
            job_of(actor, **({"cron": expression} if expression else every), next_run_at=moment)
    jobs = Job.objects.filter(owner=actor.user)
    alone = [(slot, job.pk) for job in jobs for slot in next_runs_of(job, NOW, 20)]

    listed = upcoming(actor, NOW, hours=1)

    until = NOW + timedelta(hours=1)
    assert [(slot, job.pk) for slot, job in listed] == sorted(run for run in alone if run[0] <= until)


def test_job_with_an_invalid_schedule_does_not_hide_the_others(actor):
    broken = job_of(actor, cron="nonsense")
    fine = job_of(actor, cron="*/20 * * * *", next_run_at=NOW + timedelta(minutes=20))

    assert [job.pk for _, job in upcoming(actor, NOW, hours=0.5)] == [broken.pk, fine.pk]
