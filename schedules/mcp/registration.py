"""The conversion of a plain function into a tool of the SDK."""

import functools
import inspect
import keyword
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from django.db import InterfaceError, OperationalError
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolResult, TextContent
from pydantic import TypeAdapter
from pydantic_core import to_json

from schedules.mcp import answers
from schedules.mcp.apps import PAGE_OF_TOOL
from schedules.mcp.auth import Caller, calling, current_actor, require, too_many_calls, with_profile
from schedules.mcp.offers import OFFER_BY_NAME, WORDING, Offer
from schedules.mcp.orm import orm
from schedules.mcp.schemas import ToolMetadata, Untitled, advertised, answer_model
from schedules.mcp.tools.arguments import MissingArgumentError
from schedules.result import Err, Ok
from schedules.services.jobs.references import looks_like_public_id, public_id_of

logger = logging.getLogger(__name__)

# The arguments that name a job, by its id, its number or its name.
REFERENCES = {"job_id", "schedule_id"}


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
            return result_of(offer.refuse(refusal, arguments))
        # `from` cannot be the name of a parameter, so the function calls it `from_`.
        named = {f"{name}_" if keyword.iskeyword(name) else name: value for name, value in arguments.items()}
        try:
            return result_of(_without_dead_end(caller, await run(caller, **named)))
        except MissingArgumentError as error:
            return refused_arguments(offer.name, str(error))
        except (OperationalError, InterfaceError) as error:
            logger.exception("The database did not answer %s", offer.name)
            if offer.scope == "write":
                # The connection may have broken after the change was made.
                raise ToolError(answers.perhaps_done(has_key="idempotency_key" in named)) from error
            return result_of(offer.refuse(answers.DATABASE_AWAY, arguments))

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
    answer = TypeAdapter(answer_model(offer.name, signature.return_annotation))
    schema = answer.json_schema(schema_generator=Untitled, mode="serialization")
    tool.fn_metadata = ToolMetadata(arg_model=arguments, output_schema=schema)
    return tool


@functools.lru_cache(maxsize=1024)
def words_for(offered: frozenset[str], name: str) -> tuple[str, dict[str, Any]]:
    """Return the description and the input schema of a tool for a caller who is offered these."""
    tool = build_tool(OFFER_BY_NAME[name])
    schema = WORDING.schema_for(offered, tool.parameters)
    return WORDING.text_for(offered, tool.description), schema


def result_of(answer: Any) -> CallToolResult:
    """Wrap an answer, as an object and as text for clients that read only text."""
    if isinstance(answer, str):
        return CallToolResult(
            content=[TextContent(type="text", text=answer)], structured_content={"result": answer}
        )
    # Compact, unlike the SDK's own text, because every space costs an agent context.
    text = to_json(answer).decode()
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=answer)


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


def _without_dead_end(caller: Caller, answer: Any) -> Any:
    """Leave out how to undo a change if the caller is not offered that tool."""
    if isinstance(answer, dict) and "undo" in answer:
        tools = (OFFER_BY_NAME[name] for name in WORDING.mentioned(answer["undo"]))
        if not all(caller.is_offered(tool.families) for tool in tools):
            return {name: value for name, value in answer.items() if name != "undo"}
    return answer
