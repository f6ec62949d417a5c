import re
from pathlib import Path

import schedules

STYLES = Path(schedules.__file__).parent / "static" / "schedules" / "app.css"


def test_every_colour_is_defined_once():
    names = re.findall(r"[{;\s](--\w+):", STYLES.read_text(encoding="utf-8"))

    assert len(names) == 20
    assert len(names) == len(set(names))
