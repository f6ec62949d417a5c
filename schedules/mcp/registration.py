"""The list of tools, and the conversion of a plain function into a tool of the SDK."""

import functools
import inspect
import keyword
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import InterfaceError, OperationalError
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, ConfigDict, RootModel, TypeAdapter, create_model
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import to_json

from schedules.mcp import answers
from schedules.mcp.answers.jobs import refused as refused_job
from schedules.mcp.answers.jobs import refused_cancel
from schedules.mcp.answers.notifications import refused as refused_notification
from schedules.mcp.answers.prompts import refused as refused_prompt
from schedules.mcp.answers.prompts import refused_claim, refused_completion
from schedules.mcp.apps import PAGE_OF_TOOL
from schedules.mcp.auth import Caller, calling, current_actor, require, too_many_calls, with_profile
from schedules.mcp.orm import orm
from schedules.mcp.tools import (
    bulk,
    jobs,
    manage,
    notification_changes,
    notifications,
    preferences,
    prompts,
    reading,
)
from schedules.mcp.tools.arguments import MissingArgumentError
from schedules.mcp.wording import Wording
from schedules.models.job_queries import JobQuerySet
from schedules.result import Err, Ok
from schedules.services import Actor
from schedules.services.references import looks_like_public_id, public_id_of

logger = logging.getLogger(__name__)

Refuse = Callable[[Err, Mapping[str, Any]], object]


def _hints(
    *, reads: bool = False, destroys: bool = False, repeatable: bool = False, reaches_out: bool = False
) -> ToolAnnotations:
    return ToolAnnotations(
        read_only_hint=reads,
        destructive_hint=destroys,
        idempotent_hint=repeatable,
        open_world_hint=reaches_out,
    )


READS = _hints(reads=True, repeatable=True)
CREATES = _hints()
CHANGES = _hints(repeatable=True)
ENDS = _hints(destroys=True, repeatable=True)
ACTS = _hints(reaches_out=True)


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """One tool: its function, its title, its hints, and the function that shapes its refusals."""

    function: Callable[..., Any]
    title: str
    hints: ToolAnnotations
    refuse: Refuse
    among: Callable[[Actor], JobQuerySet] = Actor.jobs
    """The jobs that it finds by number and name."""

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def description(self) -> str:
        return " ".join((self.function.__doc__ or "").split())

    @property
    def family(self) -> str:
        return FAMILY_OF_MODULE[self.function.__module__]

    @property
    def families(self) -> frozenset[str]:
        """Every family of which it is a tool."""
        return frozenset({self.family, "core"} if self.name in CORE else {self.family})

    @property
    def scope(self) -> str:
        return "read" if self.hints.read_only_hint else "write"


# The names of the families in `--tools` and in tokens.
FAMILY_OF_MODULE = {
    jobs.__name__: "jobs",
    prompts.__name__: "prompts",
    notifications.__name__: "notifications",
    notification_changes.__name__: "notifications",
    manage.__name__: "more",
    reading.__name__: "more",
    bulk.__name__: "more",
    preferences.__name__: "more",
}

OFFERS = (
    Offer(jobs.schedule_job, "Schedule a job", CREATES, refused_job),
    Offer(jobs.list_jobs, "List jobs", READS, refused_job),
    Offer(jobs.cancel_job, "Cancel a job", ENDS, refused_cancel),
    Offer(jobs.job_status, "Show a job", READS, refused_job),
    Offer(prompts.schedule, "Schedule a prompt", CREATES, refused_prompt),
    Offer(prompts.schedule_list, "List prompts", READS, refused_prompt),
    Offer(prompts.schedule_edit, "Edit a prompt", CHANGES, refused_prompt),
    Offer(prompts.schedule_cancel, "Cancel a prompt", ENDS, refused_prompt),
    Offer(prompts.claim_prompts, "Claim waiting prompts", CREATES, refused_claim),
    Offer(prompts.complete_prompt, "Complete a prompt", CREATES, refused_completion),
    Offer(notifications.send_push_notification, "Send a notification now", ACTS, refused_notification),
    Offer(notifications.schedule_notification, "Schedule a notification", CREATES, refused_notification),
    Offer(
        notifications.schedule_cron_notification,
        "Schedule a repeating notification",
        CREATES,
        refused_notification,
    ),
    Offer(notifications.list_scheduled_notifications, "List notifications", READS, refused_notification),
    Offer(notification_changes.pause_schedule, "Pause a schedule", CHANGES, refused_notification),
    Offer(notification_changes.resume_schedule, "Resume a schedule", CHANGES, refused_notification),
    Offer(notification_changes.delete_schedule, "Delete a schedule", ENDS, refused_notification),
    Offer(notifications.get_current_time, "Current time", READS, refused_notification),
    Offer(reading.preview_schedule, "Preview a schedule", READS, refused_job),
    Offer(manage.update_job, "Change a job", CHANGES, refused_job),
    Offer(manage.pause_job, "Pause a job", CHANGES, refused_job),
    Offer(manage.resume_job, "Resume a job", CHANGES, refused_job),
    Offer(manage.skip_runs, "Skip runs", CREATES, refused_job),
    Offer(manage.restore_job, "Restore a job", CREATES, refused_job, among=Actor.restorable),
    Offer(manage.run_job, "Run a job now", ACTS, refused_job),
    Offer(reading.upcoming, "List upcoming runs", READS, refused_job),
    Offer(reading.why, "Explain a run", READS, refused_job),
    Offer(bulk.bulk_jobs, "Change many jobs", ENDS, refused_job),
    Offer(preferences.get_preferences, "Show preferences", READS, refused_job),
    Offer(preferences.set_preferences, "Set preferences", CHANGES, refused_job),
)
# What most conversations need, for models that choose better among few tools.
CORE = {
    "schedule_job",
    "schedule",
    "schedule_notification",
    "schedule_cron_notification",
    "list_jobs",
    "job_status",
    "update_job",
    "pause_job",
    "resume_job",
    "cancel_job",
    "run_job",
    "upcoming",
    "why",
    "preview_schedule",
    "get_current_time",
}
# The arguments that name a job, by its id, its number or its name.
REFERENCES = {"job_id", "schedule_id"}
OFFER_BY_NAME = {offer.name: offer for offer in OFFERS}
WORDING = Wording(OFFER_BY_NAME)


