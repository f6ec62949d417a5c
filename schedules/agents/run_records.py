"""The stored record of a run: what its agent has done so far, with secrets masked, as columns of `AgentRun`."""

import asyncio
from collections.abc import Iterable
from typing import Any

from schedules import clock, limits
from schedules.agents.recording import Recorder
from schedules.agents.reports import Report, ToolUse
from schedules.agents.verdicts import Judgement
from schedules.secrets.masking import Masker
from schedules.tasks.interface import Run

SAVE_SECONDS = 1.0


class RunRecord:
    """Saves the progress and the end of one attempt of a run."""

    def __init__(self, name: str, kind: str, run: Run) -> None:
        self._name, self._kind, self._run = name, kind, run
        self._started_at, self._is_waiting = clock.now(), True
        self.masker = Masker()
        """Masks the secrets of the run, once they are known."""

    def start(self) -> None:
        """Note that the program starts now; the time before does not count."""
        self._started_at, self._is_waiting = clock.now(), False

    def mask(self, text: str) -> str:
        return limits.strip_unprintable(self.masker.mask(text))

    async def save(self, report: Report, judgement: Judgement | None = None, cap: str = "") -> None:
        """Save what the program has reported; a judgement, or a used-up limit of the day, ends the run."""
        values = {
            "runner": self._name,
            "kind": self._kind,
            "started_at": self._started_at,
            "is_waiting": self._is_waiting,
            "ended_at": clock.now() if judgement or cap else None,
            "cap": cap,
            "verdict": judgement.verdict if judgement else "",
            "words": self.mask(judgement.reason) if judgement else "",
            "program_version": self.mask(report.version)[:40],
            "session_id": self.mask(report.session_id)[:200],
            "turns": report.turns,
            "tokens_in": report.tokens_in,
            "tokens_out": report.tokens_out,
            "cost": None if report.cost is None else round(report.cost, 6),
            "session_cost": None if report.session_cost is None else round(report.session_cost, 6),
            "session_tokens": report.session_tokens,
            "tool_calls": report.tool_calls,
            "tools": self._masked_uses(report.tools),
            "denials": self._masked_uses(report.denials),
            "answer": self.mask(report.answer),
        }
        await asyncio.shield(self._run.save_agent_run(values))

    async def keep_saving(self, recorder: Recorder) -> None:
        """Save the output and the report once a second while they change."""
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            if recorder.is_changed:
                recorder.is_changed = False
                await self._run.save_output(recorder.output.text)
                await self.save(recorder.report)

    def _masked_uses(self, uses: Iterable[ToolUse]) -> list[Any]:
        return [{key: self.mask(text) for key, text in use.as_json().items()} for use in uses]
