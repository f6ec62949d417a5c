"""Schemas of changes of many jobs, undo, and files of jobs."""

from typing import Literal

from ninja import Router
from pydantic import ConfigDict, Field

from schedules.api.common import Filter, Input, Moment, Outcome, Output, Phrase, Text, Zone
from schedules.api.endpoints import route
from schedules.api.jobs import JobOut, NamedJob, Status, WholeJobOut
from schedules.services.files import operations as files
from schedules.services.jobs import many, pause_all


class BulkIn(Input):
    """What to do, and to which jobs."""

    action: Literal["pause", "resume", "cancel", "delete", "update"]
    query: Text = ""
    status: Status | None = None
    tag: Text = Field("", examples=["home"])
    task: Text = ""
    outcome: Outcome | None = None
    since: Text = ""
    until: Phrase | None = Field(None, description='The end of a pause, like "monday".')
    reason: Text = ""
    at_time: Phrase | None = Field(
        None, description="Of an update: only jobs at this time of day, like 8:30."
    )
    in_timezone: Zone | None = Field(None, description="Of an update: only jobs in this zone.")
    shift: Phrase | None = Field(None, description="Later by 30m, earlier by -1h.")
    time: Phrase | None = Field(None, description="The new time of day, HH:MM.")
    timezone: Zone | None = Field(None, description="The new zone.")
    add_tags: list[Text] | None = Field(None, max_length=20)
    remove_tags: list[Text] | None = Field(None, max_length=20)
    topic: Phrase | None = Field(None, description="The new topic of notifications.")
    starting: Phrase | None = Field(None, description="When to update, like 2030-12-01. Default: now.")
    confirm: Text | None = Field(None, description="From the first answer.")

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"action": "pause", "tag": "home", "until": "monday"},
                {"action": "update", "at_time": "8:30", "shift": "30m"},
            ]
        }
    )


class UndoIn(Input):
    """Which change to undo; without a number, the last call of this token."""

    change: int | None = Field(None, ge=1, le=2**63 - 1)


class FileIn(Input):
    """One of several files; its name is that of places in refusals."""

    name: str = Field(max_length=1000)
    text: str


class ApplyIn(Input):
    """A file of jobs, as YAML or JSON."""

    source: Phrase = Field(description="The name that jobs remember.", examples=["jobs.yaml"])
    text: str = ""
    files: list[FileIn] = Field(
        default_factory=list, max_length=1000, description="Instead of `text`: all files of a folder."
    )
    timezone: Zone | None = None
    prune: bool = Field(False, description="Delete jobs that the file once described and no longer does.")
    at_once: bool = Field(False, description="Apply it without a plan that was shown before.")
    confirm: Text | None = Field(None, description="From the first answer.")

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "source": "jobs.yaml",
                    "text": "jobs:\n  stand-up:\n    schedule: every weekday at 8:30\n    task: notify\n"
                    "    arguments: {message: Stand up, topic: my-phone}\n",
                }
            ]
        }
    )


class RefusedJob(NamedJob):
    """A job that was left as it is, with the reason."""

    why: str


class ChangedJob(NamedJob):
    """A job, and what an update changes in it, as "old → new"."""

    change: str | None = None


class BulkOut(Output):
    """The jobs that would be changed, with the token that confirms it, or those that were, with the change to undo.

    An update also says which jobs stay as they are. With `starting`, the job `updated_by` makes the changes then.
    """

    is_done: bool
    count: int
    jobs: list[ChangedJob]
    unmoved: list[RefusedJob] = Field(default_factory=list)
    confirm: str | None = None
    undo: int | None = None
    paused_until: Moment | None = None
    note: str = Field("", description="What else to know: what stays as it is, or goes on.")
    starting: Moment | None = None
    updated_by: str | None = None


class UndoOut(Output):
    """The jobs as they are again, and those that have changed since."""

    jobs: list[NamedJob]
    refused: list[RefusedJob]


