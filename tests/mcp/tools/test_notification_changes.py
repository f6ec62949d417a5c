"""Pausing, resuming and deleting scheduled notifications."""

from datetime import timedelta

from django.db import OperationalError, connection

from schedules import clock, services
from schedules.models import Execution
from tests.factories import ExecutionFactory, JobFactory


def test_pause_and_resume_are_repeatable(olga, agent):
    schedule_id = olga.call(
        "schedule_cron_notification",
        message="Water the plants",
        notification_topic="olga-home",
        cron="0 9 * * *",
        timezone="Europe/Berlin",
    )["schedule_id"]

    for _ in range(2):
        assert olga.call("pause_schedule", schedule_id=schedule_id) == {
            "success": True,
            "schedule_id": schedule_id,
            "paused": True,
            "confirmation": f"Schedule {schedule_id} paused successfully",
        }
    for _ in range(2):
        assert olga.call("resume_schedule", schedule_id=schedule_id)["paused"] is False
    services.cancel(agent, schedule_id)
    for tool in ("pause_schedule", "resume_schedule"):
        assert olga.call(tool, schedule_id=schedule_id) == {
            "success": False,
            "schedule_id": schedule_id,
            "error": f"Schedule already cancelled: {schedule_id}",
        }


def test_deleted_schedule_disappears_but_its_executions_are_kept(call, owner):
    job = JobFactory(owner=owner, task="notify")
    ExecutionFactory(job=job, scheduled_for=clock.now() - timedelta(days=1))

    call("delete_schedule", schedule_id=job.public_id)

    assert call("delete_schedule", schedule_id=job.public_id)["success"] is False
    assert call("job_status", job_id=job.public_id)["deleted"].startswith("Deleted on ")
    assert call("list_jobs")["total"] == 0
    assert Execution.objects.count() == 1


def test_delete_during_a_database_outage_does_not_claim_that_nothing_changed(call):
    def fail(*args):
        raise OperationalError("SELECT secrets FROM /var/lib")

    with connection.execute_wrapper(fail):
        answer = call("delete_schedule", schedule_id="scd_1")

    assert answer == {
        "success": False,
        "schedule_id": "scd_1",
        "error": "Failed to delete schedule: the database did not answer, so this may or may not have been done: "
        "look before you repeat it.",
    }
