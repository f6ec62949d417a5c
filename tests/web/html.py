"""Helpers that read the HTML of a response."""

import re

from django.http import HttpResponse


def html_of(answer: HttpResponse) -> str:
    """Return the HTML of a page with the white space collapsed as a browser would do."""
    text = re.sub(r"\s+", " ", answer.content.decode())
    return re.sub(r" (?=</|>)", "", text)
