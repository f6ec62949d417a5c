from django.template import Context, Template

from schedules.models import Event
from schedules.templatetags import cronty_text

EVIL = "<script>\"&'</script>"


def test_secrets_are_hidden():
    assert "hunter2" not in cronty_text.pretty({"headers": {"Authorization": "hunter2"}})
    assert cronty_text.hide_secrets({"password": "hunter2"})[0][1] != "hunter2"


def test_changes_are_listed_with_before_and_after():
    event = Event(
        before={"name": "a", "same": 1}, after={"name": "b", "same": 1, "tags": ["x"], "execution": 7}
    )

    assert cronty_text.changes(event) == [("name", "a", "b"), ("tags", "—", '["x"]')]


def test_text_in_a_template_is_escaped():
    shown = Template("{% load cronty_text %}{{ value|pretty }}{{ value|first_line }}").render(
        Context({"value": EVIL})
    )

    assert "<script" not in shown
