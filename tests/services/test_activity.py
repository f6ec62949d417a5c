from schedules.models import Event, Job
from schedules.services.activity import changes_of_event, summary_of

WEEKLY = {"trigger_type": "cron", "cron": "0 3 * * 0", "timezone": "Europe/Berlin", "task": "notify"}
FIRST, MOVED = "2026-12-24T17:00:00Z", "2026-12-24T18:00:00Z"


def edited(before, after, **job):
    return Event(verb="edit", before=before, after=after, job=Job(**{**WEEKLY, **job}))


def test_change_is_said_in_words():
    for before, after, words in [
        ({"cron": "0 4 * * 0"}, {"cron": "0 3 * * 0"}, "Sundays at 04:00 → 03:00"),
        ({"cron": "0 8 * * *"}, {"cron": "0 9 * * 1-5"}, "Every day at 08:00 → Every weekday at 09:00"),
        ({"timeout": "P0DT00H01M00S"}, {"timeout": "P0DT00H10M00S"}, "Timeout 1 min → 10 min"),
        ({"attempts": 3}, {"attempts": 4}, "Attempts 3 → 4"),
        ({"tags": []}, {"tags": ["ops", "home"]}, "Tags none → ops, home"),
        (
            {"catch_up": "once"},
            {"catch_up": "none"},
            "After downtime Run once to catch up → Skip missed runs",
        ),
        ({"at_most_once": False}, {"at_most_once": True}, "Don't retry after a crash no → yes"),
        ({"ends_at": None}, {"ends_at": FIRST}, "End date none → Thu 24 Dec 2026 18:00"),
        ({"skips": []}, {"skips": ["2026-12-24"]}, "Skipped runs none → 2026-12-24"),
        (
            {"kwargs": {"message": "old", "url": "x"}, "args": []},
            {"kwargs": {"message": "new", "url": "x"}, "args": []},
            "Message old → new",
        ),
        (
            {"timeout": "P1DT01H01M00S"},
            {"timeout": "P1DT01H02M00S"},
            "Timeout 1 day 1 hour 1 minute → 1 day 1 hour 2 minutes",
        ),
        (
            {"trigger_type": "cron", "cron": "0 3 * * 0", "run_at": None},
            {"trigger_type": "once", "cron": "", "run_at": FIRST},
            "Sundays at 03:00 → Once, on Thu 24 Dec 2026 at 18:00 CET",
        ),
    ]:
        assert summary_of(edited(before, after)) == words


def test_schedule_of_another_kind_than_the_job_has_now_is_said_in_words():
    event = edited({"every": "P0DT01H00M00S"}, {"every": "P0DT00H15M00S"})

    assert summary_of(event) == "Every hour → Every 15 minutes"


def test_new_start_of_the_same_interval_is_said():
    event = edited({"anchor_at": FIRST}, {"anchor_at": MOVED}, trigger_type="interval", cron="")

    assert summary_of(event) == "Starts Thu 24 Dec 2026 18:00 → Thu 24 Dec 2026 19:00"


def test_created_job_lists_values_without_arrows():
    event = Event(verb="create", after=WEEKLY | {"tags": [], "kwargs": {"message": "Hi"}}, job=Job(**WEEKLY))

    assert [change.text for change in changes_of_event(event)] == [
        "Sundays at 03:00",
        "Time zone Europe/Berlin",
        "Task Notification",
        "Message Hi",
    ]


def test_event_of_a_job_that_is_gone_is_said_in_words():
    event = Event(verb="edit", before={"cron": "0 4 * * 0"}, after={"cron": "0 3 * * 0"})

    assert summary_of(event) == "Sundays at 04:00 → 03:00"


def test_verb_that_tells_it_all_has_no_details():
    assert summary_of(Event(verb="cancel", before={"status": "pending", "reason": "x"})) == ""


def test_unreadable_values_are_shown_as_they_are():
    event = edited({"cron": "nonsense", "timeout": "soon"}, {"cron": "0 3 * * 0", "timeout": None})

    assert summary_of(event) == "nonsense → Sundays at 03:00; Timeout soon → none"
