"""Completions: job ids, topics, time zones and tasks for clients that fill in the template of a resource."""

from collections.abc import Callable, Iterable
from typing import Any
from zoneinfo import available_timezones

from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import INVALID_REQUEST, Completion

from schedules.mcp.auth import orm, read_access
from schedules.mcp.resources import is_zone
from schedules.services import Actor
from schedules.services.job_list import newest_jobs
from schedules.services.jobs.validation import usable_tasks

# The protocol's limit on the values of one answer.
MAX_VALUES = 100
# Only the newest jobs are searched, because a person may have any number of jobs.
SEARCHED_JOBS = 1000


def add_completions(server: MCPServer[Any]) -> None:
    """Register the completions."""

    async def complete(ref: Any, argument: Any, context: Any) -> Completion | None:
        complete_argument = COMPLETIONS.get(argument.name)
        return (
            None if complete_argument is None else await orm(_completion)(complete_argument, argument.value)
        )

    server.completion()(complete)  # type: ignore[no-untyped-call]


def complete_job_ids(actor: Actor, text: str) -> list[str]:
    """Return the ids of jobs whose id starts with the text or whose name contains it."""
    rows = newest_jobs(actor, "public_id", "name", limit=SEARCHED_JOBS)
    fragment = text.casefold()
    return [key for key, name in rows if key.startswith(text) or fragment in name.casefold()]


def complete_topics(actor: Actor, text: str) -> list[str]:
    """Return matching topics of the user and of their notifications."""
    if not actor.may_use("notify"):
        # Whoever knows a topic can read and write it.
        return []
    profile = actor.read_profile()
    rows = newest_jobs(actor, "task", "kwargs__topic", limit=SEARCHED_JOBS)
    used = [topic for task, topic in rows if task == "notify" and isinstance(topic, str)]
    own = [topic for topic in (profile.topic, profile.failure_topic) if topic]
    return [topic for topic in dict.fromkeys([*own, *used]) if topic.startswith(text)]


def complete_zones(actor: Actor, text: str) -> list[str]:
    """Return the zones that contain the text, like "berlin" or "new y", first those that start with it."""
    fragment = text.strip().casefold().replace(" ", "_")
    matches = [
        name for name in sorted(available_timezones()) if fragment in name.casefold() and is_zone(name)
    ]
    return sorted(matches, key=lambda name: not name.casefold().startswith(fragment))


def complete_tasks(actor: Actor, text: str) -> list[str]:
    """Return matching tasks that the agent may schedule."""
    return [task.name for task in usable_tasks(actor) if task.name.startswith(text)]


COMPLETIONS: dict[str, Callable[[Actor, str], Iterable[str]]] = {
    "job_id": complete_job_ids,
    "schedule_id": complete_job_ids,
    "topic": complete_topics,
    "notification_topic": complete_topics,
    "zone": complete_zones,
    "timezone": complete_zones,
    "task": complete_tasks,
}


def _completion(complete_argument: Callable[[Actor, str], Iterable[str]], text: str) -> Completion:
    try:
        with read_access() as caller:
            values = list(complete_argument(caller.actor, text))
    except ToolError as error:
        raise MCPError(code=INVALID_REQUEST, message=str(error)) from error
    return Completion(values=values[:MAX_VALUES], total=len(values), has_more=len(values) > MAX_VALUES)
