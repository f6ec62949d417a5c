"""What a tool can do during a call besides answering: report progress, and ask the person behind the agent.

Not every client can show progress or a question, so no tool depends on either.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar

from mcp import MCPError
from mcp.server.elicitation import AcceptedElicitation, DeclinedElicitation, render_elicitation_schema
from mcp.server.mcpserver import Context
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from mcp_types.version import is_version_at_least
from pydantic import BaseModel, ValidationError

AnyContext: TypeAlias = Context[dict[str, Any], Any]
Form = TypeVar("Form", bound=BaseModel)

# Since then, a question is the answer to a call, which the client repeats with the person's reply.
QUESTIONS_IN_ANSWERS = "2026-07-28"

_current: ContextVar[AnyContext | None] = ContextVar("conversation", default=None)


@contextmanager
def conversing(context: AnyContext | None) -> Iterator[None]:
    """Make this the conversation of the current call."""
    before = _current.set(context)
    try:
        yield
    finally:
        _current.reset(before)


async def report_progress(done: float, total: float, words: str) -> None:
    """Tell the client how far the current call is, if it wants to know."""
    if context := _current.get():
        await context.report_progress(done, total, words)


def can_ask(context: AnyContext) -> bool:
    """Return whether the client can show a form to the person."""
    if context.protocol_version is None:
        return False
    capabilities = context.client_capabilities
    elicitation = capabilities.elicitation if capabilities else None
    # Before there were two kinds of questions, the capability had no fields and meant forms.
    has_forms = elicitation is not None and (elicitation.form is not None or elicitation.url is None)
    return has_forms and (_asks_in_answers(context) or context.session.can_send_request)


async def ask(
    context: AnyContext, key: str, message: str, form: type[Form], *, declined: Form | None = None
) -> Form | InputRequiredResult | None:
    """Ask the person; return the filled form, or the question that the call must answer with.

    Return `declined` if they decline, and None if there is no answer.
    """
    if not _asks_in_answers(context):
        try:
            reply = await context.elicit(message, form)
        except (ValueError, MCPError):
            return None
        if isinstance(reply, DeclinedElicitation):
            return declined
        return reply.data if isinstance(reply, AcceptedElicitation) else None
    given = (context.input_responses or {}).get(key)
    if given is None:
        question = ElicitRequestFormParams(message=message, requested_schema=render_elicitation_schema(form))
        return InputRequiredResult(input_requests={key: ElicitRequest(params=question)})
    return filled(given, form, declined=declined)


def filled(reply: object, form: type[Form], *, declined: Form | None = None) -> Form | None:
    """Return the form that the person filled in, `declined` if they declined, or None if there is no answer."""
    if isinstance(reply, ElicitResult) and reply.action == "decline":
        return declined
    if not isinstance(reply, ElicitResult) or reply.action != "accept":
        return None
    try:
        return form.model_validate(reply.content)
    except ValidationError:
        return None


def _asks_in_answers(context: AnyContext) -> bool:
    return is_version_at_least(str(context.protocol_version), QUESTIONS_IN_ANSWERS)