class LazyTool(Tool):
    """A tool whose schemas are built when it is first listed or called: building all of them delays the start."""

    def __getattr__(self, name: str) -> Any:
        if name not in type(self).model_fields:
            raise AttributeError(name)
        vars(self).update(vars(build_tool(OFFER_BY_NAME[self.name])))
        return vars(self)[name]


def make_tool(offer: Offer) -> Tool:
    """Return the SDK's tool, without schemas until they are needed."""
    known: dict[str, Any] = {
        "name": offer.name,
        "title": offer.title,
        "description": offer.description,
        "annotations": offer.hints,
        "meta": _meta(offer.name),
    }
    return LazyTool.model_construct(**known)


@functools.cache
def build_tool(offer: Offer) -> Tool:
    """Build the SDK's tool, which checks scope and rate and then runs the function on the database thread."""
    function = offer.function
    run = _coroutine(offer) if inspect.iscoroutinefunction(function) else orm(_checked(offer))

    @functools.wraps(function)
    async def call(**arguments: Any) -> CallToolResult:
        caller = require(offer.scope)
        if refusal := too_many_calls(caller):
            return _result(offer.refuse(refusal, arguments))
        # `from` cannot be the name of a parameter, so the function calls it `from_`.
        named = {f"{name}_" if keyword.iskeyword(name) else name: value for name, value in arguments.items()}
        try:
            return _result(_without_dead_end(caller, await run(caller, **named)))
        except MissingArgumentError as error:
            return refused_arguments(offer.name, str(error))
        except (OperationalError, InterfaceError) as error:
            logger.exception("The database did not answer %s", offer.name)
            if offer.scope == "write":
                # The connection may have broken after the change was made.
                raise ToolError(answers.perhaps_done(has_key="idempotency_key" in named)) from error
            return _result(offer.refuse(answers.DATABASE_AWAY, arguments))

    call.__signature__ = signature = inspect.signature(function, eval_str=True)  # type: ignore[attr-defined]
    tool = Tool.from_function(
        call,
        title=offer.title,
        description=offer.description,
        annotations=offer.hints,
        meta=_meta(offer.name),
        # The SDK would derive a schema of its own, and validate every answer: types and tests do that before.
        structured_output=False,
    )
    arguments = tool.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    tool.parameters = advertised(arguments.model_json_schema(by_alias=True, schema_generator=Untitled))
    answer = TypeAdapter(_answer_model(offer.name, signature.return_annotation))
    schema = answer.json_schema(schema_generator=Untitled, mode="serialization")
    tool.fn_metadata = ToolMetadata(arg_model=arguments, output_schema=schema)
    return tool


@functools.lru_cache(maxsize=1024)
def words_for(offered: frozenset[str], name: str) -> tuple[str, dict[str, Any]]:
    """Return the description and the input schema of a tool for a caller who is offered these."""
    tool = make_tool(OFFER_BY_NAME[name])
    schema = WORDING.schema_for(offered, tool.parameters)
    return WORDING.text_for(offered, tool.description), schema


def refused_arguments(name: str, problems: str) -> CallToolResult:
    """Return the error for arguments that are missing or invalid, which names them."""
    text = TextContent(type="text", text=f"Invalid arguments for {name}: {problems}")
    return CallToolResult(content=[text], is_error=True)


