"""The MCP server: its description, the tools and prompts that each caller sees, and how it calls them."""

import functools
from collections.abc import Collection, Sequence
from typing import Any

from django.conf import settings
from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.auth.settings import AuthSettings
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolResult,
    GetPromptResult,
    Icon,
    InputRequiredResult,
    TextContent,
)
from mcp_types import Prompt as PromptEntry
from mcp_types import Tool as ToolEntry
from pydantic import AnyHttpUrl, ValidationError

from schedules import __version__
from schedules.mcp.apps import pages
from schedules.mcp.argument_errors import argument_problems, refused_arguments
from schedules.mcp.auth import CrontyTokens, current_caller, too_many_calls
from schedules.mcp.offers import OFFER_BY_NAME, OFFERS, WORDING, Offer
from schedules.mcp.questions import AnyContext, asks_in_answers, call_with_questions
from schedules.mcp.registration import build_tool, wording_for
from schedules.mcp.resources import add_resources
from schedules.mcp.stdio import standard_streams
from schedules.mcp.subscriptions import SubscriptionHub
from schedules.mcp.wording import INSTRUCTIONS, PROMPTS, add_prompts
from schedules.services.people.connected_apps import mcp_address
from schedules.services.people.tokens import FAMILIES


class CrontyServer(MCPServer[dict[str, Any]]):
    """The SDK's server, which shows each caller only permitted tools and names invalid arguments."""

    offers: Sequence[Offer] = OFFERS
    """The tools of this server; a caller may be permitted fewer."""
    hub: SubscriptionHub

    async def list_tools(self) -> list[ToolEntry]:
        offered = self._offered()
        return [
            tool.model_copy(update={"description": description, "input_schema": schema})
            for tool in await super().list_tools()
            if tool.name in offered
            for description, schema in [wording_for(offered, tool.name)]
        ]

    def _offered(self) -> frozenset[str]:
        """Return the names of the tools that the caller may use."""
        caller = current_caller()
        return frozenset(
            offer.name for offer in self.offers if caller and caller.may(offer.scope, offer.families)
        )

    async def intercept(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Serve subscriptions, and adapt the instructions to the tools that the caller is offered, as a middleware."""
        if ctx.method == "subscriptions/listen":
            return await self.hub.listen(ctx, call_next)
        result = await call_next(ctx)
        if ctx.method in ("initialize", "server/discover") and isinstance(result, dict):
            return result | {"instructions": WORDING.text_for(self._offered(), INSTRUCTIONS)}
        return result

    async def list_prompts(self) -> list[PromptEntry]:
        offered = self._offered()
        return [
            prompt
            for prompt in await super().list_prompts()
            if WORDING.mentioned(PROMPTS[prompt.name]) <= offered
        ]

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[dict[str, Any], Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        caller, offer = current_caller(), OFFER_BY_NAME.get(name)
        if offer and caller and not caller.is_offered(offer.families):
            raise ToolError(f"Unknown tool: {name}")
        is_permitted = offer and caller and caller.may(offer.scope, offer.families)
        call = functools.partial(super().call_tool, name, context=context)
        try:
            if caller and is_permitted and context and _can_ask(context):
                return await call_with_questions(caller, context, name, arguments, call)
            return await call(arguments)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(error, UnexpectedToolError) or not isinstance(cause, ValidationError):
                raise
            refusal = too_many_calls(caller) if caller else None
            if refusal is None:
                accepted = build_tool(OFFER_BY_NAME[name]).parameters["properties"]
                return refused_arguments(name, argument_problems(cause, name, accepted, self._offered()))
            text = TextContent(type="text", text=refusal.text)
            return CallToolResult(content=[text], is_error=True)

    async def run_stdio_async(self) -> None:
        with standard_streams():
            await super().run_stdio_async()

    async def get_prompt(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        context: Context[dict[str, Any], Any] | None = None,
    ) -> GetPromptResult | InputRequiredResult:
        if name in PROMPTS and not WORDING.mentioned(PROMPTS[name]) <= self._offered():
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown prompt: {name}")
        try:
            return await super().get_prompt(name, arguments, context)
        except ValueError as error:
            if str(error).startswith("Unknown prompt"):
                raise MCPError(code=INVALID_PARAMS, message=str(error)) from error
            if arguments:
                message = f"The prompt {name} takes no arguments: leave out {next(iter(arguments))[:100]}"
                raise MCPError(code=INVALID_PARAMS, message=message) from error
            raise MCPError(code=INTERNAL_ERROR, message="The prompt could not be made") from error


def _can_ask(context: AnyContext) -> bool:
    """Return whether the client can show a form to the person."""
    if context.protocol_version is None:
        return False
    capabilities = context.client_capabilities
    elicitation = capabilities.elicitation if capabilities else None
    # Before there were two kinds of questions, the capability had no fields and meant forms.
    has_forms = elicitation is not None and (elicitation.form is not None or elicitation.url is None)
    return has_forms and (asks_in_answers(context) or context.session.can_send_request)


def build_server(*, families: Collection[str] = FAMILIES, with_tokens: bool = False) -> CrontyServer:
    """Build the server; with tokens, every call needs one, else the user who started the process is the caller."""
    hub = SubscriptionHub()
    offers = [offer for offer in OFFERS if offer.families & set(families)]
    access: dict[str, Any] = {}
    if with_tokens:
        # Without resource_server_url, clients do not look for an authorization server.
        auth = AuthSettings(
            issuer_url=AnyHttpUrl(settings.CRONTY_URL),
            resource_server_url=AnyHttpUrl(mcp_address()) if settings.CRONTY_OAUTH else None,
            # The verifier checks it: tokens that a person has copied are not for one resource.
            validate_token_resource=False,
        )
        access = {"auth": auth, "token_verifier": CrontyTokens(families)}
    server = CrontyServer(
        "cronty",
        title="Cronty",
        description="A scheduler for people and their agents.",
        instructions=INSTRUCTIONS,
        version=__version__,
        website_url=settings.CRONTY_URL,
        # An address instead of the image: every answer carries it.
        icons=[Icon(src=f"{settings.CRONTY_URL}/favicon.ico", mime_type="image/x-icon", sizes=["32x32"])],
        extensions=[pages()],
        tools=[build_tool(offer) for offer in offers],
        subscriptions=hub,
        lifespan=hub.lifespan,
        log_level="WARNING",
        **access,
    )
    server.offers, server.hub = offers, hub
    server.middleware.append(server.intercept)
    add_resources(server)
    add_prompts(server)
    return server
