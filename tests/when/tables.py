"""Tables of what texts mean, one line each."""

from pathlib import Path

DATA = Path(__file__).parent / "data"


def rows(kind: str, file: str = "phrases.txt") -> list[list[str]]:
    """Return the columns of the lines of one kind."""
    lines = [line.split(" | ") for line in (DATA / file).read_text(encoding="utf-8").splitlines()]
    found = [columns for name, *columns in lines if name == kind]
    assert found, kind
    return found