class DifferenceOut(Output):
    """A field that changes."""

    field: str
    before: str
    after: str


class StepOut(Output):
    """What a plan does with one job."""

    action: Literal["create", "change", "delete"]
    key: str
    id: str
    changes: list[DifferenceOut]
    notes: list[str] = Field(description="What it does besides these changes.")
    adopted: bool
    restored: bool
    warnings: list[str]


class ApplyOut(Output):
    """A plan, and whether it was executed."""

    source: str
    unchanged: int
    left_out: list[str]
    unlisted: list[str]
    steps: list[StepOut]
    applied: bool
    confirm: str | None


class PauseAllIn(Input):
    """Until when everything is paused."""

    until: Phrase | None = Field(
        None,
        description='A time or a phrase like "monday", in the zone of the owner. Default: until resumed.',
    )


class RefusalOut(Output):
    """Why a job was left as it is."""

    why: str
    code: str


class ChangedTogetherOut(Output):
    """The jobs that were paused or resumed together, and why others were not."""

    jobs: list[JobOut]
    refused: list[RefusalOut]
    note: str = Field(description="What a pause of everything does not stop.")


class ChecksIn(Input):
    """What healthchecks answers at /api/v3/checks/ to a full key."""

    text: str
    ping_key: Phrase | None = Field(None, description="The key of the project, for addresses with names.")
    replace_ping_key: bool = Field(
        False, description="Replace the ping key of the owner by that of the file."
    )
    source: Phrase = Field("healthchecks", description="The name that jobs remember.")
    prune: bool = Field(False, description="Delete jobs taken over before whose checks are gone.")
    confirm: Text | None = Field(None, description="From the first answer.")


class CheckOut(Output):
    """A check that becomes a heartbeat with the same UUID."""

    id: str
    name: str
    schedule: str
    timezone: str
    grace: str


class LeftOutCheck(Output):
    """A check that is not taken over, and why."""

    name: str
    reason: str


class ChecksOut(ApplyOut):
    """The plan of an import, and what cannot be taken over."""

    left_out: list[LeftOutCheck]  # type: ignore[assignment]
    never_run: list[str]
    checks: list[CheckOut]
    takes_ping_key: bool
    has_more: bool = Field(description="Whether checks have integrations or rules, which are not taken over.")


class ExportFilter(Filter):
    """Which jobs to write to a file; without any, all active ones."""

    source: str | None = Field(
        None, max_length=200, description="Only jobs that this file or folder describes."
    )
    job: list[str] = Field(
        default_factory=list, max_length=200, description="Only this job; for several, again."
    )


class ExportOut(Output):
    """A file of jobs."""

    jobs: int
    text: str


class DocumentOut(Output):
    """The document of one job, to be edited."""

    id: str
    revision: int
    text: str


class DocumentIn(Input):
    """The edited document of one job."""

    text: str
    name: str = Field("text", max_length=1000, description="The name of the file, in places of refusals.")
    revision: int | None = Field(
        None, description="That of the document, to refuse a job that changed since."
    )


router = Router(tags=["many jobs"])


route(router, "POST /bulk", many.change_jobs, BulkOut, body=BulkIn)
route(router, "POST /undo", many.undo_change, UndoOut, body=UndoIn, is_optional=True)
route(router, "POST /pause", pause_all.pause_all, ChangedTogetherOut, body=PauseAllIn, is_optional=True)
route(router, "POST /resume", pause_all.resume_all, ChangedTogetherOut)
route(router, "POST /apply", files.apply_file, ApplyOut, body=ApplyIn)
route(router, "POST /import/healthchecks", files.import_checks, ChecksOut, body=ChecksIn)
route(router, "GET /export", files.export_jobs, ExportOut, query=ExportFilter)
route(router, "GET /jobs/{job}/document", files.show_document, DocumentOut)
route(router, "PUT /jobs/{job}/document", files.change_by_document, WholeJobOut, body=DocumentIn)
