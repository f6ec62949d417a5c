"""A channel of Claude Code, experimental: prompts that are due are pushed into the session that has started this server.

`mcp_serve --claude-channel` switches it on. It only tells the session: whoever claims the prompt first works on it.
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
from schedules.services.runs.prompts import MOST_UNCLAIMED, Due, due_prompts, read_prompts

CAPABILITY = "claude/channel"
METHOD = "notifications/claude/channel"
LOOK_SECONDS = 1.0
# How many prompts one look tells of; the next looks tell of the others.
MOST_AT_ONCE = 20
# While so many that were told wait, no others are told.
MOST_REMEMBERED = 10_000
_GREETINGS = ("initialize", "server/discover", "ping")

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class ClaudeChannel:
    """What one session was told."""

    _is_ready: anyio.Event = field(default_factory=anyio.Event)
    _told: set[Due] = field(default_factory=set)
    _after: Due | None = None
    """Behind which prompt the next look begins: one look is about few of them."""

    async def introduce(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Declare the channel, and note when the client is ready, as a middleware of the server."""
        result = await call_next(ctx)
        if ctx.method not in _GREETINGS:
            self._is_ready.set()
        if ctx.method in ("initialize", "server/discover") and isinstance(result, dict):
            known = result.get("capabilities", {})
            experimental = {**(known.get("experimental") or {}), CAPABILITY: {}}
            return result | {"capabilities": {**known, "experimental": experimental}}
        return result

    async def push(self, stream: MemoryObjectSendStream[SessionMessage]) -> None:
        """Tell of prompts that are due, until the session ends."""
        async with stream:
            await self._is_ready.wait()
            while True:
                try:
                    rows = await orm(self._new)()
                except Exception:
                    # The database will come back.
                    logger.exception("Looking for prompts failed; trying again")
                    rows = []
                for row in rows:
                    await stream.send(SessionMessage(message_of(row)))
                await anyio.sleep(LOOK_SECONDS)

    def _new(self) -> list[Execution]:
        """Return the prompts that are due and that the session has not heard of."""
        caller = current_caller()
        if caller is None or not _may_claim(caller):
            return []
        due = due_prompts(caller.actor, self._after)
        until = due[-1] if len(due) == MOST_UNCLAIMED else None
        # What an agent has claimed is told again if its lease ends.
        self._told -= {each for each in self._told if self._is_between(each, until)}.difference(due)
        untold = [each for each in due if each not in self._told]
        new = untold[: min(MOST_AT_ONCE, MOST_REMEMBERED - len(self._told))]
        self._told.update(new)
        if len(new) == len(untold) or not new:
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
