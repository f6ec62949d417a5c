"""An output on a page: numbered lines, in the colours in which it was printed."""

import pytest

from schedules.services.runs.outputs import OutputPart
from schedules.templatetags import cronty_logs
from schedules.templatetags.cronty_logs import Pen, numbered_lines


def shown(text: str, *colours: tuple[int, str]) -> str:
    return numbered_lines(OutputPart(text, len(text), 1, is_ended=True, colours=colours))


def test_output_stays_text():
    assert "<b>" not in numbered_lines("<b>\nx")
    assert "<b>" not in shown("<b>\nx", (0, "31"), (1, '1"'))


def test_colour_lasts_until_it_ends_also_over_lines():
    page = shown("ok bad\nworse fine", (3, "31"), (12, "0"))

    assert 'ok <span class="a-red">bad</span></span>\n' in page
    assert '<span class="a-red">worse</span> fine</span>' in page


def test_numbers_are_those_of_the_whole_text(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cronty_logs, "NUMBERED_LINES", 1)

    page = shown("one\ntwo", (0, "32"))

    assert 'id="L2"' in page
    assert '<span class="a-green">two</span>' in page
    assert "one" not in page


def test_codes_set_classes():
    for codes, classes in [
        ("31", "a-red"),
        ("01;91", "a-bold a-red"),
        ("1;4;32", "a-bold a-under a-green"),
        ("38;5;4", "a-blue"),
        ("38;5;200", ""),
        ("38;2;1;2;3;33", "a-yellow"),
        ("48;5;1;36", "a-cyan"),
        ("37", ""),
        ("", ""),
        ("38", ""),
        ("38;5", ""),
        ("38;5;;", ""),
        ("38;5;99999999999", ""),
        ("777;x", ""),
    ]:
        pen = Pen()
        pen.apply(codes)

        assert pen.classes == classes


def test_codes_end_styles():
    for code, classes in [("0", ""), ("39", "a-bold"), ("22", "a-red"), ("", "")]:
        pen = Pen()
        pen.apply("1;31")
        pen.apply(code)

        assert pen.classes == classes
