"""Settings that follow from environment variables, and the processes that use or refuse them."""

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import tzdata
from django.conf import global_settings
from django.core.exceptions import ImproperlyConfigured

from cronty_site import urls
from tests.forks import python

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Site:
    """A data folder, and the command that starts Python for it."""

    folder: Path
    python: list[str]

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        own = {"CRONTY_DATA": str(self.folder), "DJANGO_SETTINGS_MODULE": "cronty_site.settings"}
        return subprocess.run(
            [*self.python, *arguments],
            cwd=ROOT,
            env=inherited | own | variables,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site whose processes are forks, and so start quickly."""
    return Site(tmp_path, python())


@pytest.fixture
def fresh_site(tmp_path: Path) -> Site:
    """A site whose processes are started as in an installation."""
    return Site(tmp_path, [sys.executable])


@pytest.fixture
def settings_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Return a function that executes the settings with other variables, apart from the settings in use."""

    def read(**variables: str) -> dict[str, Any]:
        for name in os.environ:
            if name.startswith(("CRONTY_", "NTFY_", "EMAIL_URL", "DATABASE_URL")):
                monkeypatch.delenv(name)
        # The other source of zone data would be set for this process.
        given = {"CRONTY_DATA": str(tmp_path), "CRONTY_ZONE_DATA": "system"} | variables
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        return vars(global_settings) | runpy.run_path(str(ROOT / "cronty_site" / "settings.py"))

    return read


SECURE = ("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SECURE_SSL_REDIRECT")
HSTS = ("SECURE_HSTS_SECONDS", "SECURE_HSTS_INCLUDE_SUBDOMAINS", "SECURE_HSTS_PRELOAD")


def test_public_https_address_turns_the_secure_flags_on(settings_with):
    found = settings_with(CRONTY_URL="https://cronty.example:8443")

    assert all(found[name] for name in SECURE)
    assert "cronty.example" in found["ALLOWED_HOSTS"]
    assert found["CSRF_TRUSTED_ORIGINS"] == ["https://cronty.example:8443"]


@pytest.mark.parametrize(("variables", "seconds"), [({}, 0), ({"CRONTY_HSTS_SECONDS": "3600"}, 3600)])
def test_hsts_is_opt_in_and_for_this_host_only(settings_with, variables, seconds):
    found = settings_with(CRONTY_URL="https://cronty.example", **variables)

    assert [found[name] for name in HSTS] == [seconds, False, False]


def test_defaults_work_on_a_laptop(settings_with):
    found = settings_with()

    assert not any(found[name] for name in (*SECURE, "DEBUG"))
    assert set(found["ALLOWED_HOSTS"]) == {"127.0.0.1", "localhost", "[::1]"}
    assert "sqlite3" in str(found["DATABASES"])


def test_wildcard_address_is_not_an_allowed_host(settings_with):
    found = settings_with(CRONTY_HOST="0.0.0.0")  # noqa: S104

    assert "0.0.0.0" not in found["ALLOWED_HOSTS"]  # noqa: S104


# One for each way in which settings read a variable; what each reader refuses is tested in test_environment.py.
WRONG = [
    ("CRONTY_PORT", "99999"),
    ("CRONTY_URL", "https://cronty.example/cronty"),
    ("CRONTY_TIME_ZONE", "Mars/Base"),
    ("CRONTY_ZONE_DATA", "elsewhere"),
    ("CRONTY_DATA", "/dev/null/data"),
    ("CRONTY_SECRET_KEY_FILE", "/no/such/file"),
    ("DATABASE_URL_FILE", "/no/such/file"),
    ("CRONTY_COMMANDS_FILE", "/nonexistent/folder/commands.toml"),
    ("CRONTY_HISTORY_DAYS", "999999999"),
    ("CRONTY_APPS", "no_such_app"),
    ("EMAIL_URL", "mail.example"),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_invalid_setting_is_refused_with_one_sentence(settings_with, name, value):
    with pytest.raises(ImproperlyConfigured) as refused:
        settings_with(**{name: value})

    assert str(refused.value).startswith(f"{name}: ")
    assert "\n" not in str(refused.value)


def test_command_ends_with_one_sentence_about_an_invalid_setting(site):
    done = site.run("manage.py", "mcp_serve", CRONTY_PORT="99999")

    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        "Cronty cannot start. CRONTY_PORT: use a whole number from 1 to 65535, not '99999'.\n"
    )


def test_check_ends_with_one_sentence_if_the_database_is_unusable(site, tmp_path):
    (tmp_path / "notes.txt").write_text("no database " * 100)
    address = f"sqlite:///{tmp_path / 'notes.txt'}"

    done = site.run("manage.py", "up", "--check", "--no-web", DATABASE_URL=address)

    assert done.returncode == 1
    assert done.stderr.startswith("CommandError: DATABASE_URL: the database cannot be used (")
    assert done.stderr.count("\n") == 1


def test_asgi_import_refuses_an_invalid_setting_as_improperly_configured(fresh_site):
    done = fresh_site.run("-c", "import cronty_site.asgi", CRONTY_PORT="99999")

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        "django.core.exceptions.ImproperlyConfigured: CRONTY_PORT: use a whole number"
    )


