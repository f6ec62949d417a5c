"""Words for statuses, causes and events."""

from schedules.templatetags.cronty_statuses import events_in_words, started_by
from tests.factories import ExecutionFactory


def test_ping_outside_a_slot_is_not_called_manual():
    assert (
        started_by(
            ExecutionFactory.build(task="heartbeat", cause="manual", job=None, owner=None, job_name="x")
        )
        == "Ping"
    )
    assert (
        started_by(ExecutionFactory.build(task="notify", cause="manual", job=None, owner=None, job_name="x"))
        == "Manual"
    )


def test_events_are_named_in_words():
    assert events_in_words(["prompt.due", "run.failed"]) == "A prompt is due, a run failed"
    assert events_in_words([]) == ""
