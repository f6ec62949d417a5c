"""The subcommand preferences."""

from schedules.models import Event, Profile


def test_preferences_are_changed_and_shown(cronty, owner):
    saved = cronty(
        "preferences",
        *("--timezone", "tokyo", "--failure-topic", "alarm", "--quiet-hours", "22:00-7:00"),
        *("--alert-every", "6h", "--clock", "12", "--week-start", "sunday"),
    )

    assert saved.code == 0, saved.err
    assert "quiet hours: 22:00-07:00 (During" in saved.out
    shown = cronty("preferences", "--json").json
    assert (shown["timezone"], shown["failure_topic"], shown["alert_every"]) == (
        "Asia/Tokyo",
        "alarm",
        21_600,
    )
    assert (shown["clock_hours"], shown["week_start"]) == (12, 6)
    assert "Asia/Tokyo" in cronty("preferences").out
    assert Event.objects.get().verb == "set preferences"


def test_wrong_value_is_refused_and_changes_nothing(cronty, owner):
    before = Profile.objects.values().get(user=owner)
    for option, value, code in [
        ("--quiet-hours", "at night", 1),
        ("--alert-every", "1m", 1),
        ("--alert-every", "soon", 2),
        ("--clock", "13", 2),
    ]:
        assert cronty("preferences", option, value).code == code
        assert Profile.objects.values().get(user=owner) == before
