"""Tools for prompts: schedule them for an agent, and claim and complete the ones that are due."""

from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any

from pydantic import Field

from schedules import clock, limits, services
from schedules.mcp import answers
from schedules.mcp.answers.prompts import (
    ClaimOut,
    CompleteOut,
    edited_text,
    line_rows,
    not_editable_text,
    prompt_out,
    scheduled_text,
    task_lines,
)
from schedules.mcp.answers.refusals import RefusedCallError, expect
from schedules.mcp.auth import current_actor
from schedules.mcp.tools.arguments import (
    IdempotencyKey,
    Number,
    TaskId,
    Timezone,
    Whole,
    derived_name,
    name_of_job,
    options,
)
from schedules.mcp.tools.moments import read_end, read_moment
from schedules.mcp.tools.triggers import create, once, zone_notes
from schedules.models import Job
from schedules.models.counting import count_words
from schedules.result import Code, Err, Ok
from schedules.services.jobs.prompt_list import find_prompt, read_prompts
from schedules.when.forecast import start_of_day
from schedules.when.phrases import PhraseError, parse_day
from schedules.when.triggers import TriggerError, load_zone

MAX_LINES = 100
# How many tasks beyond the listed ones are counted.
MAX_COUNTED = 1_000

At = Annotated[
    str,
    Field(description="Like tomorrow at 9am, in 20 minutes or 2026-02-04T15:00, in timezone."),
]


def schedule(
    at: At,
    prompt: Annotated[
        str, Field(description="Complete instructions: the agent will not see this conversation.")
    ],
    timezone: Timezone = None,
    idempotency_key: IdempotencyKey = None,
    **policies: Annotated[Any, options("attempts", "backoff", "catch_up", "timeout")],
) -> str:
    """Give an agent a prompt once, later ("check the build at 6pm"). Ask for an unknown zone; report the time. For a reminder on the user's
    phone, use schedule_notification. To repeat a prompt, use schedule_job with task "prompt" and kwargs
    {"prompt": "…"}.
    """
    actor = current_actor()
    profile = actor.read_profile()
    zone = timezone if timezone is not None else profile.zone
    made = create(
        once(read_moment(at, zone, clock.now(), "at"), zone),
        policies,
        zone,
        profile=profile,
        prefix="tsk",
        idempotency_key=idempotency_key,
        request={"tool": "schedule", "at": at, "prompt": prompt, "timezone": timezone, **policies},
        name=derived_name("prompt", {"prompt": prompt}),
        task="prompt",
        kwargs={"prompt": prompt},
    )
    return scheduled_text(expect(made, timezone=zone), *zone_notes(profile, timezone, at))


def schedule_list(
    status: Annotated[
        str | None,
        Field(
            description="State of the task. Default: pending.",
            json_schema_extra={"enum": [*Job.Status.values, None]},
        ),
    ] = "pending",
    from_: Annotated[
        str | None, Field(alias="from", description="Earliest date or time, like 2026-02-04.")
    ] = None,
    to: Annotated[str | None, Field(description="Latest date, with its whole day, or time.")] = None,
) -> str:
    """List prompts in the order they fire, one per line: number, time, status, start of the prompt. schedule_edit and schedule_cancel take the number. `from` and `to` are in the user's zone."""
    actor = current_actor()
    state = "pending" if status is None else status
    if state not in Job.Status.values:
        return f'Error: unknown status "{answers.line(state, 100)}".'
    bounds: dict[str, datetime] = {}
    for bound, text in (("start", from_), ("end", to)):
        if text is None:
            continue
        moment = _read_bound(text, actor.read_profile().zone, is_end=bound == "end")
        if moment is None:
            return f'Error: could not parse "{answers.line(text, 100)}" as a date.'
        bounds[bound] = moment
    page = read_prompts(actor, state, line_rows, MAX_LINES + 1, **bounds)
    if not page.rows:
        return "No scheduled tasks found matching filters."
    lines = task_lines(page.rows[:MAX_LINES], state)
    if len(page.rows) > MAX_LINES:
        count = page.count(MAX_LINES + MAX_COUNTED)
        lines.append(
            f"… and {count_words(count - MAX_LINES, MAX_COUNTED)} more: narrow the list with from and to."
        )
    return "\n".join(lines)


