"""Default settings that the app adds to a project."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import schedules
from schedules import apps, defaults

# Settings of the product, which the app reads only if they exist.
PRODUCT_ONLY = {"CRONTY_DATA", "CRONTY_APPS_VARIABLES", "CRONTY_MANAGE"}


def test_missing_settings_get_their_defaults_and_others_stay(monkeypatch: pytest.MonkeyPatch):
    project = SimpleNamespace(TIME_ZONE="Europe/Berlin", CRONTY_WORKERS=7)
    monkeypatch.setattr(apps, "settings", project)

    apps._apply_defaults()

    assert (project.CRONTY_WORKERS, project.CRONTY_LEASE_SECONDS) == (7, defaults.CRONTY_LEASE_SECONDS)
    assert project.CRONTY_TIME_ZONE == "Europe/Berlin"
    # django-q2 has read its own settings by then: a value set now would hide that they are missing.
    assert not hasattr(project, "Q_CLUSTER")


def test_every_setting_that_the_app_reads_has_a_default():
    sources = Path(schedules.__file__).parent.rglob("*.py")
    read = {
        name
        for source in sources
        for name in re.findall(r"settings\.((?:CRONTY|NTFY)_[A-Z_]+)", source.read_text())
    }

    assert "CRONTY_LEASE_SECONDS" in read
    assert read - vars(defaults).keys() - PRODUCT_ONLY == {"CRONTY_TIME_ZONE"}
