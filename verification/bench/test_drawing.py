import xml.etree.ElementTree as ElementTree

import pytest

from verification.bench import drawing

SVG = "{http://www.w3.org/2000/svg}"


def test_bars_are_longer_for_larger_values_and_escaped():
    svg = drawing.bars(
        "Late & early",
        {"SQLite": [drawing.Bar("<quick>", 0.002, "2 ms"), drawing.Bar("slow", 2.0, "2 s", middle=0.5)]},
        note="Logarithmic.",
    )

    root = ElementTree.fromstring(svg)  # noqa: S314
    texts = [text.text for text in root.iter(f"{SVG}text")]
    widths = [float(bar.get("width", "")) for bar in root.iter(f"{SVG}rect") if bar.get("rx") == "2"]
    assert widths[0] < widths[1]
    assert {"Late & early", "<quick>", "1 ms", "10 s", "Logarithmic."} <= set(texts)


def test_charts_follow_the_theme_of_the_reader():
    svg = drawing.lines("Rate", {"SQLite": [(1, 10), (10, 20)]}, across="per second", up="ms", limit=15)

    assert "prefers-color-scheme: dark" in svg


def test_legend_of_many_lines_fits():
    names = [f"pages, slowest {number}" for number in range(6)]
    svg = drawing.lines("Rate", {name: [(1, 10), (10, 20)] for name in names}, across="", up="")

    texts = ElementTree.fromstring(svg).findall(f"{SVG}text")  # noqa: S314
    places = {text.text: float(text.get("x", "0")) for text in texts}
    assert max(places[name] for name in names) < drawing.WIDTH - 100


@pytest.mark.parametrize("is_log", [False, True])
def test_lines_rise_with_their_values(is_log):
    svg = drawing.lines("Rate", {"SQLite": [(1, 10), (10, 2000)]}, across="", up="", is_log_up=is_log)

    line = ElementTree.fromstring(svg).find(f"{SVG}polyline")  # noqa: S314
    assert line is not None
    (left, low), (right, high) = (map(float, point.split(",")) for point in line.get("points", "").split())
    assert left < right
    assert low > high


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.0123, "0.012"), (1, "1"), (3.44, "3.4"), (1234.5, "1,234"), (100, "100")]
)
def test_number_keeps_the_digits_that_matter(value, text):
    assert drawing.number(value) == text
