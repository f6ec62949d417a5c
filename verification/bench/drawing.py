"""Charts as SVG files that follow the reader's light or dark theme: bars with a range, and lines."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 760
# The right edge of lines, with room for half of a number below it.
RIGHT = WIDTH - 40
LABELS = 210
FIGURES = 175
ROW = 24
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
STYLE = f"""
  text {{ font: 13px {FONT}; fill: var(--text); }}
  .title {{ font-size: 15px; font-weight: 600; }}
  .muted {{ fill: var(--muted); font-size: 12px; }}
  .ours {{ font-weight: 600; }}
  .grid {{ stroke: var(--grid); stroke-width: 1; }}
  .limit {{ stroke: var(--muted); stroke-width: 1; stroke-dasharray: 5 4; }}
  :root {{ --back: #ffffff; --text: #1f2328; --muted: #59636e; --grid: #e3e6ea; --bar: #a9b3be; --ours: #2563eb;
    --line0: #2563eb; --line1: #c2410c; --line2: #0f766e; --line3: #7c3aed; --line4: #59636e; --line5: #be185d; }}
  @media (prefers-color-scheme: dark) {{
    :root {{ --back: #0d1117; --text: #e6edf3; --muted: #9aa4af; --grid: #2a313a; --bar: #57606b; --ours: #6ea8fe;
      --line0: #6ea8fe; --line1: #fb923c; --line2: #2dd4bf; --line3: #c4b5fd; --line4: #9aa4af; --line5: #f9a8d4; }}
  }}
"""


@dataclass(frozen=True)
class Bar:
    """One row of a bar chart, in seconds; the bar ends at `value`, and a tick inside it shows `middle`."""

    label: str
    value: float | None
    text: str
    middle: float | None = None
    is_ours: bool = False


@dataclass(frozen=True)
class Axis:
    """Maps values to pixels, in equal steps or in powers of ten."""

    low: float
    high: float
    begin: float
    end: float
    is_log: bool

    def place(self, value: float) -> float:
        if self.is_log:
            value = min(max(value, self.low), self.high)
            share = math.log10(value / self.low) / math.log10(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self) -> list[float]:
        if self.is_log:
            powers = range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)
            return [10.0**power for power in powers]
        step = 10 ** math.floor(math.log10((self.high - self.low) / 2))
        while (self.high - self.low) / step > 6:
            step *= 2 if step * 2 * 6 >= self.high - self.low else 5
        return [step * n for n in range(math.ceil(self.low / step), math.floor(self.high / step + 1e-9) + 1)]


def bars(title: str, groups: Mapping[str, Sequence[Bar]], *, note: str = "") -> str:
    """Draw horizontal bars of seconds on a logarithmic axis, in groups with a heading each."""
    values = [bar.value for rows in groups.values() for bar in rows if bar.value]
    middles = [bar.middle for rows in groups.values() for bar in rows if bar.middle]
    axis = _axis([*values, *middles], LABELS, WIDTH - FIGURES, is_log=True)
    parts: list[str] = []
    top = 52
    for heading, rows in groups.items():
        parts.append(f'<text class="muted" x="16" y="{top + 16}">{escape(heading)}</text>')
        top += ROW
        for bar in rows:
            parts += _bar(bar, axis, top)
            top += ROW
        top += 6
    grid = [_vertical(axis, tick, duration(tick), 44, top) for tick in axis.ticks()]
    height = top + 46
    parts.append(f'<text class="muted" x="16" y="{height - 10}">{escape(note)}</text>')
    return _svg(title, height, [*grid, *parts])


def lines(
    title: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    across: str,
    up: str,
    is_log_across: bool = False,
    is_log_up: bool = False,
    limit: float | None = None,
) -> str:
    """Draw one line per name, with a legend, and optionally a dashed line at `limit`."""
    points = [point for line in series.values() for point in line]
    height = 320
    horizontal = _axis([x for x, _ in points], 70, RIGHT, is_log=is_log_across)
    vertical = _axis([y for _, y in points] + ([limit] if limit else []), height - 60, 80, is_log=is_log_up)
    parts = [_vertical(horizontal, tick, number(tick), 80, height - 60) for tick in horizontal.ticks()]
    for tick in vertical.ticks():
        y = vertical.place(tick)
        parts.append(f'<line class="grid" x1="70" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="muted" x="62" y="{y + 4:.1f}" text-anchor="end">{number(tick)}</text>')
    if limit is not None:
        y = vertical.place(limit)
        parts.append(f'<line class="limit" x1="70" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
    # Long names share the width.
    left, room = 16.0, (WIDTH - 16) / len(series)
    for index, (name, line) in enumerate(series.items()):
        colour = f"var(--line{index % 6})"
        path = " ".join(f"{horizontal.place(x):.1f},{vertical.place(y):.1f}" for x, y in line)
        parts.append(f'<polyline points="{path}" style="fill: none; stroke: {colour}; stroke-width: 2"/>')
        for x, y in line:
            at = f'cx="{horizontal.place(x):.1f}" cy="{vertical.place(y):.1f}"'
            parts.append(f'<circle {at} r="3" style="fill: {colour}"/>')
        parts.append(f'<rect x="{left:.0f}" y="49" width="14" height="4" style="fill: {colour}"/>')
        parts.append(f'<text class="muted" x="{left + 20:.0f}" y="56">{escape(name)}</text>')
        left += min(44 + 7 * len(name), room)
    parts.append(f'<text class="muted" x="16" y="72">{escape(up)}</text>')
    parts.append(
        f'<text class="muted" x="{RIGHT}" y="{height - 12}" text-anchor="end">{escape(across)}</text>'
    )
    return _svg(title, height, parts)


def number(value: float) -> str:
    """Write a value with the digits that matter: 0.012, 3.4, 1,200."""
    if value == 0:
        return "0"
    digits = max(0, 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def duration(seconds: float) -> str:
    return f"{number(seconds)} s" if seconds >= 1 else f"{number(seconds * 1000)} ms"


def _axis(values: Sequence[float], begin: float, end: float, *, is_log: bool) -> Axis:
    if is_log:
        positive = [value for value in values if value > 0] or [1.0]
        low = 10.0 ** math.floor(math.log10(min(positive)))
        high = 10.0 ** math.ceil(math.log10(max(positive)))
        return Axis(low, max(high, low * 10), begin, end, is_log=True)
    return Axis(0, max([*values, 0]) * 1.05 or 1.0, begin, end, is_log=False)


def _bar(bar: Bar, axis: Axis, top: float) -> list[str]:
    kind = ' class="ours"' if bar.is_ours else ""
    parts = [f'<text{kind} x="{LABELS - 10}" y="{top + 16}" text-anchor="end">{escape(bar.label)}</text>']
    if bar.value is None:
        return [*parts, f'<text class="muted" x="{LABELS + 6}" y="{top + 16}">{escape(bar.text)}</text>']
    end = axis.place(bar.value)
    colour = "var(--ours)" if bar.is_ours else "var(--bar)"
    width = max(end - LABELS, 2)
    parts.append(
        f'<rect x="{LABELS}" y="{top + 4}" width="{width:.1f}" height="{ROW - 8}" rx="2" style="fill: {colour}"/>'
    )
    if bar.middle is not None:
        middle = axis.place(bar.middle)
        parts.append(
            f'<rect x="{middle - 1:.1f}" y="{top + 4}" width="3" height="{ROW - 8}" style="fill: var(--back)"/>'
        )
    return [*parts, f'<text{kind} x="{end + 8:.1f}" y="{top + 16}">{escape(bar.text)}</text>']


def _vertical(axis: Axis, tick: float, label: str, top: float, bottom: float) -> str:
    x = axis.place(tick)
    return (
        f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>'
        f'<text class="muted" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{label}</text>'
    )


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img"'
            f' aria-label="{escape(title)}">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            '<rect width="100%" height="100%" rx="6" style="fill: var(--back)"/>',
            f'<text class="title" x="16" y="28">{escape(title)}</text>',
            *parts,
            "</svg>\n",
        ]
    )
