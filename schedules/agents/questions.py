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
_NEEDS = re.compile(r"[\s*_`>#-]*needs you:", re.IGNORECASE)
_EMPHASIS = " \t\xa0*_`"
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
    match = _NEEDS.match(last)
    if match is None:
        return None
    text, choices = _split_choices(last[match.end() :].strip(_EMPHASIS))
    return Question(text or NO_QUESTION, choices, "\n".join(before).strip())


def _split_choices(text: str) -> tuple[str, Sequence[str]]:
    """Return a question without its choices, and the choices; other brackets belong to the question."""
    question, _, inside = text.removesuffix("]").rpartition("[")
    if not text.endswith("]") or "]" in inside or not question.strip():
        return text, []
    names = list(dict.fromkeys(filter(None, (part.strip() for part in inside.split("|")))))
    if 2 <= len(names) <= MAX_CHOICES and all(len(name) <= LONGEST_CHOICE for name in names):
        return question.rstrip(), names
    return text, []


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
    """Escape the marks in an answer, so that it cannot close its own."""
    return re.sub(r"<(?=\s*(?:/\s*)?answer)", "&lt;", text, flags=re.IGNORECASE).strip()
