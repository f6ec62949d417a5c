import pytest

from schedules.web.forms.people import SettingsForm, WelcomeForm


@pytest.mark.parametrize("form_class", [SettingsForm, WelcomeForm])
def test_invalid_zone_and_topic_are_reported_together(form_class: type[SettingsForm]):
    form = form_class({"timezone": "Nowhere/X", "failure_topic": "a b", "message": "Hello."})

    assert set(form.errors) == {"timezone", "failure_topic"}
