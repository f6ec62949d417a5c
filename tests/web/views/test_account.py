from datetime import UTC, datetime, time, timedelta

import time_machine
from django.contrib.auth.models import User
from django.test import Client

from schedules import services
from schedules.models import Profile, Token
from schedules.templatetags.cronty_times import clock_words
from tests.factories import JobFactory


def test_alerts_are_settings(web: Client, owner: User):
    web.post(
        "/settings/",
        {
            "failure_topic": "alerts",
            "alert_rules": "not late",
            "quiet_hours": "22:00-07:00",
            "alert_every": "3600",
        },
    )
    page = web.get("/settings/").content.decode()
    refused = web.post("/settings/", {"alert_rules": "not soon", "quiet_hours": "22"})

    profile = Profile.objects.get(user=owner)
    assert (profile.alert_rules, profile.quiet_hours, profile.alert_every) == (
        "not late",
        "22:00-07:00",
        timedelta(hours=1),
    )
    assert 'name="quiet_hours" value="22:00-07:00"' in page
    assert '<option value="3600" selected>Every hour</option>' in page
    assert set(refused.context["form"].errors) == {"alert_rules", "quiet_hours"}


def test_stale_settings_change_only_what_was_typed(web: Client, owner: User):
    shown = {name: str(value) for name, value in web.get("/settings/").context["form"].initial.items()}
    sent = shown | {f"initial-{name}": text for name, text in shown.items()}
    services.update_profile(owner, topic="theirs", week_start=6)

    web.post("/settings/", sent | {"failure_topic": "alerts"})

    stored = Profile.objects.get(user=owner)
    assert (stored.topic, stored.failure_topic, stored.week_start) == ("theirs", "alerts", 6)


def test_button_ends_all_sessions_and_tokens_of_the_user(web: Client, owner: User):
    elsewhere = Client()
    elsewhere.force_login(owner)
    services.issue_token(owner, name="laptop")

    answer = web.post("/settings/end-access/", follow=True)

    assert answer.redirect_chain[-1][0] == "/login/?next=/settings/"
    assert elsewhere.get("/settings/").status_code == 302
    assert "Signed out everywhere; 1 token revoked." in answer.content.decode()
    assert not Token.objects.filter(revoked_at=None).exists()


def test_theme_can_be_switched_without_javascript(client: Client, db: None):
    client.post("/theme/", {"theme": "dark"})
    assert client.cookies["theme"].value == "dark"
    assert 'data-theme="dark"' in client.get("/login/").content.decode()

    client.post("/theme/", {"theme": "light"})

    assert client.cookies["theme"].value == "light"


def test_clock_and_first_day_of_the_week_are_settings(web: Client, owner: User):
    due = datetime(2030, 1, 1, 16, 30, tzinfo=UTC)
    JobFactory(owner=owner, next_run_at=due, cron="30 17 * * *", timezone="Europe/Berlin")

    answer = web.post(
        "/settings/", {"timezone": "Europe/Berlin", "clock_hours": "12", "week_start": "6"}, follow=True
    )
    page = web.get("/").content.decode()

    assert '<option value="12" selected>12-hour (5:30 PM)</option>' in answer.content.decode()
    assert services.profile_of(owner).week_start == 6
    assert ">1 Jan 2030 5:30 PM<" in page
    assert ">Every day at 5:30 PM<" in page
    web.post("/settings/", {"timezone": "Europe/Berlin", "clock_hours": "24"})
    assert ">Every day at 17:30<" in web.get("/").content.decode()


@time_machine.travel("2026-11-15T10:02:00Z", tick=False)
def test_clock_of_one_person_does_not_stay_for_the_next_request(web: Client, other: Client, owner: User):
    services.update_profile(owner, clock_hours=12)
    due = datetime(2026, 11, 15, 17, 30, tzinfo=UTC)
    job = JobFactory(owner=owner, cron="30 17 * * *", timezone="UTC", next_run_at=due)

    other.get("/")
    web.post(f"/jobs/{job.public_id}/skip/")
    other.get("/live/")

    assert clock_words(time(17, 30)) == "17:30"
    assert "The run on Sun 15 Nov 5:30 PM will be skipped." in web.get("/").content.decode()
