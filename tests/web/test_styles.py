import re
from pathlib import Path

import pytest

import schedules

FOLDER = Path(schedules.__file__).parent / "static" / "schedules"
PAGES = [FOLDER / f"{name}.css" for name in ("app", "detail", "calendar", "form", "inbox")]
STYLES = PAGES[0]


def test_every_colour_and_size_is_defined_once():
    names = re.findall(r"[{;\s](--\w+):", STYLES.read_text(encoding="utf-8"))

    assert len(names) == 30
    assert len(names) == len(set(names))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_text_has_only_the_sizes_of_the_scale(path: Path):
    # Phones zoom in on fields with smaller text than 16 pixels.
    assert set(re.findall(r"font(?:-size)?: ?(\d+)px", path.read_text(encoding="utf-8"))) <= {"16"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_property_that_is_used_is_defined(path: Path):
    defined = re.findall(r"[{;\s](--[\w-]+):", STYLES.read_text(encoding="utf-8"))

    assert set(re.findall(r"var\((--[\w-]+)\)", path.read_text(encoding="utf-8"))) <= set(defined)
