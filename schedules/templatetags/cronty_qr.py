"""Template tag that draws a QR code as inline SVG, without a request to another site."""

from functools import lru_cache

import segno
from django import template
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

BORDER = 2


@register.simple_tag
@lru_cache(maxsize=64)
def qr_code(text: str) -> SafeString:
    """Draw a text as a QR code, dark on light even in the dark theme, because cameras expect that."""
    code = segno.make_qr(text, error="m")
    svg = code.svg_inline(border=BORDER, omitsize=True, svgclass="qr", lineclass=None, light="#fff")
    # The SVG contains only paths, never the text.
    return mark_safe(svg)  # noqa: S308  # nosec B308, B703