def _meta(name: str) -> dict[str, Any] | None:
    """Name the page that a chat may show beside the answer."""
    uri = PAGE_OF_TOOL.get(name)
    return {"ui": {"resourceUri": uri}} if uri else None


def _checked(offer: Offer) -> Callable[..., Any]:
    """Check the user of a local server first, on the same visit to the database thread."""

    def call(caller: Caller, **named: Any) -> Any:
        with calling(with_profile(caller)):
            if _has_reference(named) and (refusal := _read_reference(offer, named)):
                return offer.refuse(refusal, named)
            return offer.function(**named)

    return call


def _coroutine(offer: Offer) -> Callable[..., Awaitable[Any]]:
    async def call(caller: Caller, **named: Any) -> Any:
        if caller.token_id is None:
            caller = await orm(with_profile)(caller)
        with calling(caller):
            # Without a name or a number to look up, there is no need to wait for the database thread.
            if _has_reference(named) and (refusal := await orm(_read_reference)(offer, named)):
                return offer.refuse(refusal, named)
            return await offer.function(**named)

    return call


def _has_reference(named: dict[str, Any]) -> bool:
    """Return whether a job is named by anything else than its public id."""
    return any(not looks_like_public_id(named[name]) for name in REFERENCES & named.keys())


def _read_reference(offer: Offer, named: dict[str, Any]) -> Err | None:
    """Replace the number or the name of a job by its public id."""
    for name in REFERENCES & named.keys():
        try:
            meant = public_id_of(offer.among(current_actor()), named[name])
            if isinstance(meant, Ok) and not looks_like_public_id(meant.value):
                # None of those that the tool is for; the service says what is the matter with another one.
                meant = public_id_of(current_actor().jobs(), named[name])
        except (OperationalError, InterfaceError):
            # The tool itself meets the same error, and has the words for it.
            return None
        if isinstance(meant, Err):
            return meant
        named[name] = meant.value
    return None


def advertised(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of arguments without what a model need not read: null is accepted for every optional one.

    Titles repeat names, descriptions name the defaults that matter, and an object may have any keys anyway.
    """
    kept = {key: value for key, value in schema.items() if key not in ("title", "default")}
    if kept.get("additionalProperties") is True:
        del kept["additionalProperties"]
    if "enum" in kept:
        kept["enum"] = [value for value in kept["enum"] if value is not None]
    if "items" in kept:
        kept["items"] = advertised(kept["items"])
    if "properties" in kept:
        kept["properties"] = {name: advertised(value) for name, value in kept["properties"].items()}
    if "anyOf" in kept:
        arms = [advertised(arm) for arm in kept.pop("anyOf") if arm != {"type": "null"}]
        kept = {**arms[0], **kept} if len(arms) == 1 else {"anyOf": arms, **kept}
    return kept


class Untitled(GenerateJsonSchema):
    """Schemas without titles that only repeat an argument's name: every word costs an agent context."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


class ToolMetadata(FuncMetadata):
    """Arguments and result of a tool, where an argument that is text is never read as JSON."""

    @functools.cached_property
    def _texts(self) -> frozenset[str]:
        return frozenset(
            info.alias or name
            for name, info in self.arg_model.model_fields.items()
            if info.annotation in (str, str | None, Any)
        )

    def pre_parse_json(self, data: dict[str, Any]) -> dict[str, Any]:
        """Read JSON inside strings, as some clients send lists, except where a string is expected."""
        texts = {
            name: value for name, value in data.items() if isinstance(value, str) and name not in self._texts
        }
        return data | super().pre_parse_json(texts) if texts else data


def _result(answer: Any) -> CallToolResult:
    """Wrap an answer, as an object and as text for clients that read only text."""
    if isinstance(answer, str):
        return CallToolResult(
            content=[TextContent(type="text", text=answer)], structured_content={"result": answer}
        )
    # Compact, unlike the SDK's own text, because every space costs an agent context.
    text = to_json(answer).decode()
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=answer)


def _without_dead_end(caller: Caller, answer: Any) -> Any:
    """Leave out how to undo a change if the caller is not offered that tool."""
    if isinstance(answer, dict) and "undo" in answer:
        tools = (OFFER_BY_NAME[name] for name in WORDING.mentioned(answer["undo"]))
        if not all(caller.is_offered(tool.families) for tool in tools):
            return {name: value for name, value in answer.items() if name != "undo"}
    return answer


def _answer_model(name: str, answer: Any) -> type[BaseModel]:
    """Return the model whose schema is published; it says "object", which every client can read."""
    # Only its schema is needed.
    config = ConfigDict(defer_build=True)
    if answer is str:
        return create_model(f"{name}Output", result=(str, ...), __config__=config)
    root: Any = RootModel.__class_getitem__(answer)
    config["json_schema_extra"] = {"type": "object"}
    return type(f"{name}_result", (root,), {"model_config": config, "__module__": __name__})
