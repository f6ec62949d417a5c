"""Masking of values under names that sound like a secret, and of secrets in texts."""

from schedules.secrets import masking
from schedules.secrets.masking import MASK, Masker


def test_secrets_are_masked_at_any_depth():
    value = {
        "url": "https://example.com",
        "headers": [{"Authorization": "Bearer x", "X-Api-Key": "y", "accept": "json"}],
        "password": {"nested": 1},
        "token": "",
        "passphrase": "open",
    }

    assert masking.masked(value) == {
        "url": "https://example.com",
        "headers": [{"Authorization": MASK, "X-Api-Key": MASK, "accept": "json"}],
        "password": MASK,
        "token": "",
        "passphrase": MASK,
    }


def test_reference_to_a_secret_is_shown_if_nothing_secret_is_beside_it():
    for value, is_shown in [
        ("${secret:KEY}", True),
        ("Bearer ${secret:KEY}", True),
        ("Bearer abc ${secret:KEY}", False),
        ("abc${secret:KEY}", False),
        ("${secret:KEY}abc", False),
        ("${secret:}", False),
        (["${secret:KEY}"], False),
    ]:
        shown = value if is_shown else MASK

        assert masking.masked({"password": value}) == {"password": shown}
        assert masking.masked({"headers": {"authorization": value}}) == {"headers": {"authorization": shown}}


def test_amount_is_shown_although_its_name_sounds_like_a_secret():
    for key, value, is_shown in [
        ("max_tokens", 500, True),
        ("tokens-per-minute", 0.5, True),
        ("token_count", 3, True),
        ("is_secret", True, True),
        ("max_tokens", "500", False),
        ("password", 1234, False),
        ("permit_token", 1234, False),
    ]:
        assert masking.masked({key: value}) == {key: value if is_shown else MASK}


def test_request_headers_are_masked_unless_they_are_known_to_be_harmless():
    headers = {
        "X-Team": "hush",
        "Content-Type": "text/plain",
        "User-Agent": "me",
        "If-Match": "",
        "Zone": "hush",
    }
    shown = headers | {"X-Team": MASK, "Zone": MASK}

    assert masking.masked({"headers": headers}) == {"headers": shown}
    assert masking.masked({"actions": [{"extra_headers": headers}]}) == {
        "actions": [{"extra_headers": shown}]
    }
    assert masking.masked({"headers": ["X-Team: hush"]}) == {"headers": [MASK]}
    # Given by position.
    assert masking.masked(["https://example.com/", "POST", headers]) == [
        "https://example.com/",
        "POST",
        shown,
    ]


def test_secrets_are_masked_in_every_text_of_a_value():
    masker = Masker(["hush-hush-7"])

    assert masker.mask_value({"a": ("x hush-hush-7", 3), "hush-hush-7": None}) == {
        "a": [f"x {MASK}", 3],
        MASK: None,
    }
    assert Masker().mask_value({"a": "hush-hush-7"}) == {"a": "hush-hush-7"}
