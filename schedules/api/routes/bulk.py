"""Routes of many jobs: bulk changes, pauses of everything, undo, and files of jobs."""

from ninja import Router

from schedules.api.endpoints import route
from schedules.api.schemas.jobs import WholeJobOut
from schedules.api.schemas.many import (
    ApplyIn,
    ApplyOut,
    BulkIn,
    BulkOut,
    ChangedTogetherOut,
    ChecksIn,
    ChecksOut,
    DocumentIn,
    DocumentOut,
    ExportFilter,
    ExportOut,
    PauseAllIn,
    UndoIn,
    UndoOut,
)
from schedules.services.files import operations as files
from schedules.services.jobs import many, pause_all

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
