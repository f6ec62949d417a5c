"""Verdicts: judge how a run ended from what its program reported, never from its exit code alone."""

from typing import NamedTuple

from schedules.agents.prompt_texts import question_in, says_nothing_to_do
from schedules.agents.reports import Report, ToolUse
from schedules.models import AgentRun

Verdict = AgentRun.Verdict


class Ending(NamedTuple):
    """How the process of a program ended, as far as Cronty knows."""

    code: int | None = 0
    signal: str = ""
    stopped_for: str = ""
    """Which limit Cronty stopped it for: time, turns, tokens or money."""
    has_gap: bool = False
    """Whether a part of its output was lost, because there was too much of it."""
    final_output: str = ""
    """The end of its error output, or of its output if there was none."""


class Judgement(NamedTuple):
    """A verdict and a sentence that says why; the sentence is empty if all is well."""

    verdict: AgentRun.Verdict
    reason: str = ""


def judge(report: Report, ending: Ending, *, tells_all_at_end: bool = True) -> Judgement:
    """Judge a run: success needs a last line from the program itself, an answer, and no refusal."""
    if ending.stopped_for == "time":
        return Judgement(Verdict.TIMED_OUT, _after(report, "it did not finish in time and was stopped"))
    if report.cap:
        return Judgement(Verdict.OVER_BUDGET, _after(report, report.cap))
    if ending.stopped_for:
        return Judgement(Verdict.OVER_BUDGET, _after(report, f"it used up its {ending.stopped_for}"))
    if report.deferred:
        return Judgement(
            Verdict.NEEDS_YOU, _after(report, f"it waits for permission for {_quoted(report.deferred)}")
        )
    if report.problem:
        return Judgement(Verdict.FAILED, _after(report, report.problem))
    if report.denials:
        return Judgement(Verdict.REFUSED, _after(report, _denied(report.denials)))
    if ending.signal or ending.code:
        how = f"it was killed by {ending.signal}" if ending.signal else f"it ended with code {ending.code}"
        return Judgement(
            Verdict.FAILED, _after(report, f"{how}: {ending.final_output}" if ending.final_output else how)
        )
    if not report.has_ended:
        return Judgement(Verdict.UNKNOWN, _after(report, "it ended without saying how"))
    if ending.has_gap and not tells_all_at_end:
        return Judgement(
            Verdict.UNKNOWN, _after(report, "it wrote more than could be read, so a refusal may be missing")
        )
    return _judge_answer(report)


def _judge_answer(report: Report) -> Judgement:
    if not report.answer.strip():
        return Judgement(Verdict.UNKNOWN, _after(report, "its answer is empty"))
    if says_nothing_to_do(report.answer):
        return Judgement(Verdict.NOTHING_TO_DO)
    if question := question_in(report.answer):
        choices = f" [{' | '.join(question.choices)}]" if question.choices else ""
        return Judgement(Verdict.NEEDS_YOU, _after(report, f"it asks: {question.text}{choices}"))
    return Judgement(Verdict.DONE)


def _after(report: Report, what: str) -> str:
    turns = f"It ended after {report.turns:,} turn{'' if report.turns == 1 else 's'}: {what}"
    sentence = turns if report.turns else f"{what[:1].upper()}{what[1:]}"
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def _denied(denials: list[ToolUse]) -> str:
    others = len({use.label for use in denials}) - 1
    more = f" and {others} more" if others else ""
    return f"permission for {_quoted(denials[0])}{more} was not granted"


def _quoted(use: ToolUse) -> str:
    return f"`{use.label[:300]}`"
