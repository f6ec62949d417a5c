"""The flight recorder: limits from the stream, gaps, long lines, and a transcript for people."""

import json

import pytest

from schedules.agents.adapters import ADAPTERS
from schedules.agents.recording import LONGEST_LINE, Bounds, Recorder
from schedules.tasks.commands.output import KeptOutput
from tests.agents.streams import as_bytes, lines_of

NO_BOUNDS = Bounds()


def recorder_of(kind: str | None, bounds: Bounds = NO_BOUNDS, secrets: tuple[str, ...] = ()) -> Recorder:
    stops: list[int] = []
    recorder = Recorder(
        ADAPTERS[kind] if kind else None, KeptOutput(10_000, secrets), bounds, lambda: stops.append(1)
    )
    recorder.stops = stops  # type: ignore[attr-defined]
    return recorder


@pytest.mark.parametrize(
    ("bounds", "limit"),
    [(Bounds(turns=1), "turns"), (Bounds(tokens=1500), "tokens"), (Bounds(money=0.001), "money")],
)
def test_program_is_stopped_once_when_a_limit_is_passed(bounds: Bounds, limit: str):
    recorder = recorder_of("opencode", bounds)

    recorder.add(1, as_bytes(lines_of("opencode", "done")))

    assert recorder.stopped_for == limit
    assert recorder.stops == [1]  # type: ignore[attr-defined]


def test_transcript_shows_texts_tools_and_results():
    recorder = recorder_of("claude")

    recorder.add(1, as_bytes(lines_of("claude", "denied")))
    recorder.finish()

    shown = recorder.output.text.head + recorder.output.text.tail
    assert "→ Bash: git push origin main" in shown
    assert "  Permission denied" in shown
    assert "Two files moved." in shown


def test_secret_in_a_line_of_json_is_masked_in_the_transcript():
    recorder = recorder_of("claude", secrets=("hush-hush-42",))
    text = {
        "type": "assistant",
        "message": {"id": "1", "content": [{"type": "text", "text": "key hush-hush-42!"}]},
    }

    recorder.add(1, json.dumps(text).encode() + b"\n")
    recorder.finish()

    assert recorder.output.text.head == "key ••••••!\n"


def test_gap_drops_the_broken_line_and_is_remembered():
    recorder = recorder_of("codex")
    data = as_bytes(lines_of("codex", "done"))

    recorder.add(1, data[:100])
    recorder.skip(1, 5000)
    recorder.add(1, b'the end of a line"}\n' + data[100:].partition(b"\n")[2])
    recorder.finish()

    assert recorder.has_gap
    assert recorder.report.has_ended


def test_endless_line_is_given_up():
    recorder = recorder_of("claude")

    for _ in range(LONGEST_LINE // 1_000_000 + 2):
        recorder.add(1, b"x" * 1_000_000)
    recorder.add(1, b"\n" + as_bytes(lines_of("claude", "done")))
    recorder.finish()

    assert recorder.has_gap
    assert recorder.report.has_ended


def test_without_an_adapter_everything_is_the_answer():
    recorder = recorder_of(None)

    recorder.add(1, "Grü".encode()[:3])
    recorder.add(1, "Grü".encode()[3:] + b"\x1b[31mred\x1b[0m\n")
    recorder.add(2, b"warning\n")
    recorder.finish()

    assert recorder.report.answer == "Grüred\n"
