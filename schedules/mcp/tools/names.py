"""Names that the tools derive from the arguments of a job, if the caller gives none."""

from schedules.mcp import answers
from schedules.models import Job

LENGTH = 80


def derived_name(job: Job) -> str | None:
    """Return the name that a job of these arguments gets by itself, or None if its caller must name it."""
    match job.task:
        case "notify":
            text = job.label or job.argument("title") or job.argument("message")
            return answers.line(str(text or ""), LENGTH) or "Notification"
        case "prompt":
            return answers.line(str(job.argument("prompt") or ""), LENGTH) or "Prompt"
    return None
