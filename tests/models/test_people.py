"""Profiles: keys and time zone."""

from datetime import UTC, datetime

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from schedules.models import Profile
from tests.factories import ProfileFactory

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)


def test_keys_of_two_people_differ():
    first, second = ProfileFactory(), ProfileFactory()

    assert len({first.signing_key, first.calendar_key, second.signing_key, second.calendar_key}) == 4


def test_calendar_key_identifies_one_person():
    taken, other = ProfileFactory(), ProfileFactory()

    other.calendar_key = taken.calendar_key
    with pytest.raises(ValidationError):
        other.full_clean()
    with pytest.raises(IntegrityError), transaction.atomic():
        other.save(update_fields=["calendar_key"])


def test_zone_falls_back_to_that_of_the_site(settings):
    settings.CRONTY_TIME_ZONE = "Asia/Tokyo"

    assert Profile(timezone="").zone == "Asia/Tokyo"
    assert Profile(timezone="Europe/Paris").zone == "Europe/Paris"
