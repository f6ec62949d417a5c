"""Routes of jobs: list, show, create and change, and all actions on one job."""

from functools import partial

from ninja import Router

from schedules.api.endpoints import route
from schedules.api.schemas.jobs import (
    JobChange,
    JobFilters,
    JobsOut,
    NewJob,
    NewJobOut,
    Pause,
    ReminderAnswer,
    ShownJobOut,
    Skip,
    TriggerIn,
    TriggerOut,
    WholeJobOut,
)
from schedules.api.schemas.runs import RunOut, WhyFilter, WhyOut
from schedules.services.jobs import operations
from schedules.services.listing import list_jobs

router = Router(tags=["jobs"])
_declare = partial(route, router)

_declare("GET ", list_jobs, JobsOut, query=JobFilters)
_declare("POST ", operations.create_job, NewJobOut, body=NewJob, status=201, location="jobs/{id}")
_declare("GET /{job}", operations.show_job, ShownJobOut)
_declare("PATCH /{job}", operations.change_job, WholeJobOut, body=JobChange, match="required")
_declare("DELETE /{job}", operations.delete_job, None, match="optional")
_declare("POST /{job}/pause", operations.pause_job, WholeJobOut, body=Pause, is_optional=True)
_declare("POST /{job}/resume", operations.resume_job, WholeJobOut)
_declare("POST /{job}/confirm", operations.confirm_job, WholeJobOut, match="optional")
_declare("POST /{job}/cancel", operations.cancel_job, WholeJobOut)
_declare("POST /{job}/restore", operations.restore_job, WholeJobOut)
_declare("POST /{job}/skip", operations.skip_runs, WholeJobOut, body=Skip, is_optional=True)
_declare("POST /{job}/answer", operations.answer_reminder, WholeJobOut, body=ReminderAnswer)
_declare("POST /{job}/run", operations.run_job, RunOut, status=202, location="runs/{run}")
_declare(
    "POST /{job}/trigger",
    operations.open_trigger,
    TriggerOut,
    body=TriggerIn,
    is_optional=True,
    status=201,
    repeatable=False,
)
_declare("DELETE /{job}/trigger", operations.close_trigger, None)
_declare("GET /{job}/why", operations.explain_run, WhyOut, query=WhyFilter)
