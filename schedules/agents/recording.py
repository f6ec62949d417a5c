"""The record of a run: read what a program prints, stop it at its limits, and save what it has done, with secrets masked."""

import asyncio
import codecs
import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from schedules import clock, limits
from schedules.agents.adapters.base import Adapter
from schedules.agents.reports import LONGEST_ANSWER, Report, ToolUse
from schedules.agents.verdicts import Judgement
from schedules.secrets.masking import Masker
from schedules.tasks.commands.output import KeptOutput
from schedules.tasks.interface import Run
from schedules.tasks.processes.running import STANDARD_OUTPUT

LONGEST_LINE = 4_000_000
LONGEST_ERROR_LINE = 10_000
SAVE_SECONDS = 1.0


class Bounds(NamedTuple):
    """How much one run may use; None means unlimited."""

    turns: int | None = None
    tokens: int | None = None
    money: float | None = None

    def reached(self, report: Report) -> str:
        """Return what is used up, or an empty text."""
        if self.turns is not None and report.turns > self.turns:
            return "turns"
        if self.tokens is not None and report.tokens > self.tokens:
            return "tokens"
        if self.money is not None and (report.cost or 0.0) > self.money:
            return "money"
        return ""


class Recorder:
    """Takes the output of a program; without an adapter, all of its standard output is the answer."""

    def __init__(
        self,
        adapter: Adapter | None,
        output: KeptOutput,
        bounds: Bounds,
        stop: Callable[[], object],
        report: Report | None = None,
    ) -> None:
        self.report = report or Report()
        self.output = output
        self.has_gap = False
        self.stopped_for = ""
        """The limit that the program was stopped for, or an empty text."""
        self.is_changed = False
        self._adapter, self._bounds, self._stop = adapter, bounds, stop
        self._line, self._error_line = bytearray(), bytearray()
        self._is_within_lost_line = False
        self._text = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, stream: int, data: bytes) -> None:
        """Take what was printed on standard output (1) or error (2)."""
        self.is_changed = True
        if stream != STANDARD_OUTPUT:
            self.output.add(stream, data)
            self._read_error_lines(data)
        elif self._adapter is None:
            self.output.add(stream, data)
            if not self.has_gap and len(self.report.answer) < LONGEST_ANSWER:
                self.report.answer += self._text.decode(data)
        else:
            self._read_lines(self._adapter, data)

    def skip(self, stream: int, count: int) -> None:
        """Note that so many bytes of this stream were dropped."""
        self.output.skip(stream, count)
        self.is_changed = True
        if stream == STANDARD_OUTPUT:
            self.has_gap = True
            self._line.clear()
            self._is_within_lost_line = True
        else:
            self._error_line.clear()

    def finish(self) -> None:
        """Read the rest after the last line break, and complete the report."""
        if self._adapter is None:
            self.report.has_ended = True
            cleaned = limits.clean_output(self.report.answer)
            self.report.answer = limits.shortened(cleaned, LONGEST_ANSWER, is_cut=self.has_gap)
        else:
            self._read_lines(self._adapter, b"\n")
        self._read_error_lines(b"\n")
        self.output.finish()

    def _read_lines(self, adapter: Adapter, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._line += line
            if not self._is_within_lost_line:
                self._read_line(adapter, bytes(self._line))
            self._line.clear()
            self._is_within_lost_line = False
        if len(self._line) + len(rest) > LONGEST_LINE:
            self.has_gap = self._is_within_lost_line = True
            self._line.clear()
        elif not self._is_within_lost_line:
            self._line += rest

    def _read_line(self, adapter: Adapter, line: bytes) -> None:
        try:
            event: Any = json.loads(line)
        except (ValueError, RecursionError):
            event = None
        if isinstance(event, dict):
            shown = adapter.read(event, self.report)
        else:
            # A banner, a warning, or a part of a line.
            shown = f"{line.decode(errors='replace')}\n" if line.strip() else ""
        if shown:
            self.output.add(STANDARD_OUTPUT, shown.encode("utf-8", "replace"))
        if not self.stopped_for and (reached := self._bounds.reached(self.report)):
            self.stopped_for = reached
            self._stop()

    def _read_error_lines(self, data: bytes) -> None:
        if self._adapter is None:
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._error_line += line
            text = self._error_line[:LONGEST_ERROR_LINE].decode(errors="replace")
            self._adapter.read_error_line(text, self.report)
            self._error_line.clear()
        self._error_line += rest[: LONGEST_ERROR_LINE - len(self._error_line)]


class RunRecord:
    """Saves the progress and the end of one attempt of a run, as columns of `AgentRun`."""

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
