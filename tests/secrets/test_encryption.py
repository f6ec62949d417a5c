"""Encrypted texts: bound to their place, and readable with the current and former secret keys."""

import pytest

from schedules.secrets.encryption import UnreadableError, reseal, seal, unseal


def test_sealed_text_is_unreadable_and_different_every_time():
    first, second = seal("hush hush", "here"), seal("hush hush", "here")

    assert first != second
    assert "hush" not in first
    assert unseal(first, "here") == unseal(second, "here") == "hush hush"


@pytest.mark.parametrize("change", [lambda text: text[:-5] + "AAAA=", lambda text: "", lambda text: "☃"])
def test_changed_text_is_refused(change):
    with pytest.raises(UnreadableError):
        unseal(change(seal("hush", "here")), "here")


def test_text_of_another_place_is_refused():
    with pytest.raises(UnreadableError):
        unseal(seal("hush", "here"), "there")


def test_key_is_changed_by_way_of_the_fallbacks(settings):
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "old key", []
    sealed = seal("hush", "here")
    settings.SECRET_KEY = "new key"
    for call in (lambda: unseal(sealed, "here"), lambda: reseal(sealed)):
        with pytest.raises(UnreadableError):
            call()

    settings.SECRET_KEY_FALLBACKS = ["older key", "old key"]
    assert unseal(sealed, "here") == "hush"
    fresh = reseal(sealed)
    settings.SECRET_KEY_FALLBACKS = []

    assert unseal(fresh, "here") == "hush"
