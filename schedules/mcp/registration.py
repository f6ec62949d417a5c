"""Registration of tools: wrap a plain function as a tool of the SDK that checks scope, rate and job references."""

import functools
import inspect
import keyword
import logging
from collections.abc import Callable, Collection
from typing import Any, get_args

from django.db import InterfaceError, OperationalError
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata
from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel, ConfigDict, RootModel, TypeAdapter, create_model
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import to_json

from schedules.mcp.answers import refusals
from schedules.mcp.answers.refusals import ErrorOut
from schedules.mcp.apps import PAGE_OF_TOOL
from schedules.mcp.argument_errors import refused_arguments
from schedules.mcp.auth import Caller, as_caller, current_actor, orm, require, too_many_calls, with_profile
from schedules.mcp.offers import OFFER_BY_NAME, WORDING, Offer
from schedules.mcp.tools.arguments import MissingArgumentError
from schedules.result import Err, Ok, RefusedError
from schedules.services.jobs.references import looks_like_public_id, public_id_of


class ToolMetadata(FuncMetadata):
    """The SDK's arguments and result of a tool, but text arguments are never parsed as JSON."""

    @functools.cached_property
    def _text_arguments(self) -> frozenset[str]:
        return frozenset(
            info.alias or name
            for name, info in self.arg_model.model_fields.items()
            if info.annotation in (str, str | None, Any)
        )

    def pre_parse_json(self, data: dict[str, Any]) -> dict[str, Any]:
        """Parse strings as JSON, because some clients send lists that way, except where a string is expected."""
        strings = {
            name: value
            for name, value in data.items()
            if isinstance(value, str) and name not in self._text_arguments
        }
        return data | super().pre_parse_json(strings) if strings else data


logger = logging.getLogger(__name__)

# The arguments that take a job's id, number or name.
_JOB_REFERENCES = {"job_id", "schedule_id"}
# The texts of an answer that advise another call.
_ADVICE = ("hint", "note")


@functools.cache
def build_tool(offer: Offer) -> Tool:
    """Build the SDK's tool, which checks scope and rate and then runs the function on the database thread."""
    function = offer.function
    signature, options = _signature_of(function)

    def prepare(caller: Caller, arguments: dict[str, Any]) -> tuple[Caller, Err | None]:
        caller = with_profile(caller)
        with as_caller(caller):
            return caller, _resolve_reference(offer, arguments)

    def run(caller: Caller, arguments: dict[str, Any]) -> Any:
        caller, refusal = prepare(caller, arguments)
        with as_caller(caller):
            return offer.refuse(refusal, arguments) if refusal else answer(offer, arguments)

    async def run_coroutine(caller: Caller, arguments: dict[str, Any]) -> Any:
        caller, refusal = await orm(prepare)(caller, arguments)
        with as_caller(caller):
            try:
                return offer.refuse(refusal, arguments) if refusal else await function(**arguments)
            except RefusedError as refused:
                return await orm(_refusal)(offer, refused, arguments)

    run_async = run_coroutine if inspect.iscoroutinefunction(function) else orm(run)

    @functools.wraps(function)
    async def call(**received: Any) -> CallToolResult:
        caller = require(offer.scope)
        if refusal := too_many_calls(caller):
            return result_of(offer.refuse(refusal, received), is_error=True)
        # `from` cannot be the name of a parameter, so the function calls it `from_`.
        arguments = {
            f"{name}_" if keyword.iskeyword(name) else name: value
            for name, value in received.items()
            if value is not None or name not in options
        }
        try:
            out = _adapted_to(caller, await run_async(caller, arguments))
            # In the other families, the contract defines refusals as normal results.
            return result_of(out, is_error=offer.family == "more" and _is_refusal(out))
        except MissingArgumentError as error:
            return refused_arguments(offer.name, str(error))
        except (OperationalError, InterfaceError) as error:
            logger.exception("The database did not answer %s", offer.name)
            if offer.scope == "write":
                # The connection may have broken after the change was made.
                raise ToolError(refusals.perhaps_done(has_key="idempotency_key" in received)) from error
            return result_of(offer.refuse(refusals.DATABASE_AWAY, received), is_error=True)

    call.__signature__ = signature  # type: ignore[attr-defined]
    tool = Tool.from_function(
        call,
        title=offer.title,
        description=offer.description,
        annotations=offer.hints,
        meta={"ui": {"resourceUri": page}} if (page := PAGE_OF_TOOL.get(offer.name)) else None,
        # The SDK would derive another schema and validate every answer, which types and tests already do.
        structured_output=False,
    )
    arguments = tool.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    tool.parameters = argument_schema(arguments)
    # Schemas of answers cost agents context, so only tools with a contract have one.
    is_contracted = offer.family != "more"
    output_schema = answer_schema(offer.name, signature.return_annotation) if is_contracted else None
    tool.fn_metadata = ToolMetadata(arg_model=arguments, output_schema=output_schema)
    return tool


def answer(offer: Offer, arguments: dict[str, Any]) -> Any:
    """Call the function of a tool; return its answer, or its refusal."""
    try:
        return offer.function(**arguments)
    except RefusedError as refused:
        return _refusal(offer, refused, arguments)


def _refusal(offer: Offer, refused: RefusedError, arguments: dict[str, Any]) -> object:
    """Return a refusal as an answer, which quotes the arguments."""
    return offer.refuse(refused.error, {**arguments, **getattr(refused, "quoted", {})})


