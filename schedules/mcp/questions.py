"""Questions to the person during a call: for a missing time zone or topic, and for consent to change many jobs.

Not every client can show a question, so no tool depends on an answer.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, TypeVar, cast

from django.db import InterfaceError, OperationalError
from mcp import MCPError
from mcp.server.elicitation import AcceptedElicitation, DeclinedElicitation, render_elicitation_schema
from mcp.server.mcpserver import Context
from mcp_types import (
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import is_version_at_least
from pydantic import BaseModel, Field, ValidationError, create_model

from schedules.mcp.auth import Caller, orm, too_many_calls, with_profile
from schedules.mcp.offers import OFFER_BY_NAME
from schedules.mcp.registration import build_tool, result_of
from schedules.mcp.tools.triggers import local_text, zone_notes
from schedules.result import Err
from schedules.services.people.preferences import Preferences, set_preferences

AnyContext: TypeAlias = Context[dict[str, Any], Any]
Answer: TypeAlias = CallToolResult | InputRequiredResult
Call: TypeAlias = Callable[[dict[str, Any]], Awaitable[Answer]]
Form = TypeVar("Form", bound=BaseModel)

# Since this version, a question is the answer to a call, which the client repeats with the person's reply.
QUESTIONS_IN_ANSWERS = "2026-07-28"
# The preferences that a tool needs where its call names none.
NEEDS = {
    "schedule": ("timezone",),
    "schedule_job": ("timezone",),
    "schedule_notification": ("timezone", "topic"),
    "schedule_cron_notification": ("timezone", "topic"),
    "send_push_notification": ("topic",),
}
# Each preference that may be asked for: its words in a sentence, its field in the form, and the argument that overrides it.
FIELDS: dict[str, tuple[str, Any, str]] = {
    "timezone": (
        "your time zone",
        Field(title="Time zone", description='A city or IANA zone, like "Berlin" or "Europe/Berlin".'),
        "timezone",
    ),
    "topic": (
        "the ntfy topic that you follow",
        Field(title="Topic", description="1 to 64 letters, digits, - and _.", max_length=64),
        "notification_topic",
    ),
}
NEEDS_CONSENT = "bulk_jobs"
# The keys of the questions; the key of a consent ends with its token.
PREFERENCES = "preferences"
CONSENT = "consent:"
NOT_AGREED = "The user was asked and did not agree: nothing has been changed."


class Agreement(BaseModel):
    """The form for a change to many jobs."""

    agree: bool = Field(title="Yes, do it")


DISAGREED = Agreement(agree=False)


async def call_with_questions(
    caller: Caller, context: AnyContext, name: str, arguments: dict[str, Any], call: Call
) -> Answer:
    """Call a tool after the person has answered what it needs from them, or return the question to them."""
    if name == NEEDS_CONSENT:
        return await _call_with_consent(context, arguments, call)
    completed = await _complete_preferences(caller, context, name, arguments)
    return completed if isinstance(completed, InputRequiredResult) else await call(completed)


async def _complete_preferences(
    caller: Caller, context: AnyContext, name: str, arguments: dict[str, Any]
) -> dict[str, Any] | InputRequiredResult:
    """Ask for missing preferences and store them for the tool; return the arguments, or the question to the person.

    The arguments do not change: repeated with the same idempotency key, the call must be the same request.
    """
    missing = await orm(_missing_preferences)(caller, name, arguments) if name in NEEDS else []
    # A question counts as a call, but the request with its answer does not; the tool refuses too many calls.
    is_answered = PREFERENCES in (context.input_responses or {})
    if not missing or (not is_answered and too_many_calls(caller)):
        return arguments
    unknown = " and ".join(FIELDS[field][0] for field in missing)
    message = (
        f"Cronty does not know {unknown}. The answer is kept for later; you can change it in the settings."
    )
    fields: dict[str, Any] = {field: (str, FIELDS[field][1]) for field in missing}
    reply = await _ask(context, PREFERENCES, message, create_model("Preferences", **fields))
    if reply is None or isinstance(reply, InputRequiredResult):
        return reply or arguments
    preferences = {field: value.strip() for field, value in reply.model_dump().items() if value.strip()}
    refused = await orm(_store_preferences)(caller, preferences)
    return arguments | {FIELDS[field][2]: value for field, value in refused.items()}


async def _call_with_consent(context: AnyContext, arguments: dict[str, Any], call: Call) -> Answer:
    """Call the tool that changes many jobs; if it needs a confirmation, ask the person for it."""
    for key, reply in (context.input_responses or {}).items():
        if key.startswith(CONSENT):
            agreement = _read_form(reply, Agreement, declined=DISAGREED)
            confirm = {"confirm": key.removeprefix(CONSENT)} if agreement and agreement.agree else {}
            return _without_confirmation(agreement, await call(arguments | confirm))
    result = await call(arguments)
    plan = _plan_of(result)
    if arguments.get("confirm") is not None or "confirm" not in plan:
        return result
    names = ", ".join(job["name"] for job in plan["jobs"])
    more = " and others" if plan["count"] > len(plan["jobs"]) else ""
    message = f"{str(arguments.get('action')).capitalize()} {plan['count']} jobs? {names}{more}"
    # The key carries the token that proves what was shown; the tool checks it.
    answer = await _ask(context, f"{CONSENT}{plan['confirm']}", message, Agreement, declined=DISAGREED)
    if isinstance(answer, InputRequiredResult):
        return answer
    if answer and answer.agree:
        return await call(arguments | {"confirm": plan["confirm"]})
    return _without_confirmation(answer, result)


def _plan_of(result: Answer) -> dict[str, Any]:
    return (result.structured_content if isinstance(result, CallToolResult) else None) or {}


def _without_confirmation(agreement: Agreement | None, result: Answer) -> Answer:
    """Leave out of a plan how to confirm it, if the person did not agree."""
    plan = _plan_of(result)
    if agreement is None or agreement.agree or "confirm" not in plan:
        return result
    return result_of(
        {name: value for name, value in plan.items() if name != "confirm"} | {"next_step": NOT_AGREED}
    )


async def _ask(
    context: AnyContext, key: str, message: str, form: type[Form], *, declined: Form | None = None
) -> Form | InputRequiredResult | None:
    """Ask the person; return the form as they filled it in, or the question that the call must answer with.

    Return `declined` if they decline, and None if there is no answer.
    """
    if asks_in_answers(context):
        if response := (context.input_responses or {}).get(key):
            return _read_form(response, form, declined=declined)
        question = ElicitRequestFormParams(message=message, requested_schema=render_elicitation_schema(form))
        return InputRequiredResult(input_requests={key: ElicitRequest(params=question)})
    try:
        reply = await context.elicit(message, form)
    except (ValueError, MCPError):
        return None
    if isinstance(reply, DeclinedElicitation):
        return declined
    return reply.data if isinstance(reply, AcceptedElicitation) else None


def _read_form(reply: object, form: type[Form], *, declined: Form | None = None) -> Form | None:
    """Return the form that the person filled in, `declined` if they declined, or None if there is no answer."""
    match reply:
        case ElicitResult(action="decline"):
            return declined
        case ElicitResult(action="accept", content=content):
            try:
                return form.model_validate(content)
            except ValidationError:
                return None
    return None


def asks_in_answers(context: AnyContext) -> bool:
    """Return whether a question is the answer to a call."""
    return is_version_at_least(str(context.protocol_version), QUESTIONS_IN_ANSWERS)


def _missing_preferences(caller: Caller, name: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return the preferences that a valid call needs and nobody has set."""
    try:
        profile = with_profile(caller).actor.read_profile()
    except (OperationalError, InterfaceError):
        # The tool will meet the same error, and answers it.
        return []
    time = _local_time_of(name, arguments)
    is_set = {
        "timezone": not zone_notes(profile, arguments.get("timezone"), time),
        "topic": bool(profile.default_place) or arguments.get("notification_topic") is not None,
    }
    missing = [field for field in NEEDS[name] if not is_set[field]]
    try:
        if missing:
            build_tool(OFFER_BY_NAME[name]).fn_metadata.validate_arguments(dict(arguments))
    except ValidationError:
        return []
    return missing


def _store_preferences(caller: Caller, preferences: Mapping[str, str]) -> dict[str, str]:
    """Store the preferences; return those that are refused, for the tool to explain why."""
    # One by one: store the other even if one is refused.
    refused = {
        field: value
        for field, value in preferences.items()
        if isinstance(set_preferences(caller.actor, **cast(Preferences, {field: value})), Err)
    }
    if caller.actor.profile:
        # It was read with the token, before the person answered.
        caller.actor.profile.refresh_from_db()
    return refused


def _local_time_of(name: str, arguments: Mapping[str, Any]) -> str | None:
    """Return the time that a call names; None if it names none, or one that the tool will refuse."""
    time: Any = None
    match name, arguments:
        case "schedule_job", {"trigger_type": str(kind), "trigger_config": dict(config)}:
            time = local_text(kind, config)
        case "schedule_cron_notification", {"cron": str(cron)} if "TZ=" not in cron:
            time = "9:00"
        case "schedule", {"at": at}:
            time = at
        case "schedule_notification", _:
            time = arguments.get("datetime") or arguments.get("time")
    return time if isinstance(time, str) else None
