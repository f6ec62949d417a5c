"""Template filters that show the output of a command as numbered lines in its terminal colours."""

from collections.abc import Iterable, Iterator, Sequence

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from schedules.services.runs.outputs import OutputPart

register = template.Library()

NUMBERED_LINES = 1000
_BOLD, _DIM, _ITALIC, _UNDERLINED = "1", "2", "3", "4"
# Which styles a code ends: 22 ends both bold and dim.
_ENDS = {"22": (_BOLD, _DIM), "23": (_ITALIC,), "24": (_UNDERLINED,)}
_STYLES = {_BOLD: "a-bold", _DIM: "a-dim", _ITALIC: "a-italic", _UNDERLINED: "a-under"}
_COLOURS = ("grey", "red", "green", "yellow", "blue", "magenta", "cyan", "plain")


class Pen:
    """The style set by the escape sequences so far."""

    def __init__(self) -> None:
        self._styles: set[str] = set()
        self._colour = ""

    @property
    def classes(self) -> str:
        return " ".join(filter(None, [*sorted(self._styles), self._colour]))

    def apply(self, codes: str) -> None:
        """Apply the codes of one sequence; those that pages do not show, such as backgrounds, are ignored."""
        remaining = iter(codes.split(";"))
        for code in remaining:
            code = code.lstrip("0")
            if not code:
                self._styles, self._colour = set(), ""
            elif code in _STYLES:
                self._styles.add(_STYLES[code])
            elif code in _ENDS:
                self._styles -= {_STYLES[ended] for ended in _ENDS[code]}
            elif code == "39":
                self._colour = ""
            elif code in ("38", "48"):
                number = self._read_extended_colour(remaining)
                if code == "38":
                    self._colour = _colour_class(number)
            elif code.isdecimal() and int(code) in (*range(30, 38), *range(90, 98)):
                self._colour = _colour_class(int(code) % 10)

    def _read_extended_colour(self, codes: Iterator[str]) -> int | None:
        """Consume the colour after 38 or 48, and return its number if it is one of the 16 named ones.

        It is one of a palette of 256, which begins with the named ones, or an RGB colour.
        """
        kind = next(codes, "")
        values = [next(codes, "") for _ in range({"5": 1, "2": 3}.get(kind, 0))]
        is_named = kind == "5" and values[0].isdecimal() and int(values[0]) < 16
        return int(values[0]) % 8 if is_named else None


def _colour_class(number: int | None) -> str:
    return "" if number is None or _COLOURS[number] == "plain" else f"a-{_COLOURS[number]}"


@register.filter
def numbered_lines(output: OutputPart | str) -> SafeString:
    """Render each line with a number that can be linked to, but is not part of the text."""
    text, colours = (output, ()) if isinstance(output, str) else (output.text, output.colours)
    lines = text.split("\n")
    # Lines keep their numbers of the whole text if only its end is shown.
    first = max(0, len(lines) - NUMBERED_LINES)
    return format_html_join(
        "\n",
        '<span id="L{0}"><a href="#L{0}" data-n="{0}" aria-label="Line {0}"></a>{1}</span>',
        list(enumerate(_coloured(lines, colours), start=1))[first:],
    )


def _coloured(lines: Sequence[str], colours: Sequence[tuple[int, str]]) -> Iterable[str]:
    """Yield each line as HTML, with its coloured parts in elements of their own."""
    if not colours:
        yield from lines
        return
    pen, index, start = Pen(), 0, 0
    for line in lines:
        parts, position = [], 0
        while index < len(colours) and colours[index][0] <= start + len(line):
            until = max(position, colours[index][0] - start)
            parts.append(_part(line[position:until], pen))
            pen.apply(colours[index][1])
            position, index = until, index + 1
        parts.append(_part(line[position:], pen))
        start += len(line) + 1
        yield format_html_join("", "{}", ((part,) for part in parts))


def _part(text: str, pen: Pen) -> str:
    if not text or not pen.classes:
        return format_html("{}", text)
    return format_html('<span class="{}">{}</span>', pen.classes, text)
