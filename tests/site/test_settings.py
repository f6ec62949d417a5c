"""Settings that follow from environment variables; they are read once, so each variant is its own process."""

import json
import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest
import tzdata

ROOT = Path(__file__).parent.parent.parent


def run(arguments: list[str], tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    own = {"CRONTY_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "cronty_site.settings"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=inherited | own | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def settings_with(tmp_path: Path, *names: str, **variables: str) -> dict[str, object]:
    code = (
        "import json; from django.conf import settings;"
        f"print(json.dumps({{name: getattr(settings, name) for name in {names!r}}}, default=str))"
    )
    done = run(["-c", code], tmp_path, **variables)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


SECURE = ("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SECURE_SSL_REDIRECT")
HSTS = ("SECURE_HSTS_SECONDS", "SECURE_HSTS_INCLUDE_SUBDOMAINS", "SECURE_HSTS_PRELOAD")


def test_public_https_address_turns_the_secure_flags_on(tmp_path):
    found = settings_with(
        tmp_path, *SECURE, "ALLOWED_HOSTS", "CSRF_TRUSTED_ORIGINS", CRONTY_URL="https://cronty.example:8443"
    )

    assert all(found[name] for name in SECURE)
    assert "cronty.example" in found["ALLOWED_HOSTS"]
    assert found["CSRF_TRUSTED_ORIGINS"] == ["https://cronty.example:8443"]


@pytest.mark.parametrize(("variables", "seconds"), [({}, 0), ({"CRONTY_HSTS_SECONDS": "3600"}, 3600)])
def test_hsts_is_opt_in_and_for_this_host_only(tmp_path, variables, seconds):
    found = settings_with(tmp_path, *HSTS, CRONTY_URL="https://cronty.example", **variables)

    assert [found[name] for name in HSTS] == [seconds, False, False]


def test_defaults_work_on_a_laptop(tmp_path):
    found = settings_with(tmp_path, *SECURE, "DEBUG", "ALLOWED_HOSTS", "DATABASES")

    assert not any(found[name] for name in (*SECURE, "DEBUG"))
    assert set(found["ALLOWED_HOSTS"]) == {"127.0.0.1", "localhost", "[::1]"}
    assert "sqlite3" in str(found["DATABASES"])


def test_wildcard_address_is_not_an_allowed_host(tmp_path):
    found = settings_with(tmp_path, "ALLOWED_HOSTS", CRONTY_HOST="0.0.0.0")  # noqa: S104

    assert "0.0.0.0" not in found["ALLOWED_HOSTS"]  # noqa: S104


WRONG = [
    ("CRONTY_PORT", "99999"),
    ("CRONTY_PORT", "http"),
    ("CRONTY_HOST", "http://localhost"),
    ("CRONTY_URL", "cronty.example"),
    ("CRONTY_TIME_ZONE", "Mars/Base"),
    ("CRONTY_ZONE_DATA", "elsewhere"),
    ("CRONTY_DATA", "/dev/null/data"),
    ("DATABASE_URL", "mysql://u:p@localhost/cronty"),
    ("DATABASE_URL", "postgres://u:p@localhost:port/cronty"),
    ("DATABASE_URL", "nonsense"),
    ("CRONTY_SECRET_KEY_FILE", "/no/such/file"),
    ("DATABASE_URL_FILE", "/no/such/file"),
    ("CRONTY_LOG_LEVEL", "LOUD"),
    ("CRONTY_DEBUG", "perhaps"),
    ("CRONTY_WORKERS", "0"),
    ("CRONTY_HISTORY_DAYS", "999999999"),
    ("CRONTY_HSTS_SECONDS", "-1"),
    ("CRONTY_AGENT_COMMAND", "'open"),
    ("CRONTY_APPS", "no_such_app"),
    ("CRONTY_OUTBOUND_ALLOW", "nas.local:99999"),
    ("NTFY_URL", "ntfy.sh"),
    ("EMAIL_URL", "mail.example"),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_invalid_setting_ends_a_command_with_one_sentence(tmp_path, name, value):
    done = run(["manage.py", "up"], tmp_path, **{name: value})

    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"Cronty cannot start. {name}: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["check", "migrate", "web", "qcluster", "mcp_serve", "help", "no_such"])
def test_every_command_refuses_an_invalid_setting_alike(tmp_path, command):
    done = run(["manage.py", command], tmp_path, CRONTY_PORT="99999")

    assert done.returncode == 1
    assert done.stderr == (
        "Cronty cannot start. CRONTY_PORT: use a whole number from 1 to 65535, not '99999'.\n"
    )


@pytest.mark.parametrize("kind", ["server", "file"])
def test_check_ends_with_one_sentence_if_the_database_is_unusable(tmp_path, kind):
    (tmp_path / "notes.txt").write_text("no database " * 100)
    address = {"server": "postgres://u:p@127.0.0.1:1/x", "file": f"sqlite:///{tmp_path / 'notes.txt'}"}[kind]

    done = run(["manage.py", "up", "--check", "--no-web"], tmp_path, DATABASE_URL=address)

    assert done.returncode == 1
    assert done.stderr.startswith("CommandError: DATABASE_URL: the database cannot be used (")
    assert done.stderr.count("\n") == 1


def test_asgi_import_refuses_an_invalid_setting_as_improperly_configured(tmp_path):
    done = run(["-c", "import cronty_site.asgi"], tmp_path, CRONTY_PORT="99999")

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        "django.core.exceptions.ImproperlyConfigured: CRONTY_PORT: use a whole number"
    )


@pytest.mark.parametrize("variables", [{}, {"CRONTY_HSTS_SECONDS": "3600"}], ids=["plain", "HSTS"])
def test_deployment_checks_are_clean_behind_https(tmp_path, variables):
    arguments = ["manage.py", "check", "--deploy", "--fail-level", "WARNING"]

    done = run(arguments, tmp_path, CRONTY_URL="https://cronty.example", **variables)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("value", "is_pooled"), [("true", True), ("false", False)])
def test_pooled_database_turns_server_side_cursors_off(tmp_path, value, is_pooled):
    seen = settings_with(
        tmp_path, "DATABASES", CRONTY_DATABASE_POOLED=value, DATABASE_URL="postgres://u:p@localhost/cronty"
    )

    assert seen["DATABASES"]["default"]["DISABLE_SERVER_SIDE_CURSORS"] is is_pooled


def test_options_of_the_database_address_are_added_to_the_defaults(tmp_path):
    address = "postgres://u:p@localhost/cronty?connect_timeout=60&currentSchema=cronty"

    seen = settings_with(tmp_path, "DATABASES", DATABASE_URL=address)

    options = seen["DATABASES"]["default"]["OPTIONS"]
    assert (int(options["connect_timeout"]), options["keepalives_idle"]) == (60, 10)
    assert options["options"] == "-c search_path=cronty"


@pytest.mark.parametrize(
    ("host", "name"),
    [("fd00::1", "[fd00::1]"), ("0.0.0.0", "127.0.0.1"), ("::", "[::1]")],  # noqa: S104
)
def test_address_of_the_pages_follows_from_host_and_port(tmp_path, host, name):
    seen = settings_with(tmp_path, "CRONTY_URL", "ALLOWED_HOSTS", CRONTY_HOST=host, CRONTY_PORT="9000")

    assert seen["CRONTY_URL"] == f"http://{name}:9000"
    assert set(seen["ALLOWED_HOSTS"]) == {name, "127.0.0.1", "localhost", "[::1]"}


@pytest.mark.parametrize(
    ("variables", "is_offered"), [({}, False), ({"EMAIL_URL": "smtp://mail.example"}, True)]
)
def test_password_reset_needs_a_mail_server(tmp_path, variables, is_offered):
    code = (
        "import django; django.setup();"
        "from cronty_site.urls import urlpatterns;"
        "print('password_reset' in [getattr(pattern, 'name', '') for pattern in urlpatterns])"
    )

    done = run(["-c", code], tmp_path, **variables)

    assert done.stdout.strip() == str(is_offered), done.stderr


SHOW_ZONE_DATA = (
    "import json, zoneinfo, django; django.setup();"
    "from schedules.when import zones; from schedules.when.triggers import load_zone;"
    "load_zone('Europe/Berlin');"
    "print(json.dumps([list(zoneinfo.TZPATH), zones.data_version()]))"
)


@pytest.mark.parametrize("variables", [{}, {"CRONTY_ZONE_DATA": "Package"}])
def test_zone_data_is_the_pinned_package(tmp_path, variables):
    done = run(["-c", SHOW_ZONE_DATA], tmp_path, **variables)

    assert json.loads(done.stdout) == [[], f"{tzdata.IANA_VERSION} (tzdata package)"], done.stderr


def test_zone_data_of_the_system_is_used_if_configured(tmp_path):
    # A system without zone data falls back to the package, as Python does.
    version, path = tmp_path / "zones" / "+VERSION", tmp_path / "zones"
    path.mkdir()
    (path / "UTC").write_bytes(resources.files("tzdata.zoneinfo").joinpath("UTC").read_bytes())
    version.write_text("2031a\n")

    done = run(["-c", SHOW_ZONE_DATA], tmp_path, CRONTY_ZONE_DATA="system", PYTHONTZPATH=str(path))

    assert json.loads(done.stdout) == [[str(path)], "2031a (system)"], done.stderr


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_spawned_child_uses_the_same_zone_data(tmp_path, method):
    # A worker of django-q2 loads the settings by importing its module.
    code = (
        "import importlib, multiprocessing\n"
        "if __name__ == '__main__':\n"
        f"    context = multiprocessing.get_context({method!r})\n"
        "    pool = context.Pool(1, importlib.import_module, ['django_q.worker'])\n"
        "    from schedules.when.zones import data_version\n"
        "    print(pool.apply(data_version))\n"
    )
    script = tmp_path / "script.py"
    script.write_text(code)

    done = run([str(script)], tmp_path, PYTHONPATH=str(ROOT))

    assert done.stdout.strip() == f"{tzdata.IANA_VERSION} (tzdata package)", done.stderr
