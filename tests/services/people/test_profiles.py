"""Profiles, and the preferences that people can change for themselves."""

import os
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User

from schedules.agents.choice import choose
from schedules.models import Profile
from schedules.result import Err, Kind, Ok
from schedules.services import profile_of, update_profile
from schedules.services.people.preferences import preference
from schedules.services.people.profiles import profile_of_active
from tests.forks import python

RUNNERS = '[notes]\ndescription = "Reads notes"\nkind = "inbox"\nallow = ["everyone"]\n'


def test_profile_is_created_once_and_kept(db, settings):
    settings.CRONTY_TIME_ZONE = "Asia/Tokyo"
    user = User.objects.create(username="new")

    profile = profile_of(user)

    assert profile_of(user) == profile
    assert (profile.timezone, profile.zone) == ("", "Asia/Tokyo")
    assert len(profile.signing_key) > 30
    assert profile.signing_key != profile.calendar_key


def test_profile_of_an_active_user_takes_one_query(owner, django_assert_num_queries):
    profile = profile_of(owner)

    with django_assert_num_queries(1):
        assert profile_of_active(owner) == profile


def test_user_who_is_gone_has_no_profile(db):
    user = User.objects.create(username="new")
    assert profile_of_active(user) == Profile.objects.get()

    User.objects.update(is_active=False)

    assert profile_of_active(user) is None


def test_only_the_given_settings_change(owner):
    update_profile(owner, timezone="Asia/Tokyo", failure_topic="alarm")

    answer = update_profile(owner, failure_topic="")

    assert isinstance(answer, Ok)
    profile = Profile.objects.get(user=owner)
    assert (profile.timezone, profile.failure_topic) == ("Asia/Tokyo", "")


def test_all_invalid_settings_are_refused_together(owner):
    refusal = update_profile(owner, timezone="Mars/Base", quiet_hours="22", week_start=6)

    assert isinstance(refusal, Err)
    assert list(refusal.errors) == ["timezone", "quiet_hours"]


def test_alerts_are_preferences(owner):
    update_profile(owner, alert_rules="not late, at night", quiet_hours=" 22:00 – 7:30 ", alert_every=3600)

    profile = Profile.objects.get(user=owner)
    assert (profile.alert_rules, profile.quiet_hours) == ("not late, at night", "22:00-07:30")
    assert profile.alert_every == timedelta(hours=1)
    assert preference(profile, "alert_every") == 3600

    update_profile(owner, alert_rules="", quiet_hours="")

    profile.refresh_from_db()
    assert (profile.alert_rules, profile.quiet_hours) == ("", "")


def test_runner_of_prompts_is_a_preference(owner, use_runners):
    use_runners(RUNNERS)

    update_profile(owner, runner="notes")

    assert choose(owner, None).name == "notes"


def test_city_becomes_its_zone(owner):
    update_profile(owner, timezone="new york")

    assert Profile.objects.get(user=owner).timezone == "America/New_York"


def test_invalid_setting_is_refused_and_changes_nothing(owner):
    before = Profile.objects.values().get(user=owner)
    for changes, field in [
        ({"timezone": "Mars/Base"}, "timezone"),
        ({"timezone": "../../etc/passwd"}, "timezone"),
        ({"failure_topic": "two words"}, "failure_topic"),
        ({"failure_topic": "t" * 65}, "failure_topic"),
        ({"topic": "two words"}, "topic"),
        ({"failure_topic": "a/b"}, "failure_topic"),
        ({"failure_topic": "channel:phone"}, "failure_topic"),
        ({"quiet_hours": "22"}, "quiet_hours"),
        ({"quiet_hours": "07:00-07:00"}, "quiet_hours"),
        ({"alert_rules": "not soon"}, "alert_rules"),
        ({"alert_rules": "phone"}, "alert_rules"),
        ({"alert_every": 60}, "alert_every"),
        ({"runner": "nope"}, "runner"),
    ]:
        refusal = update_profile(owner, **changes)

        assert isinstance(refusal, Err)
        assert (refusal.kind, list(refusal.errors)) == (Kind.INVALID, [field])
        assert Profile.objects.values().get(user=owner) == before


@pytest.mark.verify
def test_app_works_with_a_minimal_custom_user_model(tmp_path):
    journey = subprocess.run(
        [*python(), "-m", "tests.bare_user.journey"],
        env={"CRONTY_DATA": str(tmp_path), "PATH": os.environ["PATH"]},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (journey.stdout, journey.returncode) == ("done\n", 0), journey.stderr
