"""Services: everything that people and agents can do; only this package changes jobs on their behalf."""

from schedules.services.access import end_access, ends_sessions
from schedules.services.actors import Actor
from schedules.services.duplicates import Scheduled
from schedules.services.explanations import Why, why
from schedules.services.job_edits import edit
from schedules.services.job_runs import run_now, skip, stop_run
from schedules.services.job_states import (
    cancel,
    delete,
    is_protected,
    pause,
    pause_active,
    pause_again,
    restore,
    resume,
    waits_for_agent,
)
from schedules.services.jobs import schedule, schedule_many
from schedules.services.lookalikes import look_alike
from schedules.services.outputs import OutputPart, output_since
from schedules.services.people import profile_of, update_profile
from schedules.services.preferences import set_preferences
from schedules.services.prompts import (
    claim_prompts,
    complete_prompt,
    dismiss_prompt,
    release_prompt,
    unclaimed_jobs,
)
from schedules.services.pushes import begin_push, end_push
from schedules.services.reading import Preview, preview, upcoming
from schedules.services.signatures import rotate_signing_key, signing_keys_of
from schedules.services.tokens import IssuedToken, issue_token, revoke_token, rotate_token, verify_token

__all__ = [
    "Actor",
    "IssuedToken",
    "OutputPart",
    "Preview",
    "Scheduled",
    "Why",
    "begin_push",
    "cancel",
    "claim_prompts",
    "complete_prompt",
    "delete",
    "dismiss_prompt",
    "edit",
    "end_access",
    "end_push",
    "ends_sessions",
    "is_protected",
    "issue_token",
    "look_alike",
    "output_since",
    "pause",
    "pause_active",
    "pause_again",
    "preview",
    "profile_of",
    "release_prompt",
    "restore",
    "resume",
    "revoke_token",
    "rotate_signing_key",
    "rotate_token",
    "run_now",
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
    "waits_for_agent",
    "why",
]