def _signature_of(function: Callable[..., Any]) -> tuple[inspect.Signature, Collection[str]]:
    """Return a signature with each of the `**options` as a parameter of its own, and their names."""
    signature = inspect.signature(function, eval_str=True)
    parameters = list(signature.parameters.values())
    if not parameters or parameters[-1].kind != inspect.Parameter.VAR_KEYWORD:
        return signature, ()
    _, options = get_args(parameters.pop().annotation)
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in options.items()
    ]
    return signature.replace(parameters=parameters), options


@functools.lru_cache(maxsize=1024)
def wording_for(offered: frozenset[str], name: str) -> tuple[str, dict[str, Any]]:
    """Return the description and the input schema of a tool for a caller who is offered these tools."""
    tool = build_tool(OFFER_BY_NAME[name])
    schema = WORDING.schema_for(offered, tool.parameters)
    return WORDING.text_for(offered, tool.description), schema


def _is_refusal(answer: Any) -> bool:
    """Return whether an answer is nothing but a refusal."""
    return isinstance(answer, dict) and "error" in answer and answer.keys() <= ErrorOut.__annotations__.keys()


def result_of(answer: Any, *, is_error: bool = False) -> CallToolResult:
    """Wrap an answer as an object, and as text for clients that read only text."""
    if isinstance(answer, str):
        return CallToolResult(
            content=[TextContent(type="text", text=answer)],
            structured_content={"result": answer},
            is_error=is_error,
        )
    # Compact, unlike the SDK's own text: every space costs an agent context.
    content = [TextContent(type="text", text=to_json(answer).decode())]
    return CallToolResult(content=list(content), structured_content=answer, is_error=is_error)


def _resolve_reference(offer: Offer, arguments: dict[str, Any]) -> Err | None:
    """Replace the number or the name of a job by its public id."""
    for name in _JOB_REFERENCES & arguments.keys():
        reference = arguments[name]
        if reference is None or looks_like_public_id(reference):
            continue
        actor = current_actor()
        try:
            job_id = public_id_of(offer.jobs(actor), reference)
            if isinstance(job_id, Ok) and not looks_like_public_id(job_id.value):
                # The tool explains itself why it refuses such a job.
                job_id = public_id_of(offer.fallback_jobs(actor), reference)
        except (OperationalError, InterfaceError):
            # The tool will meet the same error, and answers it.
            return None
        if isinstance(job_id, Err):
            return job_id
        arguments[name] = job_id.value
    return None


def _adapted_to(caller: Caller, answer: Any) -> Any:
    """Leave out the call and the sentences of advice that name a tool which the caller is not offered."""
    if not isinstance(answer, dict):
        return answer
    adapted = dict(answer)
    if "undo" in answer and not _is_offered(caller, answer["undo"].partition("(")[0]):
        del adapted["undo"]
    for key in (*_ADVICE, "error") if _is_refusal(answer) else _ADVICE:
        text = answer.get(key)
        if not isinstance(text, str):
            continue
        mentioned = WORDING.mentioned(text)
        offered = {name for name in mentioned if _is_offered(caller, name)}
        if offered == mentioned:
            continue
        if kept := WORDING.text_for(offered, text):
            adapted[key] = kept
        elif key != "error":
            del adapted[key]
    return adapted


def _is_offered(caller: Caller, tool: str) -> bool:
    offer = OFFER_BY_NAME[tool]
    return caller.may(offer.scope, offer.families)


class _UntitledSchema(GenerateJsonSchema):
    """Schemas without the titles that only repeat an argument's name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def argument_schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a tool's arguments: titles repeat names, descriptions name defaults, and all optional ones take null."""
    schema = arguments.model_json_schema(by_alias=True, schema_generator=_UntitledSchema)
    return _slim(schema, "title", "default", has_null=False)


def answer_schema(tool: str, answer: Any) -> dict[str, Any]:
    """Return the schema of a tool's answer; of a refusal, it promises only the reason."""
    adapter: TypeAdapter[Any] = TypeAdapter(_answer_model(tool, answer))
    schema = adapter.json_schema(schema_generator=_UntitledSchema, mode="serialization")
    slim = _slim(schema, "title", "description")
    if refusal := slim.get("$defs", {}).get(ErrorOut.__name__):
        refusal["properties"] = {"error": refusal["properties"]["error"]}
    return slim


def _answer_model(tool: str, answer: Any) -> type[BaseModel]:
    """Return the model whose schema is published; it says "object", which every client can read."""
    # Only its schema is needed.
    config = ConfigDict(defer_build=True)
    if answer is str:
        return create_model(f"{tool}Output", result=(str, ...), __config__=config)
    root: Any = RootModel.__class_getitem__(answer)
    config["json_schema_extra"] = {"type": "object"}
    return type(f"{tool}_result", (root,), {"model_config": config, "__module__": __name__})


def _slim(schema: dict[str, Any], *left_out: str, has_null: bool = True) -> dict[str, Any]:
    """Leave out of a schema what costs agents context and says nothing that they need."""
    slim = {key: value for key, value in schema.items() if key not in left_out}
    # An object may have any keys unless its schema says otherwise.
    if slim.get("additionalProperties") is True:
        del slim["additionalProperties"]
    if "enum" in slim:
        slim["enum"] = [value for value in slim["enum"] if has_null or value is not None]
    for group in {"$defs", "properties"} & slim.keys():
        slim[group] = {name: _slim(each, *left_out, has_null=has_null) for name, each in slim[group].items()}
    if "items" in slim:
        slim["items"] = _slim(slim["items"], *left_out, has_null=has_null)
    if "anyOf" in slim:
        alternatives = [each for each in slim.pop("anyOf") if has_null or each != {"type": "null"}]
        alternatives = [_slim(each, *left_out, has_null=has_null) for each in alternatives]
        slim = {**alternatives[0], **slim} if len(alternatives) == 1 else {"anyOf": alternatives, **slim}
    return slim
