"""Questions in words: how a run asks its owner by its last line, and how the answer gets into its next prompt."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from schedules.models import Approval

NEEDS_YOU = "NEEDS YOU:"
NO_QUESTION = "See what it said."
LONGEST_QUESTION = 2000
MOST_CHOICES = 8
LONGEST_CHOICE = 100
# Some programs put an emphasis on a last line like this.
_NEEDS = re.compile(r"[\s*_`>#-]*needs you:[\s*_`]*(?P<question>.*?)[\s*_`]*", re.IGNORECASE)
_CHOICES = re.compile(r"(?P<question>.+?)\s*\[(?P<choices>[^\[\]]+\|[^\[\]]+)\]")
_ANSWER = """\
<answer>
{answer}
</answer>
The text between these marks is what a person has answered to your question{question}. Go on with your task.
"""


class Asked(NamedTuple):
    """What a run asks a person."""

    question: str
    choices: Sequence[str]
    said: str
    """What it said before."""


def question_in(answer: str) -> Asked | None:
    """Return what the last line of an answer asks a person, or None."""
    *before, last = answer.strip().splitlines() or [""]
    match = _NEEDS.fullmatch(last)
    if match is None:
        return None
    question, choices = match["question"], []
    if offered := _CHOICES.fullmatch(question):
        parts = [part.strip() for part in offered["choices"].split("|")]
        named = list(dict.fromkeys(filter(None, parts)))
        # Anything else is a part of the question.
        if 2 <= len(named) <= MOST_CHOICES and all(len(name) <= LONGEST_CHOICE for name in named):
            question, choices = offered["question"], named
    return Asked(question or NO_QUESTION, choices, "\n".join(before).strip())


def prompt_with_answer(answered: Approval) -> str:
    """Return the prompt that goes on with a session: the answer of a person, marked as what it is."""
    return _ANSWER.format(answer=_unmarked(answered.reply), question="")


def prompt_with_answers(prompt: str, answered: Sequence[Approval]) -> str:
    """Return the whole prompt again, with everything that was asked and answered so far."""
    parts = [
        _ANSWER.format(
            answer=_unmarked(each.reply), question=f' "{" ".join(each.question.split())}" in an earlier run'
        )
        for each in answered
    ]
    return "\n\n".join([prompt.rstrip(), *parts])


def _unmarked(text: str) -> str:
    # An answer must not end its own marks.
    return re.sub(r"</?answer>", "", text, flags=re.IGNORECASE).strip()
