"""Resources that an agent can read and subscribe to."""

import functools
import json
from collections.abc import Callable
from typing import Any
from zoneinfo import available_timezones

from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
from mcp.shared.uri_template import UriTemplate
from mcp_types import INVALID_REQUEST, Completion

from schedules import clock, limits, services
from schedules.mcp import answers
from schedules.mcp.answers.jobs import status_out
from schedules.mcp.apps import PAGES
from schedules.mcp.auth import current_actor, orm, read_access
from schedules.mcp.tools.notifications import list_scheduled_notifications
from schedules.mcp.tools.reading import coming_out
from schedules.result import Err
from schedules.services.documents import approval_json
from schedules.services.job_list import JobQuery, newest_jobs
from schedules.services.jobs.agenda import read_agenda
from schedules.services.jobs.references import public_id_of
from schedules.services.jobs.validation import usable_tasks
from schedules.services.runs.approvals import permission_words
from schedules.services.waiting_list import Request, answered_requests, waiting_requests
from schedules.tasks.links import page_of_job
from schedules.tasks.registry import Task
from schedules.when.periods import parse_period
from schedules.when.triggers import TriggerError, load_zone

MAX_TEXT_LENGTH = 2000
# The protocol's limit on the values of one answer.
MAX_COMPLETIONS = 100
# Only the newest jobs are searched for completions, because a person may have any number of jobs.
SEARCHED_JOBS = 1000
CRON_EXAMPLES = {
    "*/15 * * * *": "every 15 minutes",
    "0 * * * *": "every hour, on the hour",
    "0 9 * * *": "every day at 9:00",
    "30 8 * * 1-5": "Monday to Friday at 8:30",
    "0 18 * * FRI": "every Friday at 18:00",
    "0 9,17 * * *": "every day at 9:00 and 17:00",
    "0 9 1 * *": "the first day of every month at 9:00",
    "0 9 L * *": "the last day of every month at 9:00",
    "0 9 * * MON#1": "the first Monday of every month at 9:00",
    "0 9 1 1,4,7,10 *": "the first day of every quarter at 9:00",
    "0 0 25 12 *": "25 December at 0:00",
    "@daily": "every day at 0:00",
}


def add_resources(server: MCPServer[Any]) -> None:
    """Register the resources, and the completions of what their templates name."""
    for uri, function, title, description in RESOURCES:
        register = server.resource(uri, title=title, description=description, mime_type="application/json")
        register(orm(_guarded(function)))

    async def complete(ref: Any, argument: Any, context: Any) -> Completion:
        return await orm(_completion)(argument.name, argument.value)

    server.completion()(complete)  # type: ignore[no-untyped-call]


def cron_examples() -> str:
    return _json(CRON_EXAMPLES)


def valid_timezones() -> str:
    return _json(sorted(filter(is_zone, available_timezones())))


def registered_tasks() -> str:
    return _json([_task_out(task) for task in usable_tasks(current_actor())])


def one_task(task: str) -> str:
    match = next((each for each in usable_tasks(current_actor()) if each.name == task), None)
    if match is None:
        raise ResourceNotFoundError(f"Task not found: {answers.line(task, 200)}")
    return _json(_task_out(match))


def time_in_zone(zone: str) -> str:
    if not is_zone(zone):
        raise ResourceNotFoundError(f"Time zone not found: {answers.line(zone, 200)}")
    return _json({"timezone": zone, "time": answers.iso(clock.now(), zone)})


def agenda_today() -> str:
    actor, now = current_actor(), clock.now()
    zone = actor.read_profile().zone
    end = parse_period("today", now=now, timezone=zone).end
    agenda = read_agenda(actor, JobQuery(), now, until=end)
    return _json(
        {
            "date": answers.iso(now, zone)[:10],
            "timezone": zone,
            "agenda": coming_out(agenda.lines, zone),
            "is_complete": not agenda.is_cut,
        }
    )


def waiting_for_person() -> str:
    actor = current_actor()
    zone = actor.read_profile().zone
    waiting, has_more = waiting_requests(actor)
    answered = answered_requests(actor, clock.now())
    return _json(
        {
            "timezone": zone,
            "waiting": [_request_out(request, zone) for request in waiting],
            "is_complete": not has_more,
            "answered": [_request_out(request, zone) for request in answered],
            "note": "Only a person answers: jobs on their page, calls and questions in the inbox or by the link of an alert.",
        }
    )


def _request_out(request: Request, zone: str) -> dict[str, Any]:
    """Return what waits for a person, or their answer; texts of agents and people are data."""
    job, approval = request.job, request.approval
    out: dict[str, Any] = {"kind": "job", "page": page_of_job(job.public_id)}
    if approval:
        out = approval_json(approval) | {"reply": limits.shortened(approval.reply, MAX_TEXT_LENGTH) or None}
        out["about_permission"] = permission_words(approval) or None
        out["question"] = limits.shortened(approval.question, MAX_TEXT_LENGTH)
    out |= {"job_id": job.public_id, "name": job.name, "by": request.by}
    out["since"] = answers.iso(request.asked_at, zone)
    if request.answered_at:
        out |= {"answer": request.answer, "answered_at": answers.iso(request.answered_at, zone)}
    return dict(answers.printable(out))


