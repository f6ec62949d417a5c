"""How settings are read from the environment, and what follows from them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from cronty_site import environment

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def given(monkeypatch):
    """Set the variable that the readers are asked for."""
    return lambda value: monkeypatch.setenv("X", value)


# The readers


def test_text_is_trimmed_and_empty_is_the_default(given):
    assert environment.text("X", "default") == "default"
    given("  ")
    assert environment.text("X", "default") == "default"
    given(" value ")
    assert environment.text("X", "default") == "value"


def test_secret_may_lie_in_a_file(given, monkeypatch, tmp_path):
    given("plain")
    assert environment.secret("X") == "plain"
    (tmp_path / "secret").write_text("hidden\n")
    monkeypatch.setenv("X_FILE", str(tmp_path / "secret"))
    assert environment.secret("X") == "hidden"


@pytest.mark.parametrize(("value", "truth"), [("1", True), ("Yes", True), ("off", False), ("FALSE", False)])
def test_boolean_has_its_words(given, value, truth):
    given(value)

    assert environment.boolean("X", not truth) is truth


def test_whole_number_within_its_bounds_is_read(given):
    given("7")

    assert environment.integer("X", 1, minimum=7) == 7


def test_list_is_split_at_commas_and_blanks(given):
    given("a.example, b.example  c.example")

    assert environment.words("X") == ["a.example", "b.example", "c.example"]


@pytest.mark.parametrize(
    ("value", "arguments"),
    [
        pytest.param("", [], id="none"),
        pytest.param("agent --say 'two words'", ["agent", "--say", "two words"], id="line"),
        pytest.param('["agent", "two words"]', ["agent", "two words"], id="array"),
    ],
)
def test_command_is_a_list_of_arguments(given, value, arguments):
    given(value)

    assert environment.command("X") == arguments


def test_web_address_loses_its_last_slash(given):
    given("https://cronty.example/")

    assert environment.web_address("X", "") == "https://cronty.example"


@pytest.mark.parametrize(
    ("reader", "value"),
    [
        pytest.param(lambda: environment.boolean("X", True), "perhaps", id="boolean"),
        pytest.param(lambda: environment.integer("X", 1), "many", id="no number"),
        pytest.param(lambda: environment.integer("X", 1), "1.5", id="fraction"),
        pytest.param(lambda: environment.integer("X", 1, minimum=1), "0", id="below the minimum"),
        pytest.param(lambda: environment.command("X"), "[torn", id="torn array"),
        pytest.param(lambda: environment.command("X"), "[1]", id="array of numbers"),
        pytest.param(lambda: environment.web_address("X", ""), "cronty.example", id="no scheme"),
        pytest.param(lambda: environment.web_address("X", ""), "ftp://cronty.example", id="another scheme"),
        pytest.param(lambda: environment.web_address("X", ""), "http://[torn", id="torn address"),
        pytest.param(lambda: environment.web_address("X", ""), "http://a:70000", id="no such port"),
        pytest.param(lambda: environment.email_settings("X"), "http://mail.example", id="no mail server"),
    ],
)
def test_nonsense_is_refused_by_name(given, reader, value):
    given(value)

    with pytest.raises(ImproperlyConfigured, match=r"^X: "):
        reader()


def test_dotenv_fills_in_what_the_environment_leaves_open(monkeypatch, tmp_path):
    monkeypatch.setenv("X", "real")
    # Set and deleted, so that the test's own additions are undone with it.
    for name in ("Y", "Z"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    (tmp_path / ".env").write_text("# note=1\nX=file\nexport Y='quoted'\nnonsense\nZ=a=b\n")

    environment.load_dotenv(tmp_path / ".env")
    environment.load_dotenv(tmp_path / "missing")

    assert (os.environ["X"], os.environ["Y"], os.environ["Z"]) == ("real", "quoted", "a=b")


def test_generated_secret_is_made_once_and_closed_to_others(tmp_path):
    path = tmp_path / "data" / "secret_key"

    first, second = environment.generated_secret(path), environment.generated_secret(path)

    assert first == second
    assert len(first) > 60
    assert path.stat().st_mode & 0o077 == 0
    assert list(path.parent.iterdir()) == [path]


def test_of_two_processes_that_make_a_secret_the_first_one_wins(tmp_path, monkeypatch):
    path = tmp_path / "secret_key"
    link = os.link

    def late_link(source: str, target: Path) -> None:
        path.write_text("the other's")
        link(source, target)

    monkeypatch.setattr(os, "link", late_link)

    assert environment.generated_secret(path) == "the other's"


def test_mail_goes_to_the_console_unless_told_where():
    assert environment.email_settings("X") == {
        "EMAIL_BACKEND": "django.core.mail.backends.console.EmailBackend"
    }


@pytest.mark.parametrize(
    ("url", "port", "use_ssl", "use_tls"),
    [
        pytest.param("smtp://me:p%40ss@mail.example:587?tls=true", 587, False, True, id="tls"),
        pytest.param("smtps://me:p%40ss@mail.example", 465, True, False, id="ssl"),
        pytest.param("smtp://me:p%40ss@mail.example", 25, False, False, id="plain"),
    ],
)
def test_mail_server_is_read_from_one_address(given, url, port, use_ssl, use_tls):
    given(url)

    assert environment.email_settings("X") == {
        "EMAIL_HOST": "mail.example",
        "EMAIL_PORT": port,
        "EMAIL_HOST_USER": "me",
        "EMAIL_HOST_PASSWORD": "p@ss",
        "EMAIL_USE_SSL": use_ssl,
        "EMAIL_USE_TLS": use_tls,
    }


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("0.0.0.0", "127.0.0.1"),  # noqa: S104
        ("::", "[::1]"),
        ("0:0::0", "[::1]"),
        ("", "127.0.0.1"),
        ("127.0.0.2", "127.0.0.2"),
        ("fd00::1", "[fd00::1]"),
        ("cronty.example", "cronty.example"),
    ],
)
def test_host_in_an_address_can_be_asked_for(host, written):
    assert environment.host_in_address(host) == written


# What follows from them: settings are read once, so each variant is a process of its own


def python(code: str, tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    own = {"CRONTY_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "cronty_site.settings"}
    return subprocess.run(
        [sys.executable, "-c", code],
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
    done = python(code, tmp_path, **variables)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


SECURE = ("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SECURE_SSL_REDIRECT", "SECURE_HSTS_SECONDS")


def test_public_https_address_switches_the_secure_flags_on(tmp_path):
    found = settings_with(
        tmp_path, *SECURE, "ALLOWED_HOSTS", "CSRF_TRUSTED_ORIGINS", CRONTY_URL="https://cronty.example:8443"
    )

    assert all(found[name] for name in SECURE)
    assert "cronty.example" in found["ALLOWED_HOSTS"]
    assert found["CSRF_TRUSTED_ORIGINS"] == ["https://cronty.example:8443"]


def test_plain_defaults_work_on_a_laptop(tmp_path):
    found = settings_with(tmp_path, *SECURE, "DEBUG", "ALLOWED_HOSTS", "DATABASES")

    assert not any(found[name] for name in (*SECURE, "DEBUG"))
    assert set(found["ALLOWED_HOSTS"]) == {"127.0.0.1", "localhost", "[::1]"}
    assert "sqlite3" in str(found["DATABASES"])


def test_every_address_of_the_machine_is_no_host_name(tmp_path):
    found = settings_with(tmp_path, "ALLOWED_HOSTS", CRONTY_HOST="0.0.0.0")  # noqa: S104

    assert "0.0.0.0" not in found["ALLOWED_HOSTS"]  # noqa: S104


@pytest.mark.parametrize(
    ("name", "value"),
    [("CRONTY_TIME_ZONE", "Mars/Base"), ("CRONTY_PORT", "http"), ("CRONTY_URL", "cronty.example")],
)
def test_site_does_not_start_with_nonsense(tmp_path, name, value):
    done = python("from django.conf import settings; settings.DEBUG", tmp_path, **{name: value})

    assert done.returncode != 0
    assert f"ImproperlyConfigured: {name}: " in done.stderr


def test_deployment_checks_are_clean_behind_https(tmp_path):
    code = (
        "from django.core.management import execute_from_command_line as run;"
        "run(['manage.py', 'check', '--deploy', '--fail-level', 'WARNING'])"
    )

    done = python(code, tmp_path, CRONTY_URL="https://cronty.example")

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("value", "is_pooled"), [("true", True), ("false", False)])
def test_pooler_is_told_of_by_a_variable(tmp_path, value, is_pooled):
    seen = settings_with(
        tmp_path, "DATABASES", CRONTY_DATABASE_POOLED=value, DATABASE_URL="postgres://u:p@localhost/cronty"
    )

    assert seen["DATABASES"]["default"]["DISABLE_SERVER_SIDE_CURSORS"] is is_pooled


def test_what_the_database_address_asks_for_stands_beside_the_defaults(tmp_path):
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
