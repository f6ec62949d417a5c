"""The fingerprint of the secret key that all hosts share."""

import pytest

from schedules import clock, engine
from schedules.mcp.answers.refusals import message_of
from schedules.models import Cluster, Installation, Secret
from schedules.result import Err
from schedules.secrets.encryption import unseal
from schedules.services.installation.secret_key import (
    ForeignSecretKeyError,
    SecretKeyNotSharedError,
    adopt_secret_key,
    require_secret_key,
    secret_key_warning,
)
from schedules.services.people.stored_secrets import set_secret

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


def use_keys(settings, key, *fallbacks):
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = key, list(fallbacks)


def readable_with(settings, *keys):
    use_keys(settings, *keys)
    row = Secret.objects.get()
    return unseal(row.sealed, row.place) == "hush-hush-7"


@pytest.fixture
def old_host(settings, actor):
    """A host that runs with the old key alone, and a secret."""
    use_keys(settings, "old")
    require_secret_key()
    set_secret(actor, "KEY", "hush-hush-7", hosts=["a.example"])
    row = engine.enlist(clock.now())
    Cluster.objects.filter(pk=row.pk).update(host="berlin")
    return row


def test_secrets_stay_readable_at_a_host_that_still_has_the_old_key_alone(settings, old_host, caplog):
    use_keys(settings, "new", "old")
    require_secret_key()

    assert "these hosts do not accept it: berlin." in caplog.text
    assert "berlin" in secret_key_warning()
    assert readable_with(settings, "old")


def test_secrets_are_sealed_with_the_new_key_once_every_living_host_accepts_it(settings, old_host):
    engine.retire(old_host.pk, clock.now())
    use_keys(settings, "old", "new")
    require_secret_key()
    engine.enlist(clock.now())

    use_keys(settings, "new", "old")
    require_secret_key()

    assert secret_key_warning() == ""
    assert readable_with(settings, "new")


def test_host_that_restarts_with_the_replaced_key_first_does_not_put_it_back(settings, old_host):
    engine.retire(old_host.pk, clock.now())
    use_keys(settings, "new", "old")
    require_secret_key()
    use_keys(settings, "old", "new")

    require_secret_key()

    assert "was replaced on another one" in secret_key_warning()
    assert readable_with(settings, "new")


def test_secret_written_while_the_key_changes_is_readable_by_every_host(settings, old_host, actor):
    use_keys(settings, "new", "old")
    require_secret_key()

    set_secret(actor, "KEY", "hush-hush-7", hosts=["a.example"])

    assert readable_with(settings, "old")


def test_host_without_the_new_key_refuses_to_write_a_secret(settings, old_host, actor):
    engine.retire(old_host.pk, clock.now())
    use_keys(settings, "new", "old")
    require_secret_key()
    use_keys(settings, "old")

    refused = set_secret(actor, "KEY", "lost-at-once", hosts=["a.example"])

    assert isinstance(refused, Err)
    assert "must give it to this one first" in message_of(refused)
    assert readable_with(settings, "new")


def test_key_is_not_adopted_while_a_living_host_lacks_it(settings, old_host):
    use_keys(settings, "new")

    with pytest.raises(SecretKeyNotSharedError, match="berlin"):
        adopt_secret_key()

    assert readable_with(settings, "old")
