import pytest

from schedules.models import Execution
from schedules.templatetags import cronty_statuses

EVIL = "<script>\"&'</script>"


def test_status_is_an_icon_and_a_word():
    shown = cronty_statuses.status("late")

    assert "<svg" in shown
    assert "Late" in shown
    assert "<script>" not in cronty_statuses.status(EVIL)


@pytest.mark.parametrize(
    "status", [*Execution.Status.values, "late", "failing", "healthy", "new", "paused", "completed"]
)
def test_every_status_has_a_word(status: str):
    assert cronty_statuses.status_word(status) != status


@pytest.mark.parametrize("name", list(cronty_statuses.ICONS))
def test_icon_is_one_outline(name: str):
    shown = cronty_statuses.icon(name)

    assert shown.count("<path") == 1
    assert ("spin" in shown) is (name == "turning")
