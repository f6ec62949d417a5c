"""Tools that look ahead: preview a schedule, and list the coming runs."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Annotated, Any

from pydantic import Field, StrictBool

from schedules import clock, engine, services
from schedules.mcp import answers
from schedules.mcp.answers.refusals import check, expect
from schedules.mcp.auth import current_actor
from schedules.mcp.tools.arguments import Number, Query, TaskName, Timezone, Whole, read_filter
from schedules.mcp.tools.moments import From, To, read_period
from schedules.mcp.tools.triggers import Config, TriggerType, local_text, read_trigger, zone_notes
from schedules.result import Code, Err, RefusedError, invalid, sentence
from schedules.services.jobs.agenda import MAX_LINES, Line, read_agenda
from schedules.services.jobs.chains import conditions_of
from schedules.services.jobs.forecasts import words_of
from schedules.services.jobs.outlook import USUAL_PERIOD, notes_on, outlook_json, read_outlook
from schedules.services.jobs.validation import interval_problem
from schedules.services.people.preferences import quiet_words
from schedules.when.unplanned import AFTER

MAX_RUNS = 50
# How many runs of a job are compared with quiet hours.
MAX_MOMENTS = 2000
MAX_HOURS = 24 * 31
DEFAULT_PERIOD = timedelta(hours=24)


def preview_schedule(
    trigger_type: TriggerType,
    trigger_config: Annotated[
        Config,
        Field(description="As in schedule_job."),
    ],
    timezone: Timezone = None,
    count: Annotated[Whole | None, Field(description="1 to 50 runs. Default: 5.")] = None,
) -> Any:
    """Describe a schedule in words and list its next runs and warnings; nothing is stored. Use it before you
    create an unusual schedule.
    """
    actor, now = current_actor(), clock.now()
    profile = actor.read_profile()
    zone = timezone if timezone is not None else profile.zone
    number = 5 if count is None else count
    if not 1 <= number <= MAX_RUNS:
        raise RefusedError(invalid("count", f"choose 1 to {MAX_RUNS}"))
    read = read_trigger(trigger_type, trigger_config, zone, now)
    if isinstance(read, Err) and read.code == Code.NEVER_RUNS:
        never = [sentence(read.reasons)]
        return {"description": "Never", "timezone": zone, "next_runs": [], "warnings": never}
    columns = expect(read, timezone=zone)
    check(interval_problem(actor, columns["every"]) if columns["every"] else None)
    shown = expect(services.preview(actor.user.pk, columns, now, number), timezone=zone)
    if not shown.next_runs and not shown.waits_for:
        past = f"the moment is in the past (now {answers.iso(now, zone)})"
        raise RefusedError(invalid("run_at", past))
    notes = zone_notes(profile, timezone, local_text(trigger_type, trigger_config))
    return {
        "description": shown.description,
        "timezone": zone,
        "next_runs": [answers.iso(run, zone) for run in shown.next_runs],
        "warnings": [*shown.warnings, *notes],
    }


def upcoming(
    hours: Annotated[Number | None, Field(description="Hours, up to 744. Default: 24.")] = None,
    from_: From = None,
    to: To = None,
    query: Query = None,
    task: TaskName = None,
    rehearse: Annotated[StrictBool | None, Field(description="With skips, clashes, spend.")] = None,
) -> Any:
    """List the coming runs of a period ("what is on today and tomorrow?"). A job that runs often is one line:
    `at` is the first of its `runs`, `last` the last. For past runs, use list_runs.
    """
    actor, now = current_actor(), clock.now()
    profile = actor.read_profile()
    zone = profile.zone
    if hours is not None and (to is not None or not 0 < hours <= MAX_HOURS):
        why = "give hours or to" if to is not None else f"choose more than 0 and at most {MAX_HOURS}"
        raise RefusedError(invalid("hours", why))
    jobs = read_filter(actor, {"query": query, "task": task})
    since, until = read_period(from_, to, zone, now)
    if hours is not None or until is None:
        default_period = USUAL_PERIOD if rehearse else DEFAULT_PERIOD
        until = (since or now) + (default_period if hours is None else timedelta(hours=hours))
    check(_period_problem(since or now, until, now, zone))
    out: dict[str, Any] = {}
    warnings = [] if answers.is_worker_running() else [answers.NO_WORKER]
    if rehearse:
        outlook = read_outlook(actor, jobs, now, since=since, until=until)
        lines, count = outlook.lines[:MAX_LINES], outlook.count
        details = answers.printable(outlook_json(outlook, zone, MAX_LINES))
        out["rehearsal"] = {name: value for name, value in details.items() if value or name == "left_out"}
        warnings += notes_on(outlook)
    else:
        agenda = read_agenda(actor, jobs, now, since=since, until=until)
        lines, count = list(agenda.lines), agenda.count
        if agenda.is_cut:
            cut = f"Only the first {len(lines)} jobs are listed"
            warnings.append(f"{cut}: ask for a shorter period, or by query or task.")
    warnings += [*_quiet_notes(lines), *zone_notes(profile, None, from_ or to)]
    out |= {"upcoming": coming_out(lines, zone), "count": count, "until": answers.iso(until, zone)}
    if since and since > now:
        out["since"] = answers.iso(since, zone)
    return out | {"warning": " ".join(warnings)} if warnings else out


def _quiet_notes(lines: Sequence[Line]) -> list[str]:
    """Say that notifications among these runs come later, because of quiet hours."""
    quiet = engine.quiet_hours_ahead(line.job for line in lines)
    held = {
        hours.hours
        for line in lines
        if (hours := quiet.get(line.job.pk)) and any(map(hours.until, _moments(line)))
    }
    return [quiet_words(hours) for hours in sorted(held)]


def _moments(line: Line) -> Iterator[datetime]:
    return islice(chain.from_iterable(batch.moments() for batch in line.starts), MAX_MOMENTS)


def _period_problem(start: datetime, until: datetime, now: datetime, zone: str) -> Err | None:
    if until <= now:
        return invalid("to", f"{answers.iso(until, zone)} is past: list_runs lists past runs")
    if until <= start:
        return invalid("to", f"the period ends before it begins at {answers.iso(start, zone)}")
    if until - max(start, now) > timedelta(hours=MAX_HOURS):
        return invalid("to", f"choose at most {MAX_HOURS // 24} days")
    return None


def coming_out(lines: Sequence[Line], zone: str) -> list[dict[str, Any]]:
    """Return lines of the agenda."""
    conditions = conditions_of(line.job for line in lines)
    outs = []
    for line in lines:
        out = {
            "at": answers.iso(line.first, zone),
            "job_id": line.job.public_id,
            "name": answers.line(line.job.name, 200),
            "task": line.job.task,
        }
        if line.count > 1:
            out |= {"runs": line.count, "last": answers.iso(line.last, zone)}
        if line.count > 1 or str(line.job.cron).startswith(AFTER):
            condition = conditions.get(line.job.pk)
            words = words_of(line.job)
            out["description"] = f"Only if {condition}: {words}" if condition else words
        outs.append(out)
    return outs