@pytest.mark.parametrize(("value", "is_pooled"), [("true", True), ("false", False)])
def test_pooled_database_turns_server_side_cursors_off(settings_with, value, is_pooled):
    seen = settings_with(CRONTY_DATABASE_POOLED=value, DATABASE_URL="postgres://u:p@localhost/cronty")

    assert seen["DATABASES"]["default"]["DISABLE_SERVER_SIDE_CURSORS"] is is_pooled


def test_options_of_the_database_address_are_added_to_the_defaults(settings_with):
    address = "postgres://u:p@localhost/cronty?connect_timeout=60&currentSchema=cronty"

    seen = settings_with(DATABASE_URL=address)

    options = seen["DATABASES"]["default"]["OPTIONS"]
    assert (int(options["connect_timeout"]), options["tcp_user_timeout"]) == (60, 8000)
    assert options["options"] == "-c search_path=cronty"


@pytest.mark.parametrize(
    ("host", "name"),
    [("fd00::1", "[fd00::1]"), ("0.0.0.0", "127.0.0.1"), ("::", "[::1]")],  # noqa: S104
)
def test_address_of_the_pages_follows_from_host_and_port(settings_with, host, name):
    seen = settings_with(CRONTY_HOST=host, CRONTY_PORT="9000")

    assert seen["CRONTY_URL"] == f"http://{name}:9000"
    assert set(seen["ALLOWED_HOSTS"]) == {name, "127.0.0.1", "localhost", "[::1]"}


def test_password_reset_needs_a_mail_server(site):
    code = (
        "import django; django.setup();"
        "from cronty_site.urls import urlpatterns;"
        "print('password_reset' in [getattr(pattern, 'name', '') for pattern in urlpatterns])"
    )

    done = site.run("-c", code, EMAIL_URL="smtp://mail.example")

    assert done.stdout.strip() == "True", done.stderr
    assert "password_reset" not in [getattr(pattern, "name", "") for pattern in urls.urlpatterns]


SHOW_ZONE_DATA = (
    "import json, zoneinfo, django; django.setup();"
    "from schedules.when import zones; from schedules.when.triggers import load_zone;"
    "load_zone('Europe/Berlin');"
    "print(json.dumps([list(zoneinfo.TZPATH), zones.data_version()]))"
)


def test_zone_data_of_the_system_is_used_if_configured(fresh_site, tmp_path):
    # A system without zone data falls back to the package, as Python does.
    version, path = tmp_path / "zones" / "+VERSION", tmp_path / "zones"
    path.mkdir()
    (path / "UTC").write_bytes(resources.files("tzdata.zoneinfo").joinpath("UTC").read_bytes())
    version.write_text("2031a\n")

    done = fresh_site.run("-c", SHOW_ZONE_DATA, CRONTY_ZONE_DATA="system", PYTHONTZPATH=str(path))

    assert json.loads(done.stdout) == [[str(path)], "2031a (system)"], done.stderr


def test_spawned_child_uses_the_pinned_zone_data_too(fresh_site, tmp_path):
    # A worker of django-q2 loads the settings by importing its module.
    code = (
        "import importlib, multiprocessing\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    pool = context.Pool(1, importlib.import_module, ['django_q.worker'])\n"
        "    from schedules.when.zones import data_version\n"
        "    import django; django.setup()\n"
        "    print(data_version() == pool.apply(data_version), data_version())\n"
    )
    script = tmp_path / "script.py"
    script.write_text(code)

    done = fresh_site.run(str(script), PYTHONPATH=str(ROOT))

    assert done.stdout.strip() == f"True {tzdata.IANA_VERSION} (tzdata package)", done.stderr