def schedule_edit(
    id: TaskId,  # noqa: A002  (the name in the contract)
    at: Annotated[
        str | None,
        Field(description="The new time, in the task's own zone."),
    ] = None,
    prompt: Annotated[str | None, Field(description="The new prompt.")] = None,
) -> str:
    """Change the time or the text of a pending prompt that runs once. For one that repeats, use update_job."""
    actor = current_actor()
    if at is None and prompt is None:
        return "Error: provide at least one of 'at' or 'prompt' to edit."
    job = expect(find_prompt(actor, id))
    if job is None or job.status != Job.Status.PENDING:
        return not_editable_text(id, job, "edited")
    changes: dict[str, Any] = {}
    if at is not None:
        moment = expect(read_moment(at, job.timezone, clock.now(), "at"))
        if job.trigger_type != Job.TriggerType.ONCE:
            return (
                f"Error: task #{job.pk} repeats; use update_job with {job.public_id} to change its schedule."
            )
        changes["run_at"] = moment
    if prompt is not None:
        changes |= {"args": [], "kwargs": {"prompt": prompt}}
        # Keep a name that the user chose.
        if job.name == name_of_job(job):
            changes["name"] = derived_name("prompt", {"prompt": prompt})
    # The revision makes this one conditional UPDATE: whoever changed or claimed the task first wins.
    match services.edit(actor, job.public_id, seen=job, **changes):
        case Ok(changed):
            return edited_text(changed, at, prompt)
        case Err(code=Code.INVALID) as error:
            raise RefusedCallError(error, {"timezone": job.timezone})
        case _:
            return not_editable_text(id, job, "edited")


def schedule_cancel(id: TaskId) -> str:  # noqa: A002  (the name in the contract)
    """Cancel a pending prompt, so that it never reaches an agent. restore_job undoes this."""
    actor = current_actor()
    job = expect(find_prompt(actor, id))
    if job and isinstance(services.cancel(actor, job.public_id, only=(Job.Status.PENDING,)), Ok):
        return f"Cancelled task #{job.pk}."
    return not_editable_text(id, job, "cancelled")


def claim_prompts(
    limit: Annotated[Whole | None, Field(description="1 to 20 prompts. Default: 1.")] = None,
    lease_minutes: Annotated[
        Number | None, Field(description="For how long, 1 to 1440. Default: 15.")
    ] = None,
) -> ClaimOut:
    """Take prompts that are due, to work on them; for agents that run on their own. Do what each asks, then call complete_prompt before lease_until: after that, another agent may take it."""
    actor = current_actor()
    minutes = 15.0 if lease_minutes is None else lease_minutes
    # The service refuses a lease that is too long; this only avoids an overflow.
    lease = timedelta(minutes=minutes) if 0 <= minutes <= 10**6 else timedelta(0)
    rows = expect(services.claim_prompts(actor, limit=1 if limit is None else limit, lease=lease))
    zone = actor.read_profile().zone
    return {"prompts": [prompt_out(row, zone) for row in rows]}


def complete_prompt(
    execution_id: Annotated[Whole, Field(description="From claim_prompts.")],
    result: Annotated[Any, Field(description="For the user to read, as text or JSON.")] = None,
    error: Annotated[str | None, Field(description="Why it could not be carried out.")] = None,
) -> CompleteOut:
    """Report a claimed prompt as done, or as failed with an error. Call this once, before the lease ends."""
    row = expect(services.complete_prompt(current_actor(), execution_id, result=result, error=error))
    return {"completed": True, "execution_id": execution_id, "status": row.status}


def _read_bound(text: str, zone: str, *, is_end: bool) -> datetime | None:
    """Read a filter's date or time; a date alone means its first or last moment."""
    try:
        day = date.fromisoformat(text.strip())
    except ValueError:
        now = clock.now()
        if not is_end:
            with suppress(PhraseError, TriggerError):
                return start_of_day(parse_day(text, now=now, timezone=zone), zone)
        bound = (
            read_end(text, zone, now, "date")
            if is_end
            else read_moment(text, zone, now, "date", has_horizon=False)
        )
        return bound.value if isinstance(bound, Ok) else None
    moment = datetime.combine(day, time.max if is_end else time.min, tzinfo=load_zone(zone))
    if limits.moment_problem(moment) is None:
        return moment
    # In another zone, the first and the last day of the calendar would overflow.
    return moment.replace(tzinfo=UTC)
