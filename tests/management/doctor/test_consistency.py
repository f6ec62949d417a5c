"""Settings that contradict each other."""

from importlib import import_module

import pytest
from django.conf import LazySettings

from schedules.management.doctor import consistency


@pytest.fixture(autouse=True)
def _addresses(settings: LazySettings) -> None:
    """Import the addresses before a test turns on OAuth, whose app is not installed: they are imported only once."""
    import_module(settings.ROOT_URLCONF)


def found() -> list[tuple[str, str]]:
    return [(finding.level, finding.message) for finding in consistency.examine()]


def test_settings_that_fit_together_are_ok():
    assert found() == [("ok", "They fit together.")]


@pytest.mark.parametrize(
    ("changes", "level", "words"),
    [
        ({"CRONTY_URL": "https://c.example"}, "problem", "names no proxy"),
        ({"CRONTY_URL": "http://c.example", "CRONTY_HOST": "0.0.0.0"}, "warning", "unencrypted"),  # noqa: S104
        ({"CRONTY_URL": "http://c.example", "CRONTY_OAUTH": True}, "problem", "CRONTY_OAUTH needs"),
        ({"CRONTY_URL": "http://c.example"}, "warning", "listens on 127.0.0.1 only"),
        ({"CRONTY_HOST": "0.0.0.0", "CRONTY_PORT": 8000}, "warning", "listens on 0.0.0.0, but refuses"),  # noqa: S104
        ({"SECURE_HSTS_SECONDS": 60}, "warning", "CRONTY_HSTS_SECONDS"),
        ({"CRONTY_URL": "http://c.example", "DEBUG": True}, "problem", "CRONTY_DEBUG"),
        ({"CRONTY_CATCH_UP_HOURS": 100, "CRONTY_HISTORY_DAYS": 1}, "warning", "CRONTY_CATCH_UP_HOURS"),
        ({"CRONTY_AGENT_USERS": ["olga"], "CRONTY_AGENT_COMMAND": []}, "warning", "CRONTY_AGENT_USERS"),
        ({"CRONTY_OUTBOUND_ALLOW": ["not a host!"]}, "problem", "schedules.E009"),
    ],
)
def test_contradiction_is_reported(settings, changes, level, words):
    for name, value in changes.items():
        setattr(settings, name, value)

    assert [found_level for found_level, message in found() if words in message] == [level]


def test_loopback_address_that_was_set_for_a_container_is_ok(settings):
    settings.CRONTY_URL, settings.CRONTY_HOST = "http://localhost:8000", "0.0.0.0"  # noqa: S104

    assert found() == [("ok", "They fit together.")]


def test_https_with_a_trusted_proxy_is_ok(settings):
    settings.CRONTY_URL, settings.CRONTY_TRUSTED_PROXIES = "https://c.example", ["127.0.0.1"]

    assert [message for _, message in found() if "CRONTY_TRUSTED_PROXIES" in message] == []
