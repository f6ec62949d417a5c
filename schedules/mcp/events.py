"""MCP Events, experimental: apps like ChatGPT subscribe to events and receive them by webhook.

The methods are those of the draft extension that ChatGPT uses. The setting CRONTY_MCP_EVENTS switches it on.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import INVALID_PARAMS, RequestParams
from pydantic import ConfigDict

from schedules.mcp.auth import Caller, read_access
from schedules.mcp.messages import message_of
from schedules.mcp.orm import orm
from schedules.models import EventType
from schedules.result import Code, Err, Kind, Result
from schedules.services.people.app_event_subscriptions import (
    AppSubscriptionSpec,
    CallbackError,
    challenge,
    check_subscription,
    families_for,
    forget_subscription,
    keep_subscription,
)

NOT_FOUND, FORBIDDEN, EXHAUSTED, UNSUPPORTED, CALLBACK_FAILED = -32011, -32012, -32013, -32014, -32015
MAX_TEXT_LENGTH = 4096
_FILTERS = {
    "type": "object",
    "properties": {
        "job": {"type": "string", "description": "Only this job: its id or name."},
        "tag": {"type": "string", "description": "Only jobs with this tag."},
    },
    "additionalProperties": False,
}
_PAYLOAD = {
    "type": "object",
    "properties": {
        "job": {
            "type": "object",
            "properties": {"id": {"type": "string"}, "name": {"type": "string"}},
            "required": ["id", "name"],
        },
        "run": {"type": "object", "properties": {"id": {"type": "integer"}}},
    },
    "required": ["job"],
}
_DESCRIPTIONS = {
    EventType.PROMPT_DUE: "A scheduled prompt is due. Call claim_prompts to get it, then complete_prompt.",
    EventType.RUN_FAILED: "A run has failed and is not tried again.",
    EventType.RUN_RECOVERED: "A job that was failing works again.",
    EventType.SLOT_MISSED: "Planned runs were missed.",
    EventType.JOB_CHANGED: "A job was created, changed, paused or deleted.",
    EventType.APPROVAL_REQUESTED: "An agent waits for an approval.",
}


class _Params(RequestParams):
    """The unchecked parameters: `_read_subscription` names what is wrong with them."""

    model_config = ConfigDict(extra="allow")


class Events(Extension):
    """The extension with its methods."""

    identifier = "com.cronty/events"

    def methods(self) -> list[MethodBinding]:
        handlers = {"list": list_events, "subscribe": subscribe, "unsubscribe": unsubscribe}
        return [MethodBinding(f"events/{name}", _Params, _handler(each)) for name, each in handlers.items()]


async def advertise(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Add events to the capabilities: the SDK leaves out those that it does not know."""
    result = await call_next(ctx)
    if ctx.method in ("initialize", "server/discover") and isinstance(result, dict):
        return result | {"capabilities": {**result.get("capabilities", {}), "events": {}}}
    return result


async def list_events(caller: Caller, params: dict[str, Any]) -> dict[str, Any]:
    return {
        "events": [
            {
                "name": each.value,
                "description": _DESCRIPTIONS[each],
                "delivery": ["webhook"],
                "inputSchema": _FILTERS,
                "payloadSchema": _PAYLOAD,
            }
            for each in EventType
            if _may_receive(caller, each)
        ]
    }


async def subscribe(caller: Caller, params: dict[str, Any]) -> dict[str, Any]:
    token_id, request = _token_of(caller), _read_subscription(params)
    if request.type in EventType.values and not _may_receive(caller, request.type):
        raise _error(FORBIDDEN, "This token may not hear of these events.")
    is_needed = _expect(await orm(check_subscription)(caller.actor, token_id, request))
    if is_needed:
        try:
            await challenge(request, request.id_for(caller.actor, token_id))
        except CallbackError as error:
            message = "The callback did not answer the challenge."
            raise _error(CALLBACK_FAILED, message, reason=str(error)) from error
    row = _expect(await orm(keep_subscription)(caller.actor, token_id, request, is_verified=is_needed))
    assert row.expires_at
    refresh_before = row.expires_at.isoformat(timespec="seconds").replace("+00:00", "Z")
    return {"id": row.public_id, "refreshBefore": refresh_before, "cursor": None, "truncated": False}


