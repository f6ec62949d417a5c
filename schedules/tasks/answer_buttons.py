"""Answer buttons: add buttons, a link and the number of the reminder to a notification that asks for an answer."""

from typing import Any

from schedules.tasks.answer_links import Button, make_link
from schedules.tasks.asking import ReminderStep
from schedules.tasks.interface import Run

# ntfy's limit.
MAX_BUTTONS = 3
_LABELS = {Button.DONE: "Done", Button.SNOOZE: "Snooze", Button.SKIP: "Skip next"}


def ask_for_answer(fields: dict[str, Any], run: Run, reminder: ReminderStep | None) -> None:
    """Add buttons and a link for answers to the fields of a message, besides those that the job sets itself."""
    own_buttons = list(fields["actions"] or [])
    fields["actions"] = [*own_buttons, *_buttons(run)[: MAX_BUTTONS - len(own_buttons)]] or None
    fields["click"] = fields["click"] or make_link(run.execution_id, run.key, Button.PAGE) or None
    if reminder is None or not reminder.number:
        return
    title = fields["title"] or run.job_name
    if reminder.topic:
        # To one place only, whichever kind the first message went to.
        fields["channel"] = reminder.channel or None
        fields["topic"] = None if reminder.channel else reminder.topic
        fields["title"] = _title(title, "nobody answered")
    else:
        fields["title"] = _title(title, f"reminder {reminder.number} of {reminder.most}")


def _title(title: str, note: str) -> str:
    return f"{title[:200]} ({note})"


def _buttons(run: Run) -> list[dict[str, Any]]:
    """Return the buttons; there are none if phones cannot reach the pages."""
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
