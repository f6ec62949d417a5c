"""Access tokens: uniqueness, and which tokens are usable."""

from datetime import UTC, datetime, timedelta

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from schedules.models import Token
from tests.factories import TokenFactory

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize("field", ["name", "prefix"])
def test_name_and_prefix_of_a_live_token_are_unique(field):
    taken = TokenFactory()
    values = {"owner": taken.owner, field: getattr(taken, field)}

    with pytest.raises(ValidationError):
        TokenFactory.build(**values).full_clean()
    with pytest.raises(IntegrityError), transaction.atomic():
        TokenFactory(**values)


def test_name_of_a_revoked_token_can_be_reused():
    taken = TokenFactory(revoked_at=NOW)

    TokenFactory(owner=taken.owner, name=taken.name)

    assert Token.objects.filter(name=taken.name).count() == 2


def test_usable_tokens_are_neither_revoked_nor_expired_nor_of_an_inactive_owner():
    forever, tomorrow = TokenFactory(), TokenFactory(expires_at=NOW + timedelta(days=1))
    TokenFactory(revoked_at=NOW)
    TokenFactory(expires_at=NOW)
    TokenFactory(owner__is_active=False)

    assert set(Token.objects.usable(NOW)) == {forever, tomorrow}
    assert {token for token in Token.objects.all() if token.is_usable_at(NOW)} == {forever, tomorrow}
