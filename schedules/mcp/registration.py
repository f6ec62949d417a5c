"""The conversion of a plain function into a tool of the SDK."""

import functools
import inspect
import keyword
import logging
from collections.abc import Callable, Collection
from difflib import get_close_matches
from typing import Any, get_args, get_type_hints

from django.db import InterfaceError, OperationalError
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata
from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel, ConfigDict, RootModel, TypeAdapter, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import to_json

from schedules.mcp import answers
from schedules.mcp.answers.job_refusals import ErrorOut
from schedules.mcp.apps import PAGE_OF_TOOL
from schedules.mcp.auth import Caller, calling, current_actor, require, too_many_calls, with_profile
from schedules.mcp.offers import OFFER_BY_NAME, WORDING, Offer
from schedules.mcp.orm import orm
from schedules.mcp.tools.arguments import MissingArgumentError
from schedules.result import Err, Ok
from schedules.services.jobs.references import looks_like_public_id, public_id_of


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


def published(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of answers without what a client need not know to check one: it is sent with every list.

    Names say what the values are, and an object may have any other keys; of a refusal, only the reason is promised.
    """
    kept = {key: value for key, value in schema.items() if key not in ("title", "description")}
    if kept.get("additionalProperties") is True:
        del kept["additionalProperties"]
    for group in {"$defs", "properties"} & kept.keys():
        kept[group] = {name: published(value) for name, value in kept[group].items()}
    if "items" in kept:
        kept["items"] = published(kept["items"])
    if "anyOf" in kept:
        kept["anyOf"] = [published(arm) for arm in kept["anyOf"]]
    if refusal := kept.get("$defs", {}).get(ErrorOut.__name__):
        refusal["properties"] = {"error": refusal["properties"]["error"]}
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


def answer_model(name: str, answer: Any) -> type[BaseModel]:
    """Return the model whose schema is published; it says "object", which every client can read."""
    # Only its schema is needed.
    config = ConfigDict(defer_build=True)
    if answer is str:
        return create_model(f"{name}Output", result=(str, ...), __config__=config)
    root: Any = RootModel.__class_getitem__(answer)
    config["json_schema_extra"] = {"type": "object"}
    return type(f"{name}_result", (root,), {"model_config": config, "__module__": __name__})


logger = logging.getLogger(__name__)

# What agents call an argument that has another name: the first of these that the tool has is meant.
SYNONYMS = {
    **dict.fromkeys(("topic", "channel", "ntfy_topic"), "notification_topic"),
    **dict.fromkeys(("when", "date", "run_at", "datetime", "time", "at"), "datetime at time"),
    **dict.fromkeys(("cron_expression", "expression", "schedule", "cron"), "cron job_id"),
    **dict.fromkeys(("id", "job", "name", "schedule_id", "job_id"), "job_id schedule_id"),
    **dict.fromkeys(("zone", "tz", "time_zone"), "timezone"),
    **dict.fromkeys(("text", "body", "content", "msg"), "message prompt query"),
    **dict.fromkeys(("search", "q", "filter"), "query"),
    **dict.fromkeys(("retries", "retry", "max_attempts"), "attempts"),
    **dict.fromkeys(("end", "until", "end_date", "expires"), "ends_at until"),
    **dict.fromkeys(("count", "times", "repeat", "runs"), "max_runs"),
}
# The same for tools that take a trigger.
TRIGGERS = {
    **dict.fromkeys(
        ("when", "date", "run_at", "datetime", "time", "at"),
        'trigger_type "once" with trigger_config {"run_at": "tomorrow at 9:00"}',
    ),
    **dict.fromkeys(
        ("cron_expression", "expression", "schedule", "cron"),
        'trigger_type "cron" with trigger_config {"expression": "0 9 * * *"}',
    ),
}

# The arguments that name a job, by its id, its number or its name.
REFERENCES = {"job_id", "schedule_id"}


@functools.cache
def build_tool(offer: Offer) -> Tool:
    """Build the SDK's tool, which checks scope and rate and then runs the function on the database thread."""
    function = offer.function
    signature, options = _signature_of(function)

    def prepare(caller: Caller, arguments: dict[str, Any]) -> tuple[Caller, Err | None]:
        caller = with_profile(caller)
        with calling(caller):
            return caller, _read_reference(offer, arguments)

    def run(caller: Caller, arguments: dict[str, Any]) -> Any:
        caller, refusal = prepare(caller, arguments)
        with calling(caller):
            return offer.refuse(refusal, arguments) if refusal else function(**arguments)

    async def run_coroutine(caller: Caller, arguments: dict[str, Any]) -> Any:
        caller, refusal = await orm(prepare)(caller, arguments)
        with calling(caller):
            return offer.refuse(refusal, arguments) if refusal else await function(**arguments)

    run_awaited = run_coroutine if inspect.iscoroutinefunction(function) else orm(run)

    @functools.wraps(function)
    async def call(**sent: Any) -> CallToolResult:
        caller = require(offer.scope)
        if refusal := too_many_calls(caller):
            return result_of(offer.refuse(refusal, sent), is_error=True)
        # `from` cannot be the name of a parameter, so the function calls it `from_`.
        arguments = {
            f"{name}_" if keyword.iskeyword(name) else name: value
            for name, value in sent.items()
            if value is not None or name not in options
        }
        try:
            answer = _without_dead_end(caller, await run_awaited(caller, arguments))
            return result_of(answer, is_error=offer.family == "more" and _is_refusal(answer))
        except MissingArgumentError as error:
            return refused_arguments(offer.name, str(error))
        except (OperationalError, InterfaceError) as error:
            logger.exception("The database did not answer %s", offer.name)
            if offer.scope == "write":
                # The connection may have broken after the change was made.
                raise ToolError(answers.perhaps_done(has_key="idempotency_key" in sent)) from error
            return result_of(offer.refuse(answers.DATABASE_AWAY, sent), is_error=True)

    call.__signature__ = signature  # type: ignore[attr-defined]
    tool = Tool.from_function(
        call,
        title=offer.title,
        description=offer.description,
        annotations=offer.hints,
        meta={"ui": {"resourceUri": page}} if (page := PAGE_OF_TOOL.get(offer.name)) else None,
        # The SDK would derive a schema of its own, and validate every answer: types and tests do that before.
        structured_output=False,
    )
    arguments = tool.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    tool.parameters = advertised(arguments.model_json_schema(by_alias=True, schema_generator=Untitled))
    answer = TypeAdapter(answer_model(offer.name, signature.return_annotation))
    schema = answer.json_schema(schema_generator=Untitled, mode="serialization")
    tool.fn_metadata = ToolMetadata(arg_model=arguments, output_schema=published(schema))
    return tool


def _signature_of(function: Callable[..., Any]) -> tuple[inspect.Signature, Collection[str]]:
    """Return a signature in which each of the `**options` is a parameter, and the names of these options."""
    signature = inspect.signature(function, eval_str=True)
    parameters = list(signature.parameters.values())
    if not parameters or parameters[-1].kind != inspect.Parameter.VAR_KEYWORD:
        return signature, ()
    [group] = get_args(parameters.pop().annotation)
    options = get_type_hints(group, include_extras=True)
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in options.items()
    ]
    return signature.replace(parameters=parameters), options


