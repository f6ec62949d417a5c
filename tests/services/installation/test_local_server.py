"""The command and variables that make an agent's client open this installation's database."""

import sys

import pytest

from schedules.services.installation.local_server import local_server, omitted_variable_note

SQLITE = "django.db.backends.sqlite3"


@pytest.fixture
def default_install(settings, monkeypatch, tmp_path):
    """An installation with all files in their default places."""
    (tmp_path / "manage.py").touch()
    settings.BASE_DIR, settings.CRONTY_DATA = tmp_path, tmp_path / "data"
    settings.CRONTY_MANAGE = [str(tmp_path / "manage.py")]
    database = {"ENGINE": SQLITE, "NAME": str(tmp_path / "data" / "cronty.sqlite3")}
    monkeypatch.setitem(settings.DATABASES, "default", database)
    return tmp_path


def test_default_installation_needs_no_variables(default_install):
    assert local_server("olga") == {
        "command": sys.executable,
        "args": [str(default_install / "manage.py"), "mcp_serve", "--user", "olga"],
    }
    assert omitted_variable_note() == ""


def test_custom_data_folder_and_database_file_are_passed_on(default_install, settings):
    settings.CRONTY_DATA = default_install / "elsewhere"

    assert local_server("olga")["env"] == {
        "CRONTY_DATA": f"{default_install}/elsewhere",
        "DATABASE_URL": f"sqlite:///{default_install}/data/cronty.sqlite3",
    }


def test_url_of_a_database_server_is_mentioned_but_not_shown(default_install, settings):
    settings.DATABASES["default"] |= {"ENGINE": "django.db.backends.postgresql", "PASSWORD": "hunter2"}

    assert "env" not in local_server("olga")
    assert "Also set DATABASE_URL" in omitted_variable_note()


def test_apps_of_the_operator_are_passed_on(default_install, settings):
    settings.CRONTY_APPS_VARIABLES = {"CRONTY_APPS": "greetings", "PYTHONPATH": "/srv/apps"}

    assert local_server("olga")["env"] == {"CRONTY_APPS": "greetings", "PYTHONPATH": "/srv/apps"}


@pytest.mark.parametrize("engine", [SQLITE, "django.db.backends.postgresql"])
def test_embedding_project_gets_no_cronty_variables(default_install, settings, engine):
    del settings.CRONTY_DATA
    settings.DATABASES["default"] |= {"ENGINE": engine}

    assert "env" not in local_server("olga")
    assert omitted_variable_note() == ""


@pytest.mark.parametrize(
    ("has_script", "start"),
    [(True, ["{}/bin/cronty", "mcp"]), (False, [sys.executable, "-m", "cronty_site", "mcp_serve"])],
)
def test_installed_package_is_started_by_its_path(
    default_install, settings, monkeypatch, tmp_path, has_script, start
):
    settings.CRONTY_MANAGE = ["-m", "cronty_site"]
    if has_script:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/cronty").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))

    server = local_server("olga")

    assert [server["command"], *server["args"]] == [
        *(word.format(tmp_path) for word in start),
        "--user",
        "olga",
    ]


@pytest.mark.parametrize("has_script", [True, False])
def test_embedding_project_is_started_with_its_manage_py_if_it_has_one(default_install, settings, has_script):
    del settings.CRONTY_DATA
    if not has_script:
        (default_install / "manage.py").unlink()

    start = [str(default_install / "manage.py")] if has_script else ["-m", "django"]
    assert local_server("olga")["args"] == [*start, "mcp_serve", "--user", "olga"]


def test_project_without_base_dir_is_started_with_its_settings_module(default_install, settings):
    del settings.BASE_DIR, settings.CRONTY_DATA

    server = local_server("olga")

    assert server["args"] == ["-m", "django", "mcp_serve", "--user", "olga"]
    assert server["env"] == {"DJANGO_SETTINGS_MODULE": "cronty_site.settings"}
