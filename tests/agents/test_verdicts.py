"""At least twelve endings of each program, and the verdict of each; nothing that was refused or said nothing is done."""

import pytest

from schedules.agents.adapters import ADAPTERS
from schedules.agents.recording import Bounds, Recorder
from schedules.agents.verdicts import Ending, Judgement, Verdict, judge
from schedules.tasks.commands.output import KeptOutput
from tests.agents.streams import COMMON, ERROR_LINES, OWN, as_bytes, lines_of

CASES = [
    pytest.param(kind, name, *expected, id=f"{kind}: {name}")
    for kind in ADAPTERS
    for name, expected in (COMMON | OWN[kind]).items()
]


def record(kind: str, data: bytes, errors: str = "", pieces: int = 1_000_000) -> Recorder:
    recorder = Recorder(ADAPTERS[kind], KeptOutput(10_000), Bounds(), lambda: None)
    for start in range(0, len(data), pieces):
        recorder.add(1, data[start : start + pieces])
    recorder.add(2, errors.encode())
    recorder.finish()
    return recorder


def verdict_of(kind: str, name: str, ending: Ending, pieces: int = 1_000_000) -> Judgement:
    recorder = record(kind, as_bytes(lines_of(kind, name)), ERROR_LINES.get((kind, name), ""), pieces)
    return judge(recorder.report, ending, tells_all_at_end=ADAPTERS[kind].tells_all_at_end)


@pytest.mark.parametrize(("kind", "name", "ending", "verdict"), CASES)
def test_every_ending_has_its_verdict(kind: str, name: str, ending: Ending, verdict: Verdict):
    if (kind, name) in (("opencode", "no last line"),):
        # Its last line but one also says that it ended: older versions stop there.
        recorder = record(kind, as_bytes(lines_of(kind, name)[:-1]))
        assert judge(recorder.report, ending).verdict == verdict
        return

    judged = verdict_of(kind, name, ending)

    assert judged.verdict == verdict
    assert bool(judged.reason) == (verdict not in (Verdict.DONE, Verdict.NOTHING_TO_DO))


def test_lines_may_come_in_any_pieces():
    for kind in ADAPTERS:
        for pieces in (1, 7, 100):
            assert verdict_of(kind, "denied", Ending(), pieces).verdict == Verdict.REFUSED
            assert verdict_of(kind, "done", Ending(), pieces).verdict == Verdict.DONE


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (
            "claude",
            "It ended after 2 turns: permission for `Bash: git push origin main` was not granted.",
        ),
        ("opencode", "It ended after 2 turns: permission for `bash: git push origin main` was not granted."),
    ],
)
def test_refusal_names_the_call(kind: str, words: str):
    assert verdict_of(kind, "denied", Ending()).reason == words


def test_question_of_an_agent_is_in_the_words():
    assert verdict_of("claude", "asks a person", Ending()).reason == (
        "It ended after 2 turns: it asks: which one shall I send?"
    )


@pytest.mark.parametrize("kind", ADAPTERS)
def test_turns_tokens_money_and_tools_are_counted(kind: str):
    report = record(kind, as_bytes(lines_of(kind, "done"))).report

    session_tokens = report.session_tokens or report.tokens
    assert session_tokens == 2040
    assert report.turns == (1 if kind == "codex" else 2)
    assert report.cost == {"claude": 0.011, "opencode": 0.003}.get(kind)
    assert [use.input for use in report.tools] == ["git push origin main"]
    assert report.answer.endswith("Two files moved.")


def test_broken_and_hostile_lines_are_never_success():
    for data in [
        b"not json\n{half",
        b'{"type": "result", "usage": 7, "modelUsage": [1], "permission_denials": {"a": 1}}\n',
        b'{"type": "assistant", "message": {"content": [null, 3, {"type": "tool_use", "input": [[]]}]}}\n',
        b'{"type": "message", "message": {"role": "assistant", "content": [{"type": "toolRequest"}]}}\n',
        b'{"type": "step_finish", "part": {"tokens": {"input": 1e400, "cache": []}, "cost": NaN}}\n',
        b'{"type": "turn.completed", "usage": {"input_tokens": -5, "output_tokens": true}}\n',
        b'{"type": "item.completed", "item": {"type": "command_execution", "command": {"a": "\\u0000"}}}\n',
        b'{"type": "result", "result": "\\ud800", "total_cost_usd": Infinity}\n',
        b"[" * 100_000 + b"\n",
        b"\xff\xfe\n" * 10,
    ]:
        for kind in ADAPTERS:
            recorder = record(kind, data)

            verdict = judge(recorder.report, Ending(), tells_all_at_end=False).verdict

            assert verdict not in (Verdict.DONE, Verdict.NOTHING_TO_DO)
            assert recorder.report.tokens_in < 10**15
