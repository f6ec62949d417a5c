"""Questions: read what the last line of an answer asks a person, and write the reply into the next prompt."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from schedules.models import Approval

NEEDS_YOU = "NEEDS YOU:"
NO_QUESTION = "See what it said."
LONGEST_QUESTION = 2000
MAX_CHOICES = 8
LONGEST_CHOICE = 100
# Some agents emphasise this line with Markdown.
_NEEDS = re.compile(r"[\s*_`>#-]*needs you:[\s*_`]*(?P<question>.*?)[\s*_`]*", re.IGNORECASE)
_CHOICES = re.compile(r"(?P<question>.+?)\s*\[(?P<choices>[^\[\]]+\|[^\[\]]+)\]")
_ANSWER = """\
<answer>
{answer}
</answer>
The text between these marks is what a person has answered to your question{question}. Go on with your task.
"""


class Question(NamedTuple):
    """What a run asks a person."""

    text: str
    choices: Sequence[str]
    context: str
    """The lines of the answer before the question."""


def question_in(answer: str) -> Question | None:
    """Return the question in the last line of an answer, or None."""
    *before, last = answer.strip().splitlines() or [""]
    match = _NEEDS.fullmatch(last)
    if match is None:
        return None
    text, choices = match["question"], []
    if with_choices := _CHOICES.fullmatch(text):
        parts = [part.strip() for part in with_choices["choices"].split("|")]
        names = list(dict.fromkeys(filter(None, parts)))
        # Other brackets belong to the question.
        if 2 <= len(names) <= MAX_CHOICES and all(len(name) <= LONGEST_CHOICE for name in names):
            text, choices = with_choices["question"], names
    return Question(text or NO_QUESTION, choices, "\n".join(before).strip())


def prompt_with_answer(answered: Approval) -> str:
    """Return the prompt that continues a session: a person's answer, marked as such."""
    return _ANSWER.format(answer=_without_marks(answered.reply), question="")


def prompt_with_answers(prompt: str, answered: Sequence[Approval]) -> str:
    """Return the whole prompt again, followed by all questions and answers so far."""
    parts = [
        _ANSWER.format(
            answer=_without_marks(each.reply),
            question=f' "{" ".join(each.question.split())}" in an earlier run',
        )
        for each in answered
    ]
    return "\n\n".join([prompt.rstrip(), *parts])


def _without_marks(text: str) -> str:
    # An answer must not be able to close its own marks.
    return re.sub(r"</?answer>", "", text, flags=re.IGNORECASE).strip()
