import re
from pathlib import Path

import schedules

FOLDER = Path(schedules.__file__).parent / "static" / "schedules"
PAGES = [FOLDER / f"{name}.css" for name in ("app", "detail", "calendar", "form", "inbox")]
STYLES = PAGES[0]


def test_text_has_only_the_sizes_of_the_scale():
    for path in PAGES:
        # Phones zoom in on fields with smaller text than 16 pixels.
        assert set(re.findall(r"font(?:-size)?: ?(\d+)px", path.read_text(encoding="utf-8"))) <= {"16"}


def test_every_property_that_is_used_is_defined():
    defined = re.findall(r"[{;\s](--[\w-]+):", STYLES.read_text(encoding="utf-8"))
    for path in PAGES:
        assert set(re.findall(r"var\((--[\w-]+)\)", path.read_text(encoding="utf-8"))) <= set(defined)
