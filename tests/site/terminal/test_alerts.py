"""The subcommand `alerts`: incidents with their messages, listed, shown and snoozed."""

from datetime import datetime

import pytest

from schedules import clock
from schedules.models import Incident
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def incident(owner) -> Incident:
    now = clock.now()
    job = JobFactory(owner=owner, name="Backup")
    message = {"at": now.isoformat(), "title": "A job failed", "text": "Backup: \x1b[2J", "place": "topic t"}
    return Incident.objects.create(
        **{"owner": owner, "job": job, "kind": Incident.Kind.FAILING, "subject": "job", "name": "Backup"},
        **{"opened_at": now, "told": 1, "told_at": now, "due_at": now, "sent": [message]},
    )


def test_alerts_are_listed_and_shown_with_what_was_sent(cronty, incident):
    listed = cronty("alerts", "--json").json[0]

    assert (listed["id"], listed["name"], listed["sent"][0]["place"]) == (incident.pk, "Backup", "topic t")
    assert "Failing since" in cronty("alerts").out
    shown = cronty("alerts", "show", str(incident.pk)).out
    assert "A job failed" in shown
    assert "\x1b" not in shown


def test_alert_is_snoozed_for_a_day_or_until_a_time_in_words(cronty, incident):
    assert "Snoozed until" in cronty("alerts", "snooze", str(incident.pk)).out

    later = cronty("alerts", "snooze", str(incident.pk), "1 week", "--json").json

    incident.refresh_from_db()
    assert datetime.fromisoformat(later["snoozed_until"]) == incident.snoozed_until.replace(microsecond=0)
    assert (incident.snoozed_until - clock.now()).days == 6


def test_wrong_usage_and_unknown_alerts_are_refused(cronty, incident):
    for words, code in [
        (["snooze"], 2),
        (["list", "1"], 2),
        (["show", "1", "monday"], 2),
        (["show", "999999"], 3),
        (["snooze", "999999"], 3),
    ]:
        assert cronty("alerts", *words).code == code
