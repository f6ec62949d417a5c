"""Completions: ids, topics, time zones and tasks for a client that fills in the template of an address."""

from collections.abc import Callable, Iterable
from typing import Any
from zoneinfo import available_timezones

from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import INVALID_REQUEST, Completion

from schedules.mcp.auth import reading
from schedules.mcp.orm import orm
from schedules.mcp.resources import is_zone
from schedules.services import Actor
from schedules.services.job_list import newest_jobs
from schedules.services.jobs.validation import usable_tasks

# The protocol's limit on the values of one answer.
MOST_VALUES = 100
# The newest jobs are searched: those of a person are not limited in number.
SEARCHED_JOBS = 1000


def add_completions(server: MCPServer[Any]) -> None:
    """Register the completions."""

    async def complete(ref: Any, argument: Any, context: Any) -> Completion | None:
        values_of = VALUES.get(argument.name)
        return None if values_of is None else await orm(_completion)(values_of, argument.value)

    server.completion()(complete)  # type: ignore[no-untyped-call]


def ids(actor: Actor, text: str) -> list[str]:
    """Return the ids of jobs whose id starts with the text or whose name contains it."""
    rows = newest_jobs(actor, "public_id", "name", most=SEARCHED_JOBS)
    wanted = text.casefold()
    return [key for key, name in rows if key.startswith(text) or wanted in name.casefold()]


def topics(actor: Actor, text: str) -> list[str]:
    """Return the topics of the user and of their notifications."""
    if not actor.may_use("notify"):
        # Whoever knows a topic can read and write it.
        return []
    profile = actor.read_profile()
    rows = newest_jobs(actor, "task", "kwargs__topic", most=SEARCHED_JOBS)
    used = [topic for task, topic in rows if task == "notify" and isinstance(topic, str)]
    own = [topic for topic in (profile.topic, profile.failure_topic) if topic]
    return [topic for topic in dict.fromkeys([*own, *used]) if topic.startswith(text)]


def zones(actor: Actor, text: str) -> list[str]:
    """Return the zones of which the text is the beginning or a part, as in "berlin" or "new y"."""
    wanted = text.strip().casefold().replace(" ", "_")
    matches = [name for name in sorted(available_timezones()) if wanted in name.casefold() and is_zone(name)]
    return sorted(matches, key=lambda name: not name.casefold().startswith(wanted))


def tasks(actor: Actor, text: str) -> list[str]:
    """Return the tasks that the agent may schedule."""
    return [task.name for task in usable_tasks(actor) if task.name.startswith(text)]


VALUES: dict[str, Callable[[Actor, str], Iterable[str]]] = {
    "job_id": ids,
    "schedule_id": ids,
    "topic": topics,
    "notification_topic": topics,
    "zone": zones,
    "timezone": zones,
    "task": tasks,
}


def _completion(values_of: Callable[[Actor, str], Iterable[str]], text: str) -> Completion:
    try:
        with reading() as caller:
            values = list(values_of(caller.actor, text))
    except ToolError as error:
        raise MCPError(code=INVALID_REQUEST, message=str(error)) from error
    return Completion(values=values[:MOST_VALUES], total=len(values), has_more=len(values) > MOST_VALUES)
