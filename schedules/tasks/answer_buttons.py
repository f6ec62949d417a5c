"""What a notification that asks for an answer carries: buttons, the page behind a tap, and which reminder it is."""

from typing import Any

from schedules.tasks.answer_links import Button, make_link
from schedules.tasks.asking import Again
from schedules.tasks.interface import Run

# ntfy shows no more.
MOST_BUTTONS = 3
_LABELS = {Button.DONE: "Done", Button.SNOOZE: "Snooze", Button.SKIP: "Skip next"}


def ask_for_answer(fields: dict[str, Any], run: Run, again: Again | None) -> None:
    """Add to the fields of a message what its reader can answer with; what the job sets itself stays."""
    own = list(fields["actions"] or [])
    fields["actions"] = [*own, *_buttons(run)[: MOST_BUTTONS - len(own)]] or None
    fields["click"] = fields["click"] or make_link(run.execution_id, run.key, Button.PAGE) or None
    if again is None or not again.number:
        return
    title = fields["title"] or run.job_name
    if again.topic:
        fields["topic"] = again.topic
        fields["title"] = _title(title, "nobody answered")
    else:
        fields["title"] = _title(title, f"reminder {again.number} of {again.most}")


def _title(title: str, note: str) -> str:
    return f"{title[:200]} ({note})"


def _buttons(run: Run) -> list[dict[str, Any]]:
    """Return the buttons, none where the installation does not know its public address."""
    links = {
        button: make_link(run.execution_id, run.key, button)
        for button in _LABELS
        if button is not Button.SKIP or run.repeats
    }
    return [
        {"action": "http", "label": _LABELS[button], "url": link, "method": "POST", "clear": True}
        for button, link in links.items()
        if link
    ]
