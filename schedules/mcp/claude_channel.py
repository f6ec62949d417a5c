"""A channel of Claude Code, experimental: announce due prompts to the session that has started this server.

`mcp_serve --claude-channel` switches it on. It only announces prompts: whoever claims one first works on it.
"""

import logging
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification

from schedules.mcp.answers import line
from schedules.mcp.auth import Caller, current_caller
from schedules.mcp.orm import orm
from schedules.models import Execution
from schedules.services.runs.prompts import MAX_UNCLAIMED, Due, due_prompts, read_prompts

CAPABILITY = "claude/channel"
METHOD = "notifications/claude/channel"
POLL_SECONDS = 1.0
# Prompts per poll; the next polls announce the others.
MAX_PER_POLL = 20
# While so many announced prompts wait, no others are announced.
MAX_ANNOUNCED = 10_000
_BEFORE_READY = ("initialize", "server/discover", "ping")

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class ClaudeChannel:
    """Announces due prompts to one session."""

    _is_ready: anyio.Event = field(default_factory=anyio.Event)
    _announced: set[Due] = field(default_factory=set)
    _after: Due | None = None
    """The prompt after which the next poll begins: one poll reads only some of them."""

    async def intercept(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Declare the channel, and note when the client is ready, as a middleware of the server."""
        result = await call_next(ctx)
        if ctx.method not in _BEFORE_READY:
            self._is_ready.set()
        if ctx.method in ("initialize", "server/discover") and isinstance(result, dict):
            capabilities = result.get("capabilities", {})
            experimental = {**(capabilities.get("experimental") or {}), CAPABILITY: {}}
            return result | {"capabilities": {**capabilities, "experimental": experimental}}
        return result

    async def push(self, stream: MemoryObjectSendStream[SessionMessage]) -> None:
        """Announce prompts that are due, until the session ends."""
        async with stream:
            await self._is_ready.wait()
            while True:
                try:
                    rows = await orm(self._next_prompts)()
                except Exception:
                    # The database will come back.
                    logger.exception("Looking for prompts failed; trying again")
                    rows = []
                for row in rows:
                    await stream.send(SessionMessage(message_of(row)))
                await anyio.sleep(POLL_SECONDS)

    def _next_prompts(self) -> list[Execution]:
        """Return due prompts that were not announced yet."""
        caller = current_caller()
        if caller is None or not _may_claim(caller):
            return []
        due = due_prompts(caller.actor, self._after)
        until = due[-1] if len(due) == MAX_UNCLAIMED else None
        # Forget claimed prompts: they are announced again if their lease ends.
        self._announced -= {each for each in self._announced if self._is_between(each, until)}.difference(due)
        unannounced = [each for each in due if each not in self._announced]
        new = unannounced[: min(MAX_PER_POLL, MAX_ANNOUNCED - len(self._announced))]
        self._announced.update(new)
        if len(new) == len(unannounced) or not new:
            self._after = until
        return read_prompts(new)

    def _is_between(self, due: Due, until: Due | None) -> bool:
        return (self._after is None or due > self._after) and (until is None or due <= until)


def message_of(row: Execution) -> JSONRPCNotification:
    """Return the notification for a prompt; its text comes with the claim."""
    name = line(row.job_name, 200)
    content = (
        f'The prompt "{name}" is due (run {row.pk}). Call claim_prompts to take it, and complete_prompt when it is done. '
        "If nothing is left to claim, somebody else works on it."
    )
    meta = {"run": str(row.pk), "job": row.job.public_id if row.job else "", "event": "prompt_due"}
    return JSONRPCNotification(jsonrpc="2.0", method=METHOD, params={"content": content, "meta": meta})


def _may_claim(caller: Caller) -> bool:
    return caller.may("write", ("prompts",))
