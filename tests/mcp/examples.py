"""One valid call of every tool, on a job of the caller, in an order in which all of them succeed."""

from typing import Any

from schedules.models import Execution, Job

CRON = {"trigger_type": "cron", "trigger_config": {"expression": "0 9 * * *"}}
NOTE = {"message": "Hello", "notification_topic": "topic"}


def examples(job: Job, prompt: Job, waiting: Execution) -> dict[str, dict[str, Any]]:
    by_id = {"job_id": job.public_id}
    schedule = {"schedule_id": job.public_id}
    return {
        "schedule_job": {"name": "New", "task": "tests.ping", **CRON},
        "list_jobs": {},
        "job_status": by_id,
        "schedule": {"at": "in 1 hour", "prompt": "Look"},
        "schedule_list": {},
        "schedule_edit": {"id": prompt.pk, "prompt": "Other"},
        "schedule_cancel": {"id": prompt.pk},
        "claim_prompts": {},
        "complete_prompt": {"execution_id": waiting.pk, "result": "done"},
        "send_push_notification": NOTE,
        "schedule_notification": {**NOTE, "delay": "1h"},
        "schedule_cron_notification": {**NOTE, "cron": "0 9 * * *", "timezone": "UTC"},
        "list_scheduled_notifications": {},
        "pause_schedule": schedule,
        "resume_schedule": schedule,
        "get_current_time": {},
        "preview_schedule": CRON,
        "update_job": {**by_id, "name": "Renamed"},
        "copy_job": by_id,
        "undo_change": {},
        "pause_job": by_id,
        "resume_job": by_id,
        "skip_runs": by_id,
        "run_job": by_id,
        "run_task": {"task": "tests.ping"},
        "upcoming": {},
        "list_runs": by_id,
        "list_changes": by_id,
        "why": by_id,
        "bulk_jobs": {"action": "pause", "query": "nothing like this"},
        "cancel_job": by_id,
        "restore_job": by_id,
        "delete_schedule": schedule,
        "stop_agents": {},
        "get_preferences": {},
        "set_preferences": {"topic": "topic"},
    }
