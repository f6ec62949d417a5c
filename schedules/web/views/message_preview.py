"""The preview of a notification with placeholders, in the form of a job."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from schedules.services.jobs.forecasts import Preview
from schedules.tasks.argument_types import template_problems
from schedules.tasks.placeholders import NOTIFICATION, fill_in
from schedules.tasks.run_facts import TEXTS, facts_of, has_name

UNKNOWN_JOB = "job_…"


class MessagePreview(NamedTuple):
    """The texts of a notification as of its next run, and what is wrong with them."""

    title: str
    message: str
    at: datetime
    timezone: str
    problems: list[str]


def preview_message(
    typed: Mapping[str, str], shown: Preview | None, now: datetime, job_id: str = ""
) -> MessagePreview | None:
    """Fill in the placeholders of the typed texts for the next run, or return None if there are none."""
    texts = {name: typed.get(f"{NOTIFICATION}-{name}", "") for name in TEXTS}
    if not any(map(has_name, texts.values())):
        return None
    at = shown.next_runs[0] if shown and shown.next_runs else now
    zone = shown.timezone if shown else "UTC"
    facts = facts_of(
        job_id=job_id or UNKNOWN_JOB,
        job_name=typed.get("name", ""),
        scheduled_for=at,
        timezone=zone,
        attempt=1,
    )
    title, message = (fill_in(texts[name], facts, task=NOTIFICATION) for name in ("title", "message"))
    problems = [problem.partition(": ")[2] for problem in template_problems(texts)]
    return MessagePreview(title, message, at, zone, problems)
