"""Jobs that run when a machine starts, as services, files and answers about them show them."""

from schedules import clock, engine, services
from schedules.models import Job
from schedules.services.files.applying import apply_plan, export_jobs
from schedules.services.files.jobs import read_jobs
from schedules.services.files.plans import make_plan
from schedules.services.jobs.forecasts import preview_of, shown_next_run
from schedules.when.unplanned import UNKNOWN_START
from tests.factories import ClusterFactory
from tests.services.made_jobs import create_job, cron, value_of

FILE = """
timezone: UTC
jobs:
  Tunnel:
    schedule: "@reboot"
    task: tests.ping
"""


def test_job_waits_without_a_next_run_that_anybody_sees(actor):
    job = create_job(actor, **cron("@Reboot"))

    shown = preview_of(job, clock.now())
    assert (job.status, shown_next_run(job), shown.next_runs) == ("pending", None, [])
    assert (shown.description, shown.waits_for) == ("When the machine starts", "the next start")
    assert services.upcoming(actor, clock.now(), hours=24 * 31) == []
    why = value_of(services.why(actor, job.public_id, None, clock.now()))
    assert (why.verdict, why.explanation) == ("pending", "It waits for the next start.")


def test_job_runs_whatever_the_case_of_its_schedule(actor):
    job = create_job(actor, **cron("@Reboot"))

    engine.note_machine_start(ClusterFactory().pk, clock.now())

    job.refresh_from_db()
    assert job.next_run_at <= clock.now()


def test_edit_to_a_start_and_back_moves_the_next_run(actor):
    job = create_job(actor)

    waiting = value_of(services.edit(actor, job.public_id, cron="@reboot"))
    assert (waiting.status, waiting.next_run_at, waiting.runs_per_minute) == ("pending", UNKNOWN_START, 0)

    timed = value_of(services.edit(actor, job.public_id, cron="0 9 * * *"))
    assert timed.next_run_at == timed.trigger.next_after(clock.now())


def test_cancelled_job_is_restored_and_waits_again(actor):
    job = create_job(actor, **cron("@reboot"))
    value_of(services.cancel(actor, job.public_id))

    restored = value_of(services.restore(actor, job.public_id))

    assert (restored.status, restored.next_run_at) == ("pending", UNKNOWN_START)


def test_file_creates_such_a_job_and_export_writes_it(actor):
    specs, problems = read_jobs([("jobs.yaml", FILE)], "UTC", clock.now())
    value_of(apply_plan(actor, make_plan(actor, "jobs.yaml", specs, clock.now())))

    job = Job.objects.get()
    assert (problems, job.cron, job.next_run_at) == ([], "@reboot", UNKNOWN_START)
    assert "schedule: '@reboot'" in export_jobs(actor, [job])
    again, _ = read_jobs([("jobs.yaml", FILE)], "UTC", clock.now())
    assert make_plan(actor, "jobs.yaml", again, clock.now()).steps == []
