"""The random delay of a job, as services, files, forms and the terminal set it."""

from datetime import timedelta

from schedules import clock, services
from schedules.models import Job
from schedules.result import Err
from schedules.services.files.applying import apply_plan
from schedules.services.files.jobs import read_jobs
from schedules.services.files.plans import make_plan
from schedules.services.jobs import creation
from schedules.services.jobs.creation import build_job, insert_jobs
from schedules.when.spread import delay_of
from tests.services.made_jobs import CRON, ONCE, PLAIN, create_job, once, value_of

SPREAD = timedelta(minutes=4)
FILE = """
timezone: UTC
jobs:
  Ping:
    schedule: every day at 3:00
    task: tests.ping
    spread: {}
"""


def test_new_and_changed_spread_moves_the_next_run(actor):
    job = create_job(actor, spread=SPREAD)
    assert job.next_run_at == job.trigger.next_after(clock.now())

    edited = value_of(services.edit(actor, job.public_id, spread=timedelta(minutes=5)))
    assert edited.next_run_at == edited.trigger.next_after(clock.now())
    assert (edited.next_run_at - delay_of(job.public_id, timedelta(minutes=5))).minute % 5 == 0

    plain = value_of(services.edit(actor, job.public_id, spread=timedelta(0)))
    assert (plain.next_run_at.minute % 5, plain.next_run_at.second) == (0, 0)


def test_bad_spread_is_refused_by_name_and_creates_nothing(actor):
    for fields, reason in [
        (CRON | {"spread": timedelta(minutes=6)}, "Choose at most 5m"),
        (CRON | {"spread": -SPREAD}, "whole seconds"),
        (CRON | {"spread": "4m"}, "Give a duration"),
        (ONCE | {"spread": SPREAD}, "one-time job"),
    ]:
        answer = services.schedule(actor, **PLAIN, **fields)

        assert isinstance(answer, Err)
        assert reason in " ".join(answer.errors["spread"])
        assert not Job.objects.exists()


def test_schedule_that_became_too_frequent_for_its_spread_is_refused(actor):
    job = create_job(actor, cron="0 3 * * *", spread=timedelta(hours=2))

    answer = services.edit(actor, job.public_id, cron="0 * * * *")

    assert isinstance(answer, Err)
    assert "spread" in answer.errors


def test_job_that_becomes_a_one_time_job_loses_its_spread(actor):
    job = create_job(actor, spread=SPREAD)
    moment = clock.now() + timedelta(hours=1)

    edited = value_of(services.edit(actor, job.public_id, **once(moment)))

    assert (edited.spread, edited.next_run_at) == (timedelta(0), moment)


def test_job_that_gets_another_id_gets_its_delay(actor, monkeypatch):
    now = clock.now()
    ids = iter(["job_1_1", "job_1_1", "job_2_1"])
    monkeypatch.setattr(creation, "new_public_id", lambda prefix, now: next(ids))
    fields = PLAIN | {"trigger_type": "cron", "cron": "0 3 * * *", "timezone": "UTC", "spread": SPREAD}
    new = [(value_of(build_job(actor, now, fields)), fields) for _ in range(2)]

    insert_jobs(actor, new, now)

    jobs = list(Job.objects.order_by("pk"))
    assert [job.public_id for job in jobs] == ["job_1_1", "job_2_1"]
    assert [job.next_run_at for job in jobs] == [job.trigger.next_after(now) for job in jobs]


def applied(actor, text):
    specs, problems = read_jobs([("jobs.yaml", text)], "UTC", clock.now())
    assert problems == []
    plan = make_plan(actor, "jobs.yaml", specs, clock.now())
    return value_of(apply_plan(actor, plan)) if not plan.problems else plan


def test_bad_spread_of_a_file_is_refused_with_its_line(actor):
    plan = applied(actor, FILE.format("25h"))

    assert [str(problem) for problem in plan.problems] == ["jobs.yaml:7:13: Ping: Choose at most 1d."]
    assert not Job.objects.exists()
