"""The fingerprint of the secret key that all hosts share."""

import pytest

from schedules.encryption import unseal
from schedules.models import Installation, Secret
from schedules.services.secret_key import ForeignSecretKeyError, adopt_secret_key, require_secret_key
from schedules.services.secrets import set_secret

pytestmark = pytest.mark.django_db


def test_first_host_records_a_fingerprint_that_does_not_contain_the_key(settings):
    settings.SECRET_KEY = "first"
    require_secret_key()
    require_secret_key()

    row = Installation.objects.get()
    assert len(row.secret_fingerprint) == 64
    assert "first" not in row.secret_fingerprint


def test_row_without_a_fingerprint_gets_one():
    Installation.objects.create(pk=Installation.ONLY, zone_data="2026a")

    require_secret_key()

    row = Installation.objects.get()
    assert (len(row.secret_fingerprint), row.zone_data) == (64, "2026a")


def test_host_with_another_key_is_refused_with_what_to_copy(settings):
    require_secret_key()
    settings.SECRET_KEY = "another"

    with pytest.raises(ForeignSecretKeyError) as refused:
        require_secret_key()

    assert f"its file data/secret_key to {settings.CRONTY_DATA}/secret_key" in str(refused.value)
    assert "put the old one into CRONTY_SECRET_KEY_FALLBACKS" in str(refused.value)
    assert "another" not in str(refused.value).replace("another secret key", "")


def test_embedded_project_is_told_about_its_own_settings(settings):
    require_secret_key()
    settings.SECRET_KEY = "another"
    del settings.CRONTY_DATA

    with pytest.raises(ForeignSecretKeyError, match=r"its setting SECRET_KEY\..*into SECRET_KEY_FALLBACKS"):
        require_secret_key()


def test_key_is_changed_by_a_host_that_names_the_old_one_as_a_fallback(settings):
    settings.SECRET_KEY = "old"
    require_secret_key()
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new", ["older", "old"]
    require_secret_key()

    settings.SECRET_KEY_FALLBACKS = []
    require_secret_key()
    settings.SECRET_KEY = "old"
    with pytest.raises(ForeignSecretKeyError):
        require_secret_key()


def test_key_is_changed_without_the_old_one_by_adopting_it(settings):
    settings.SECRET_KEY = "lost"
    require_secret_key()
    settings.SECRET_KEY = "new"
    with pytest.raises(ForeignSecretKeyError):
        require_secret_key()

    adopt_secret_key()

    require_secret_key()
    settings.SECRET_KEY = "lost"
    with pytest.raises(ForeignSecretKeyError):
        require_secret_key()


def test_change_of_the_key_takes_the_secrets_along(settings, actor):
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "old", []
    require_secret_key()
    set_secret(actor, "KEY", "hush-hush-7", hosts=["a.example"])
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new", ["old"]
    require_secret_key()
    settings.SECRET_KEY_FALLBACKS = []

    row = Secret.objects.get()
    assert unseal(row.sealed, row.place) == "hush-hush-7"


def test_secrets_of_a_lost_key_are_named(settings, actor):
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "lost", []
    set_secret(actor, "KEY", "hush-hush-7", hosts=["a.example"])
    settings.SECRET_KEY = "new"
    set_secret(actor, "FRESH", "hush-hush-8", hosts=["a.example"])

    assert adopt_secret_key() == ["KEY"]
