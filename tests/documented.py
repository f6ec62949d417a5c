"""Fenced blocks and commands of the README and the docs, collected for the tests that execute them."""

import re
from dataclasses import dataclass

from tests.clusters import PROJECT

PAGES = ["README.md", *sorted(str(path.relative_to(PROJECT)) for path in (PROJECT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
# A program or a subcommand with an argument: "cronty up", ".venv/bin/python manage.py up", "… -- /bin/true".
_COMMAND = re.compile(r"(?:… -- )?[a-z./][\w./-]*\s+(?!=)\S")
# Words in this form that are no commands.
_PHRASES = {"async def", "every weekday at 8:30", "name value unit", "sh -c"}


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    language: str
    text: str

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


def blocks(page: str, language: str | None = None) -> list[Block]:
    """Return the blocks of a page in their order: all of them, or those in a language."""
    found = [Block(page, *match) for match in _BLOCK.findall((PROJECT / page).read_text())]
    return [block for block in found if language in (None, block.language)]


def inline_commands(page: str) -> list[str]:
    """Return the commands in the running text and the tables of a page."""
    text = _BLOCK.sub("", (PROJECT / page).read_text())
    spans = [" ".join(span.replace("\\|", "|").split()) for span in _INLINE.findall(text)]
    return [span for span in spans if is_command(span)]


def is_command(text: str) -> bool:
    return bool(_COMMAND.match(text)) and text not in _PHRASES and not text.startswith("raise ")
