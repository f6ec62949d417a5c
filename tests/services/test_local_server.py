"""What an agent's client is told, so that it opens our database and no other."""

import sys

import pytest

from schedules.services.local_server import local_server, what_is_not_shown

SQLITE = "django.db.backends.sqlite3"


@pytest.fixture
def home(settings, monkeypatch, tmp_path):
    """An installation with everything where it is by default."""
    settings.BASE_DIR, settings.CRONTY_DATA = tmp_path, tmp_path / "data"
    database = {"ENGINE": SQLITE, "NAME": str(tmp_path / "data" / "cronty.sqlite3")}
    monkeypatch.setitem(settings.DATABASES, "default", database)
    return tmp_path


def test_nothing_is_handed_on_where_all_is_as_usual(home):
    assert local_server("olga") == {
        "command": sys.executable,
        "args": [str(home / "manage.py"), "mcp_serve", "--user", "olga"],
    }
    assert what_is_not_shown() == ""


def test_data_and_file_elsewhere_are_handed_on(home, settings):
    settings.CRONTY_DATA = home / "elsewhere"

    assert local_server("olga")["env"] == {
        "CRONTY_DATA": f"{home}/elsewhere",
        "DATABASE_URL": f"sqlite:///{home}/data/cronty.sqlite3",
    }


def test_address_of_a_database_server_is_named_and_not_shown(home, settings):
    settings.DATABASES["default"] |= {"ENGINE": "django.db.backends.postgresql", "PASSWORD": "hunter2"}

    assert "env" not in local_server("olga")
    assert "needs Cronty's DATABASE_URL, too" in what_is_not_shown()


def test_apps_of_the_operator_are_handed_on(home, settings):
    settings.CRONTY_APPS_VARIABLES = {"CRONTY_APPS": "greetings", "PYTHONPATH": "/srv/apps"}

    assert local_server("olga")["env"] == {"CRONTY_APPS": "greetings", "PYTHONPATH": "/srv/apps"}


@pytest.mark.parametrize("engine", [SQLITE, "django.db.backends.postgresql"])
def test_project_that_embeds_the_app_hands_on_no_variables_of_the_product(home, settings, engine):
    del settings.CRONTY_DATA
    settings.DATABASES["default"] |= {"ENGINE": engine}

    assert "env" not in local_server("olga")
    assert what_is_not_shown() == ""


def test_project_without_base_dir_is_started_by_its_settings_module(home, settings):
    del settings.BASE_DIR, settings.CRONTY_DATA

    server = local_server("olga")

    assert server["args"] == ["-m", "django", "mcp_serve", "--user", "olga"]
    assert server["env"] == {"DJANGO_SETTINGS_MODULE": "cronty_site.settings"}
