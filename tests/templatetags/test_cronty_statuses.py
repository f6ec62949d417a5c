from schedules.models import Execution
from schedules.templatetags import cronty_statuses

EVIL = "<script>\"&'</script>"


def test_status_is_an_icon_and_a_word():
    shown = cronty_statuses.status("late")

    assert "<svg" in shown
    assert "Late" in shown
    assert "<script>" not in cronty_statuses.status(EVIL)


def test_every_status_has_a_word():
    for status in [*Execution.Status.values, "late", "failing", "healthy", "new", "paused", "completed"]:
        assert cronty_statuses.status_word(status) != status
