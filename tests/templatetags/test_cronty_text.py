import ast
from collections.abc import Iterator
from pathlib import Path

from django.template import Context, Template

from schedules.models import Event
from schedules.templatetags import cronty_text
from schedules.templatetags.cronty_times import use_clock

APP = Path(cronty_text.__file__).parents[1]
# The functions that record an event; their second argument is the verb.
RECORDERS = {"record", "_record", "event_of", "record_token_event", "record_setting", "note"}
EVIL = "<script>\"&'</script>"


def test_secrets_are_hidden():
    assert "hunter2" not in cronty_text.pretty({"headers": {"Authorization": "hunter2"}})


def recorded_verbs() -> Iterator[str]:
    """Yield the verbs of events that the source of the app names."""
    for file in APP.rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        # Parsing takes far longer than this search.
        if not any(f"{name}(" in source for name in RECORDERS) and "verb=" not in source:
            continue
        for call in ast.walk(ast.parse(source)):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name | ast.Attribute):
                continue
            name = call.func.id if isinstance(call.func, ast.Name) else call.func.attr
            verbs = call.args[1:2] if name in RECORDERS else []
            verbs += [keyword.value for keyword in call.keywords if keyword.arg == "verb"]
            yield from (str(verb.value) for verb in verbs if isinstance(verb, ast.Constant))


def test_every_recorded_verb_has_words():
    assert set(recorded_verbs()) == set(cronty_text.VERBS)


def test_changes_are_listed_with_times_on_the_clock_of_the_reader():
    event = Event(verb="edit", before={"cron": "0 15 * * 0"}, after={"cron": "0 16 * * 0"})
    use_clock(12)
    try:
        [change] = cronty_text.changes(event)
    finally:
        use_clock(24)

    assert change.text == "Sundays at 3:00 PM → 4:00 PM"


def test_text_in_a_template_is_escaped():
    shown = Template("{% load cronty_text %}{{ value|pretty }}").render(Context({"value": EVIL}))

    assert "<script" not in shown
