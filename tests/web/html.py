"""Helpers to read the HTML of an answer."""

import re

from django.http import HttpResponse


def html_of(answer: HttpResponse) -> str:
    """Return the HTML of a page without the white space that a browser would not show."""
    text = re.sub(r"\s+", " ", answer.content.decode())
    return re.sub(r" (?=</|>)", "", text)
