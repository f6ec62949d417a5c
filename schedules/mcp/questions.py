"""Questions to the person during a call: a time zone or a topic that nobody has named, and the consent to change many
jobs."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from django.db import InterfaceError, OperationalError
from mcp_types import CallToolResult, InputRequiredResult
from pydantic import BaseModel, Field, ValidationError, create_model

from schedules.mcp.answers.bulk import not_agreed_out
from schedules.mcp.auth import Caller, too_many_calls, with_profile
from schedules.mcp.conversation import AnyContext, ask, filled
from schedules.mcp.offers import OFFER_BY_NAME
from schedules.mcp.orm import orm
from schedules.mcp.registration import build_tool, result_of
from schedules.mcp.tools.arguments import zone_notes
from schedules.mcp.tools.triggers import local_text
from schedules.result import Err
from schedules.services.people.preferences import set_preferences
from schedules.when.zone_names import zone_named

# The arguments in which each tool takes a zone and a topic.
ASKS_FOR_ZONE = ("schedule", "schedule_job", "schedule_notification", "schedule_cron_notification")
ASKS_FOR_TOPIC = ("send_push_notification", "schedule_notification", "schedule_cron_notification")
FIELDS: dict[str, tuple[str, Any]] = {
    "timezone": (
        "your time zone",
        Field(title="Time zone", description='A city or IANA zone, like "Berlin" or "Europe/Berlin".'),
    ),
    "topic": (
        "the ntfy topic that you follow",
        Field(title="Topic", description="1 to 64 letters, digits, - and _.", max_length=64),
    ),
}
# The keys of the questions; that of a consent goes on with its token.
PREFERENCES = "preferences"
CONSENT = "consent:"
ARGUMENTS = {"timezone": "timezone", "topic": "notification_topic"}


async def complete(
    caller: Caller,
    context: AnyContext,
    name: str,
    arguments: dict[str, Any],
) -> dict[str, Any] | InputRequiredResult:
    """Keep what the person adds to a call for the tool to find; return the arguments, or the question for them.

    The arguments stay those of the agent: the same call again, with the same idempotency key, is the same request.
    """
    missing = await orm(_missing)(caller, name, arguments)
    if not missing:
        return arguments
    # A question counts as a call, unlike the request with its answer; after too many calls, the tool says so.
    if PREFERENCES not in (context.input_responses or {}) and too_many_calls(caller):
        return arguments
    wanted = " and ".join(FIELDS[field][0] for field in missing)
    message = (
        f"Cronty does not know {wanted}. The answer is kept for later; you can change it in the settings."
    )
    reply = await ask(context, PREFERENCES, message, _form(missing))
    if reply is None or isinstance(reply, InputRequiredResult):
        return reply or arguments
    given = {field: value.strip() for field, value in reply.model_dump().items() if value.strip()}
    refused = await orm(_remember)(caller, given)
    return arguments | {ARGUMENTS[field]: value for field, value in refused.items()}


class Agreement(BaseModel):
    """The form for a change to many jobs."""

    agree: bool = Field(title="Yes, do it")


NO = Agreement(agree=False)


async def with_consent(
    context: AnyContext,
    arguments: dict[str, Any],
    call: Callable[[dict[str, Any]], Awaitable[CallToolResult | InputRequiredResult]],
) -> CallToolResult | InputRequiredResult:
    """Call the tool that changes many jobs; if it needs a confirmation, ask the person for it at once."""
    for key, reply in (context.input_responses or {}).items():
        if key.startswith(CONSENT):
            agreement = filled(reply, Agreement, declined=NO)
            agreed = {"confirm": key.removeprefix(CONSENT)} if agreement and agreement.agree else {}
            return _after(agreement, await call(arguments | agreed))
    result = await call(arguments)
    preview = _preview(result)
    if arguments.get("confirm") is not None or "confirm" not in preview:
        return result
    shown = ", ".join(job["name"] for job in preview["jobs"])
    more = " and others" if preview["would_change"] > len(preview["jobs"]) else ""
    message = f"{str(arguments.get('action')).capitalize()} {preview['would_change']} jobs? {shown}{more}"
    # The token travels in the key: it proves what was shown, and the tool checks it.
    answer = await ask(context, f"{CONSENT}{preview['confirm']}", message, Agreement, declined=NO)
    if isinstance(answer, InputRequiredResult):
        return answer
    if answer and answer.agree:
        return await call(arguments | {"confirm": preview["confirm"]})
    return _after(answer, result)


def _preview(result: CallToolResult | InputRequiredResult) -> dict[str, Any]:
    return (result.structured_content if isinstance(result, CallToolResult) else None) or {}


def _after(
    agreement: Agreement | None, result: CallToolResult | InputRequiredResult
) -> CallToolResult | InputRequiredResult:
    """Leave out of a preview how to confirm it, if the person has refused."""
    preview = _preview(result)
    if agreement is None or agreement.agree or "confirm" not in preview:
        return result
    return result_of(not_agreed_out(preview))


def _missing(caller: Caller, name: str, arguments: Mapping[str, Any]) -> list[str]:
    try:
        profile = with_profile(caller).actor.read_profile()
    except (OperationalError, InterfaceError):
        # The tool itself meets the same error, and has the words for it.
        return []
    missing = []
    if name in ASKS_FOR_ZONE and zone_notes(profile, arguments.get("timezone"), _time_of(name, arguments)):
        missing.append("timezone")
    has_topic = profile.default_topic or arguments.get("notification_topic") is not None
    if name in ASKS_FOR_TOPIC and not has_topic:
        missing.append("topic")
    return missing if missing and _are_valid(name, arguments) else []


def _are_valid(name: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether the tool accepts the arguments; those that a person is asked for are optional."""
    try:
        build_tool(OFFER_BY_NAME[name]).fn_metadata.validate_arguments(dict(arguments))
    except ValidationError:
        return False
    return True


def _remember(caller: Caller, given: Mapping[str, str]) -> dict[str, str]:
    """Keep what the person has added; return what is refused, which the tool will refuse in words."""
    refused = {}
    # One by one: a value that is refused does not stop the other.
    for field, value in given.items():
        kept = set_preferences(caller.actor, **{field: zone_named(value) if field == "timezone" else value})
        if isinstance(kept, Err):
            refused[field] = value
    if caller.actor.profile:
        # It was read together with the token, before the answer.
        caller.actor.profile.refresh_from_db()
    return refused


def _time_of(name: str, arguments: Mapping[str, Any]) -> str | None:
    """Return what the call says of the time; None if it says nothing, or something that the tool will refuse."""
    found: Any = None
    match name, arguments:
        case "schedule_job", {"trigger_type": str(kind), "trigger_config": dict(config)}:
            found = local_text(kind, config)
        case "schedule_cron_notification", {"cron": str(cron)} if "TZ=" not in cron:
            found = "9:00"
        case "schedule", {"at": at}:
            found = at
        case "schedule_notification", _:
            found = arguments.get("datetime") or arguments.get("time")
    return found if isinstance(found, str) else None


def _form(missing: list[str]) -> type[BaseModel]:
    fields: dict[str, Any] = {field: (str, FIELDS[field][1]) for field in missing}
    return create_model("Preferences", **fields)
