"""Services: everything that people and agents can do; only this package changes jobs for them."""

from schedules.services.jobs.addresses import rotate_signing_key, signing_keys_of
from schedules.services.jobs.chains import upcoming
from schedules.services.jobs.creation import Scheduled, look_alike, schedule, schedule_many
from schedules.services.jobs.edits import edit
from schedules.services.jobs.forecasts import Preview
from schedules.services.jobs.proposals import confirm
from schedules.services.jobs.schedule_texts import preview
from schedules.services.jobs.states import (
    cancel,
    delete,
    is_protected,
    pause,
    pause_active,
    restore,
    resume,
)
from schedules.services.people.access import end_access, ends_sessions
from schedules.services.people.preferences import other_zones, set_preferences, update_profile
from schedules.services.people.profiles import profile_of
from schedules.services.people.tokens import (
    IssuedToken,
    issue_token,
    revoke_token,
    rotate_token,
    verify_token,
)
from schedules.services.permissions import Actor
from schedules.services.runs.actions import begin_push, end_push, run_now, run_task, skip, stop_run
from schedules.services.runs.answers import answer
from schedules.services.runs.explanations import Why, why
from schedules.services.runs.outputs import OutputPart, output_since
from schedules.services.runs.prompts import (
    claim_prompts,
    complete_prompt,
    dismiss_prompt,
    jobs_yet_to_start,
    release_prompt,
    unclaimed_jobs,
)

__all__ = [
    "Actor",
    "IssuedToken",
    "OutputPart",
    "Preview",
    "Scheduled",
    "Why",
    "answer",
    "begin_push",
    "cancel",
    "claim_prompts",
    "complete_prompt",
    "confirm",
    "delete",
    "dismiss_prompt",
    "edit",
    "end_access",
    "end_push",
    "ends_sessions",
    "is_protected",
    "issue_token",
    "jobs_yet_to_start",
    "look_alike",
    "other_zones",
    "output_since",
    "pause",
    "pause_active",
    "preview",
    "profile_of",
    "release_prompt",
    "restore",
    "resume",
    "revoke_token",
    "rotate_signing_key",
    "rotate_token",
    "run_now",
    "run_task",
    "schedule",
    "schedule_many",
    "set_preferences",
    "signing_keys_of",
    "skip",
    "stop_run",
    "unclaimed_jobs",
    "upcoming",
    "update_profile",
    "verify_token",
    "why",
]
