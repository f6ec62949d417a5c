"""Small copies of screenshots, kept in one file, so that a change of a page's look shows."""

import base64
import json
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Page

HERE = Path(__file__).parent
APPROVED = HERE / "approved_looks.json"
# A page of 1280 pixels becomes 40 wide: a moved card shows, another word does not.
SCALE = 32
# A cell may differ by antialiasing, some cells by a number or a name of another length.
MOST_PER_CELL, MOST_CELLS = 24, 0.02
# What is random or drawn by the browser itself.
MASKED = ".qr-code, input[type=datetime-local], #toasts"
_SHRINK = """async ([data, scale]) => {
  const picture = await createImageBitmap(await (await fetch("data:image/png;base64," + data)).blob());
  const [width, height] = [Math.ceil(picture.width / scale), Math.ceil(picture.height / scale)];
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(picture, 0, 0, width, height);
  const cells = context.getImageData(0, 0, width, height).data;
  return [width, height, [...cells].filter((_, place) => place % 4 < 3)];
}"""


class Look(NamedTuple):
    """A screenshot in few cells of three colours each."""

    width: int
    height: int
    cells: bytes

    def stored(self) -> dict[str, Any]:
        packed = base64.b64encode(zlib.compress(self.cells, 9)).decode()
        return {"width": self.width, "height": self.height, "cells": packed}

    @classmethod
    def read(cls, stored: dict[str, Any]) -> "Look":
        cells = zlib.decompress(base64.b64decode(stored["cells"]))
        return cls(stored["width"], stored["height"], cells)

    def difference(self, other: "Look") -> str:
        """Say how two looks differ; an empty text if they are alike."""
        if (self.width, self.height) != (other.width, other.height):
            return f"{self.width} × {self.height} cells instead of {other.width} × {other.height}"
        changed = {
            place // 3
            for place, (mine, theirs) in enumerate(zip(self.cells, other.cells, strict=True))
            if abs(mine - theirs) > MOST_PER_CELL
        }
        share = len(changed) / (self.width * self.height)
        return f"{share:.1%} of the cells changed" if share > MOST_CELLS else ""


def fonts() -> str:
    """Return a style sheet that shows every text in the fonts of this folder, so that machines agree."""
    faces = [
        f"@font-face {{ font-family: Test; font-weight: {weight}; src: url(data:font/woff2;base64,{data}) }}"
        for weight, name in ((400, "DejaVuSans"), (700, "DejaVuSans-Bold"))
        for data in [base64.b64encode((HERE / "fonts" / f"{name}.woff2").read_bytes()).decode()]
    ]
    return "\n".join(
        [*faces, "* { font-family: Test !important; animation: none !important; caret-color: transparent }"]
    )


def look_of(page: Page, blank: Page, kept_at: Path) -> Look:
    """Take a screenshot of the whole page, keep it as a file, and return its small copy."""
    page.add_style_tag(content=fonts())
    page.evaluate("document.fonts.ready")
    picture = page.screenshot(
        path=kept_at, full_page=True, animations="disabled", mask=[page.locator(MASKED)]
    )
    width, height, cells = blank.evaluate(_SHRINK, [base64.b64encode(picture).decode(), SCALE])
    return Look(width, height, bytes(cells))


def read_approved() -> dict[str, Look]:
    if not APPROVED.exists():
        return {}
    stored = json.loads(APPROVED.read_text(encoding="utf-8"))
    return {name: Look.read(each) for name, each in stored.items()}


def approve(looks: dict[str, Look]) -> None:
    """Write these looks, and keep the approved ones of other pages."""
    stored = {name: look.stored() for name, look in (read_approved() | looks).items()}
    APPROVED.write_text(json.dumps(stored, indent=0, sort_keys=True) + "\n", encoding="utf-8")
