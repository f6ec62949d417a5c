"""Tokens and profiles."""

from datetime import UTC, datetime, timedelta

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from schedules.models import Profile, Token
from tests.factories import ProfileFactory, TokenFactory

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize("field", ["name", "prefix"])
def test_live_token_is_the_only_one_of_its_name_and_prefix(field):
    taken = TokenFactory()
    values = {"owner": taken.owner, field: getattr(taken, field)}

    with pytest.raises(ValidationError):
        TokenFactory.build(**values).full_clean()
    with pytest.raises(IntegrityError), transaction.atomic():
        TokenFactory(**values)


def test_name_of_a_revoked_token_is_free():
    taken = TokenFactory(revoked_at=NOW)

    TokenFactory(owner=taken.owner, name=taken.name)

    assert Token.objects.filter(name=taken.name).count() == 2


def test_usable_tokens_are_neither_revoked_nor_expired_nor_of_an_inactive_owner():
    forever, tomorrow = TokenFactory(), TokenFactory(expires_at=NOW + timedelta(days=1))
    TokenFactory(revoked_at=NOW)
    TokenFactory(expires_at=NOW)
    TokenFactory(owner__is_active=False)

    assert set(Token.objects.usable(NOW)) == {forever, tomorrow}


def test_keys_of_two_people_differ():
    first, second = ProfileFactory(), ProfileFactory()

    assert len({first.signing_key, first.calendar_key, second.signing_key, second.calendar_key}) == 4


def test_calendar_key_opens_one_persons_calendar():
    taken, other = ProfileFactory(), ProfileFactory()

    other.calendar_key = taken.calendar_key
    with pytest.raises(ValidationError):
        other.full_clean()
    with pytest.raises(IntegrityError), transaction.atomic():
        other.save(update_fields=["calendar_key"])


def test_zone_falls_back_to_the_sites(settings):
    settings.CRONTY_TIME_ZONE = "Asia/Tokyo"

    assert Profile(timezone="").zone == "Asia/Tokyo"
    assert Profile(timezone="Europe/Paris").zone == "Europe/Paris"


def test_rows_are_called_by_name():
    profile, token = ProfileFactory(user__username="olga"), TokenFactory(name="laptop")

    assert (str(profile), str(token)) == ("olga", "laptop")