def schedules_of_topic(topic: str) -> str:
    return _json(list_scheduled_notifications(topic))


def job_resource(job_id: str) -> str:
    actor = current_actor()
    job = actor.job(_job_id(actor, job_id))
    if job is None:
        raise ResourceNotFoundError(f"Job not found: {answers.line(job_id, 200)}")
    return _json(status_out(job))


def _job_id(actor: services.Actor, reference: str) -> str:
    job_id = public_id_of(actor.jobs(), reference)
    if isinstance(job_id, Err):
        raise ResourceNotFoundError(job_id.text)
    return job_id.value


RESOURCES: list[tuple[str, Callable[..., str], str, str]] = [
    ("cron://examples", cron_examples, "Cron examples", "Common cron expressions and what they mean."),
    ("timezones://valid", valid_timezones, "Time zones", "All valid IANA time zone names."),
    (
        "tasks://registered",
        registered_tasks,
        "Tasks",
        "The tasks that jobs can run, with their argument schemas.",
    ),
    ("tasks://{task}", one_task, "A task", "What one task does, and the schema of its arguments."),
    ("timezones://{+zone}", time_in_zone, "A time zone", "The time in one IANA zone, and its offset."),
    ("agenda://today", agenda_today, "Agenda", "The runs in the rest of the user's day."),
    (
        "waiting://person",
        waiting_for_person,
        "Waiting for a person",
        "Questions and calls of the user's agents and proposed jobs that wait for a person, and the last answers.",
    ),
    (
        "schedules://{topic}",
        schedules_of_topic,
        "Schedules of a topic",
        "Scheduled notifications of one ntfy topic.",
    ),
    (
        "jobs://{job_id}",
        job_resource,
        "A job",
        "Everything about one job. Subscribe to be notified of changes.",
    ),
]
_TEMPLATES = [(UriTemplate.parse(uri), function) for uri, function, *_ in RESOURCES]


def polled_address(actor: services.Actor, uri: str) -> str:
    """Return the address to poll for a resource, a job's with its id; raise ResourceNotFoundError if there is none."""
    if uri in PAGES:
        return uri
    for template, function in _TEMPLATES:
        match = template.match(uri)
        if match is not None:
            return f"jobs://{_job_id(actor, str(match['job_id']))}" if function is job_resource else uri
    raise ResourceNotFoundError(f"No resource to subscribe to: {answers.line(uri, 200)}")


def _task_out(task: Task) -> dict[str, Any]:
    return {"name": task.name, "description": task.description, "arguments": task.schema}


def _guarded(function: Callable[..., str]) -> Callable[..., str]:
    """Check scope, call rate and user before reading."""

    @functools.wraps(function)
    def read(*args: Any, **kwargs: Any) -> str:
        try:
            with read_access():
                return function(*args, **kwargs)
        except ToolError as error:
            raise ResourceError(str(error)) from error

    return read


def is_zone(name: str) -> bool:
    """Return whether jobs can use this time zone."""
    try:
        load_zone(name)
    except TriggerError:
        return False
    return True


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _completion(name: str, text: str) -> Completion:
    try:
        with read_access() as caller:
            values = completions_of(caller.actor, name, text)
    except ToolError as error:
        raise MCPError(code=INVALID_REQUEST, message=str(error)) from error
    return Completion(
        values=values[:MAX_COMPLETIONS], total=len(values), has_more=len(values) > MAX_COMPLETIONS
    )


def completions_of(actor: services.Actor, name: str, text: str) -> list[str]:
    """Return the job ids, topics, zones or tasks that match a text, for clients that fill in a template."""
    fragment = text.strip().casefold()
    match name:
        case "job_id":
            rows = newest_jobs(actor, "public_id", "name", limit=SEARCHED_JOBS)
            return [key for key, words in rows if key.startswith(text) or fragment in words.casefold()]
        # Whoever knows a topic can read and write it.
        case "topic" if actor.may_use("notify"):
            profile = actor.read_profile()
            rows = newest_jobs(actor, "task", "kwargs__topic", limit=SEARCHED_JOBS)
            used = [topic for task, topic in rows if task == "notify" and isinstance(topic, str)]
            topics = dict.fromkeys([profile.topic, profile.failure_topic, *used])
            return [topic for topic in topics if topic and topic.startswith(text)]
        case "zone":
            fragment = fragment.replace(" ", "_")
            zones = [zone for zone in sorted(available_timezones()) if fragment in zone.casefold()]
            # Those that begin with it come first.
            return sorted(filter(is_zone, zones), key=lambda zone: not zone.casefold().startswith(fragment))
        case "task":
            return [task.name for task in usable_tasks(actor) if task.name.startswith(text)]
    return []