async def unsubscribe(caller: Caller, params: dict[str, Any]) -> dict[str, Any]:
    _expect(await orm(forget_subscription)(caller.actor, _token_of(caller), _read_subscription(params)))
    return {}


def _handler(
    answer: Callable[[Caller, dict[str, Any]], Awaitable[dict[str, Any]]],
) -> Callable[[ServerRequestContext[Any, Any], _Params], Awaitable[dict[str, Any]]]:
    async def handle(ctx: ServerRequestContext[Any, Any], params: _Params) -> dict[str, Any]:
        try:
            caller = await orm(_caller)()
        except ToolError as error:
            raise _error(FORBIDDEN, str(error)) from error
        return await answer(caller, dict(params.model_extra or {}))

    return handle


def _caller() -> Caller:
    with read_access() as caller:
        return caller


def _may_receive(caller: Caller, event_type: str) -> bool:
    # An agent with access to some kinds of jobs gets no events of the others.
    may_receive_all = event_type == EventType.PROMPT_DUE or caller.actor.tasks is None
    return may_receive_all and caller.may("read", families_for(event_type))


def _token_of(caller: Caller) -> int:
    if caller.token_id is None:
        raise _error(FORBIDDEN, "Events need an access token: connect over HTTP.")
    return caller.token_id


def _read_subscription(params: dict[str, Any]) -> AppSubscriptionSpec:
    """Read the parameters; raise MCPError with what is wrong."""
    delivery = params.get("delivery")
    if not isinstance(delivery, dict):
        raise _error(INVALID_PARAMS, "delivery: give mode, url and secret.")
    if delivery.get("mode") != "webhook":
        raise _error(UNSUPPORTED, "Only webhooks are supported.", feature="deliveryMode", value="webhook")
    arguments = params.get("arguments") or {}
    if not isinstance(arguments, dict) or not all(isinstance(value, str) for value in arguments.values()):
        raise _error(INVALID_PARAMS, "arguments: give job or tag as texts.")
    texts = [params.get("name"), delivery.get("url"), delivery.get("secret", ""), *arguments.values()]
    if not all(isinstance(text, str) and len(text) <= MAX_TEXT_LENGTH for text in texts):
        raise _error(INVALID_PARAMS, "name, delivery.url and delivery.secret: give texts.")
    return AppSubscriptionSpec(
        str(params["name"]), delivery["url"], arguments, delivery.get("secret", ""), _ttl(params.get("ttlMs"))
    )


def _ttl(value: Any) -> timedelta | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 10**14:
        raise _error(INVALID_PARAMS, "ttlMs: give a positive number of milliseconds or null.")
    return timedelta(milliseconds=value)


def _expect(result: Result[Any]) -> Any:
    """Return the value of a result, or raise its refusal with the code of the extension."""
    if not isinstance(result, Err):
        return result.value
    message = message_of(result)
    match result.code:
        case Code.EVENT_TYPE_NOT_FOUND:
            raise _error(NOT_FOUND, message, kind="event")
        case Code.EVENT_SUBSCRIPTION_NOT_FOUND:
            raise _error(NOT_FOUND, message, kind="subscription")
        case Code.EVENT_SUBSCRIPTION_OFF:
            raise _error(FORBIDDEN, message)
        case Code.TOO_MANY_EVENT_SUBSCRIPTIONS:
            raise _error(EXHAUSTED, message, limit="subscriptions", max=result.limit)
    if result.kind in (Kind.QUOTA, Kind.TOO_FAST):
        raise _error(EXHAUSTED, message, limit=result.code.name.lower())
    raise _error(INVALID_PARAMS, message)


def _error(code: int, message: str, **data: Any) -> MCPError:
    return MCPError(code=code, message=message, data=data or None)