@functools.lru_cache(maxsize=1024)
def words_for(offered: frozenset[str], name: str) -> tuple[str, dict[str, Any]]:
    """Return the description and the input schema of a tool for a caller who is offered these."""
    tool = build_tool(OFFER_BY_NAME[name])
    schema = WORDING.schema_for(offered, tool.parameters)
    return WORDING.text_for(offered, tool.description), schema


def _is_refusal(answer: Any) -> bool:
    """Return whether an answer is nothing but a refusal; in the other families, the contract calls those normal results."""
    return isinstance(answer, dict) and "error" in answer and answer.keys() <= ErrorOut.__annotations__.keys()


def result_of(answer: Any, *, is_error: bool = False) -> CallToolResult:
    """Wrap an answer, as an object and as text for clients that read only text."""
    if isinstance(answer, str):
        return CallToolResult(
            content=[TextContent(type="text", text=answer)],
            structured_content={"result": answer},
            is_error=is_error,
        )
    # Compact, unlike the SDK's own text, because every space costs an agent context.
    content = [TextContent(type="text", text=to_json(answer).decode())]
    return CallToolResult(content=list(content), structured_content=answer, is_error=is_error)


def refused_arguments(name: str, problems: str) -> CallToolResult:
    """Return the error for arguments that are missing or invalid, which names them."""
    text = TextContent(type="text", text=f"Invalid arguments for {name}: {problems}")
    return CallToolResult(content=[text], is_error=True)


def argument_problems(name: str, error: ValidationError) -> str:
    """Say what is wrong with the arguments of a call, and what to send instead."""
    accepted = build_tool(OFFER_BY_NAME[name]).parameters["properties"]
    return "; ".join(_argument_problem(detail, accepted) for detail in error.errors()[:10])


def _argument_problem(detail: Any, accepted: Collection[str]) -> str:
    place = ".".join(map(str, detail["loc"])) or "arguments"
    match detail["type"]:
        case "extra_forbidden":
            return f"unknown field {place[:70]}: {_instead(place.lower(), accepted)}"
        case "dict_type":
            example = '{"expression": "0 9 * * *"}' if "trigger_config" in place else "{}"
            return f"{place}: send an object, like {example}"
    return f"{place}: {detail['msg']}"


def _instead(field: str, accepted: Collection[str]) -> str:
    """Return which argument to use instead of one that the tool does not have."""
    if "trigger_config" in accepted and field in TRIGGERS:
        return f"use {TRIGGERS[field]}"
    meant = [name for name in SYNONYMS.get(field, "").split() if name in accepted]
    if nearest := meant or get_close_matches(field, accepted, 1):
        return f"use {nearest[0]}"
    if "kwargs" in accepted:
        return "arguments of the task go into kwargs"
    return f"it takes {', '.join(accepted)}" if accepted else "it takes no arguments"


def _read_reference(offer: Offer, arguments: dict[str, Any]) -> Err | None:
    """Replace the number or the name of a job by its public id."""
    for name in REFERENCES & arguments.keys():
        reference = arguments[name]
        if reference is None or looks_like_public_id(reference):
            continue
        actor = current_actor()
        try:
            job_id = public_id_of(offer.among(actor), reference)
            if isinstance(job_id, Ok) and not looks_like_public_id(job_id.value):
                # None of those that the tool is for; it says what is the matter with another one.
                job_id = public_id_of(offer.beyond(actor), reference)
        except (OperationalError, InterfaceError):
            # The tool itself meets the same error, and has the words for it.
            return None
        if isinstance(job_id, Err):
            return job_id
        arguments[name] = job_id.value
    return None


def _without_dead_end(caller: Caller, answer: Any) -> Any:
    """Leave out how to undo a change if the caller is not offered that tool."""
    if isinstance(answer, dict) and "undo" in answer:
        tool, _, _ = answer["undo"].partition("(")
        if not caller.is_offered(OFFER_BY_NAME[tool].families):
            return {name: value for name, value in answer.items() if name != "undo"}
    return answer
