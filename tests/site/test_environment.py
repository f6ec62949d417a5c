"""Readers of environment variables: what they accept, and what they refuse."""

import os
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from cronty_site import environment


@pytest.fixture
def given(monkeypatch):
    """Return a function that sets the variable read by the tests."""
    return lambda value: monkeypatch.setenv("X", value)


def test_text_is_trimmed_and_empty_is_the_default(given):
    assert environment.text("X", "default") == "default"
    given("  ")
    assert environment.text("X", "default") == "default"
    given(" value ")
    assert environment.text("X", "default") == "value"


def test_secret_is_read_from_a_file(given, monkeypatch, tmp_path):
    given("plain")
    assert environment.secret("X") == "plain"
    (tmp_path / "secret").write_text("hidden\n")
    monkeypatch.setenv("X_FILE", str(tmp_path / "secret"))
    assert environment.secret("X") == "hidden"


def test_boolean_accepts_common_words(given):
    for value, truth in [("1", True), ("Yes", True), ("off", False), ("FALSE", False)]:
        given(value)

        assert environment.boolean("X", not truth) is truth


def test_whole_number_within_its_bounds_is_read(given):
    given("7")

    assert environment.integer("X", 1, minimum=7, maximum=7) == 7


def test_list_is_split_at_commas_and_blanks(given):
    given("a.example, b.example  c.example")

    assert environment.words("X") == ["a.example", "b.example", "c.example"]


def test_command_is_a_list_of_arguments(given):
    for value, arguments in [
        ("", []),
        ("agent --say 'two words'", ["agent", "--say", "two words"]),
        ('["agent", "two words"]', ["agent", "two words"]),
    ]:
        given(value)

        assert environment.command("X") == arguments


def test_users_are_login_names_or_everybody(given):
    for value, names in [("", []), ("*", ["*"]), ("olga, otto@example.com", ["olga", "otto@example.com"])]:
        given(value)

        assert environment.users("X") == names


def test_trailing_slash_of_a_url_is_removed(given):
    given("https://cronty.example/")

    assert environment.web_address("X", "") == "https://cronty.example"


def test_secret_address_is_kept_as_it_is_and_optional(given):
    assert environment.secret_address("X") == ""
    given("https://watch.example/5ec2e7/")

    assert environment.secret_address("X") == "https://watch.example/5ec2e7/"


def test_invalid_value_is_refused_with_the_name_of_the_variable(given):
    for reader, value in [
        (lambda: environment.boolean("X", True), "perhaps"),
        (lambda: environment.integer("X", 1, minimum=0, maximum=9), "many"),
        (lambda: environment.integer("X", 1, minimum=0, maximum=9), "1.5"),
        (lambda: environment.integer("X", 1, minimum=1, maximum=9), "0"),
        (lambda: environment.command("X"), "[torn"),
        (lambda: environment.command("X"), "[1]"),
        (lambda: environment.web_address("X", ""), "cronty.example"),
        (lambda: environment.web_address("X", ""), "ftp://cronty.example"),
        (lambda: environment.web_address("X", ""), "http://[torn"),
        (lambda: environment.secret_address("X"), "hc-ping.com/5ec2e7"),
        (lambda: environment.web_address("X", ""), "http://a:70000"),
        (lambda: environment.email_settings("X", ""), "http://mail.example"),
        (lambda: environment.email_settings("X", ""), "smtp://a:b"),
        (lambda: environment.email_settings("X", ""), "smtps://a?tls=true"),
        (lambda: environment.email_settings("X", ""), "smtp://a?tls=maybe"),
        (lambda: environment.email_settings("X", ""), "smtp://a?tls"),
        (lambda: environment.email_settings("X", ""), "smtp://a?ssl=true"),
        (lambda: environment.integer("X", 1, minimum=1, maximum=9), "10"),
        (lambda: environment.web_address("X", ""), "https://a b"),
        (lambda: environment.destinations("X"), "nas.local:99999"),
        (lambda: environment.networks("X"), "127.0.0.1, proxy.local"),
        (lambda: environment.networks("X"), "10.0.0.1/8"),
        (lambda: environment.networks("X"), "*"),
        (lambda: environment.destinations("X"), "http://nas.local"),
        (lambda: environment.destinations("X"), "10.0.0.5/8"),
        (lambda: environment.destinations("X"), "300.1.1.1"),
        (lambda: environment.header_names("X"), "X-Team, Host"),
        (lambda: environment.users("X"), "olga, *"),
        (lambda: environment.choice("X", "A", ("A", "B")), "C"),
        (lambda: environment.zone_data("X"), "elsewhere"),
        (lambda: environment.time_zone("X", "UTC"), "Mars/Base"),
        (lambda: environment.time_zone("X", "UTC"), "../etc/passwd"),
        (lambda: environment.host("X", ""), "http://a"),
        (lambda: environment.host("X", ""), "300.1.1.1"),
        (lambda: environment.apps("X"), "tests.no_such_app"),
        (lambda: environment.apps("X"), "no_such_app.sub"),
        (lambda: environment.apps("X"), "no-such-app.Config"),
        (lambda: environment.database("X", ""), "mysql://u:p@h/name"),
        (lambda: environment.database("X", ""), "nonsense"),
        (lambda: environment.database("X", ""), "postgres://u:p@h:port/n"),
        (lambda: environment.database("X", ""), "postgres://u:p@h"),
        (lambda: environment.database("X", ""), "sqlite://:memory:"),
        (lambda: environment.database("X", ""), "sqlite:////no/such/db"),
        (lambda: environment.folder("X", Path("data")), "/dev/null/data"),
    ]:
        given(value)

        with pytest.raises(ImproperlyConfigured, match=r"^X: "):
            reader()


def test_site_address_has_no_path_but_another_address_may_have_one(given):
    for rest in ["/cronty", "/cronty/", ":8000/cronty", "?a=b", "#top"]:
        given(f"https://cronty.example{rest}")

        with pytest.raises(ImproperlyConfigured, match=r"^X: use an address without a path"):
            environment.site_address("X", "")
        assert environment.web_address("X", "").startswith("https://cronty.example")


def test_site_address_with_a_login_is_refused_without_showing_its_password(given):
    given("https://olga:hunter2@cronty.example")

    with pytest.raises(
        ImproperlyConfigured, match=r"^X: use an address without a path or a login"
    ) as refused:
        environment.site_address("X", "")

    assert "hunter2" not in str(refused.value)


def test_site_address_is_a_host_with_or_without_a_port(given):
    for address in ["http://[::1]:8000", "HTTPS://cronty.example/"]:
        given(address)

        assert environment.site_address("X", "") == address.rstrip("/")


def test_database_address_is_refused_without_showing_its_password(given):
    given("mysql://u:hunter2@h/name")

    with pytest.raises(ImproperlyConfigured) as refused:
        environment.database("X", "")

    assert "hunter2" not in str(refused.value)


def test_data_folder_that_cannot_be_written_is_not_blamed_on_the_database_address(given):
    given("")

    with pytest.raises(ImproperlyConfigured, match=r"^CRONTY_DATA: the folder /no/such cannot be written"):
        environment.database("X", "sqlite:////no/such/cronty.sqlite3")


@pytest.mark.parametrize("content", [None, b"\xff\xfe"], ids=["missing", "not UTF-8"])
def test_unreadable_secret_file_is_refused_with_its_name(monkeypatch, tmp_path, content):
    if content:
        (tmp_path / "secret").write_bytes(content)
    monkeypatch.setenv("X_FILE", str(tmp_path / "secret"))

    with pytest.raises(ImproperlyConfigured, match=r"^X_FILE: .*secret"):
        environment.secret("X")


def test_app_is_a_package_or_the_path_of_its_config(given):
    for app in ["tests.sample_app", "django.contrib.sites.apps.SitesConfig"]:
        given(app)

        assert environment.apps("X") == [app]


def test_destination_is_a_network_or_a_host(given):
    for entry in ["10.0.0.0/8", "fd00::/8", "127.0.0.1", "nas.local", "nas.local:8080", "[::1]:80"]:
        given(entry)

        assert environment.destinations("X") == [entry]


def test_networks_are_addresses_and_networks(given):
    given("127.0.0.1, 10.0.0.0/8 ::1 2001:db8::/32")

    assert environment.networks("X") == ["127.0.0.1", "10.0.0.0/8", "::1", "2001:db8::/32"]


def test_host_is_an_ip_address_or_a_name(given):
    for host in ["127.0.0.1", "::1", "localhost", "node1", "cronty.example"]:
        given(host)

        assert environment.host("X", "") == host


def test_folder_is_created_with_its_parents(given, tmp_path):
    given(str(tmp_path / "a" / "b"))

    assert environment.folder("X", Path("data")) == tmp_path / "a" / "b"
    assert (tmp_path / "a" / "b").is_dir()


def test_dotenv_sets_only_variables_missing_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("X", "real")
    # Set and deleted, so that the test's own additions are undone with it.
    for name in ("Y", "Z"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    (tmp_path / ".env").write_text("# note=1\nX=file\nexport Y='quoted'\nnonsense\nZ=a=b\n")

    environment.load_dotenv(tmp_path / ".env")
    environment.load_dotenv(tmp_path / "missing")

    assert (os.environ["X"], os.environ["Y"], os.environ["Z"]) == ("real", "quoted", "a=b")


def test_secret_is_generated_once_and_readable_only_by_its_owner(tmp_path):
    path = tmp_path / "secret_key"

    first, second = environment.generated_secret("X", path), environment.generated_secret("X", path)

    assert first == second
    assert len(first) > 60
    assert path.stat().st_mode & 0o077 == 0
    assert list(path.parent.iterdir()) == [path]


def test_binary_dotenv_file_is_refused_with_its_name(tmp_path):
    (tmp_path / ".env").write_bytes(b"\xff")

    with pytest.raises(ImproperlyConfigured, match=r"^\.env: .* is not UTF-8"):
        environment.load_dotenv(tmp_path / ".env")


def test_dotenv_file_that_everybody_can_change_is_refused_and_sets_nothing(monkeypatch, tmp_path):
    monkeypatch.delenv("CRONTY_AGENT_COMMAND", raising=False)
    (tmp_path / ".env").write_text("CRONTY_AGENT_COMMAND=/tmp/evil\n")
    (tmp_path / ".env").chmod(0o646)

    with pytest.raises(ImproperlyConfigured, match=r"^\.env: every user of this machine can change "):
        environment.load_dotenv(tmp_path / ".env")
    assert "CRONTY_AGENT_COMMAND" not in os.environ


def test_secret_of_the_first_of_two_processes_is_used(tmp_path, monkeypatch):
    path, other = tmp_path / "secret_key", "the key that the other process has written"
    link = os.link

    def late_link(source: str, target: Path) -> None:
        path.write_text(other)
        link(source, target)

    monkeypatch.setattr(os, "link", late_link)

    assert environment.generated_secret("X", path) == other


@pytest.mark.parametrize("content", ["", "\n", "short", "x" * 40])
def test_secret_file_with_a_key_that_could_be_guessed_is_refused_with_its_name(tmp_path, content):
    (tmp_path / "secret_key").write_text(content)

    with pytest.raises(ImproperlyConfigured, match=r"^X: .*/secret_key holds no key of at least 32 random"):
        environment.generated_secret("X", tmp_path / "secret_key")


def test_secret_that_cannot_be_stored_is_refused_with_its_name(tmp_path):
    with pytest.raises(ImproperlyConfigured, match=r"^X: .*missing"):
        environment.generated_secret("X", tmp_path / "missing" / "secret_key")


def test_mail_goes_to_the_console_without_a_mail_server():
    assert environment.email_settings("X", "cronty@here") == {
        "EMAIL_BACKEND": "django.core.mail.backends.console.EmailBackend"
    }


@pytest.mark.parametrize(
    ("url", "port", "use_ssl", "use_tls"),
    [
        pytest.param("smtp://me:p%40ss@mail.example:587?tls=true", 587, False, True, id="tls"),
        pytest.param("smtp://me:p%40ss@mail.example?tls=Yes", 25, False, True, id="tls in another word"),
        pytest.param("smtps://me:p%40ss@mail.example", 465, True, False, id="ssl"),
        pytest.param("smtp://me:p%40ss@mail.example", 25, False, False, id="plain"),
    ],
)
def test_mail_server_is_configured_by_one_url(given, url, port, use_ssl, use_tls):
    given(url)

    assert environment.email_settings("X", "cronty@here") == {
        "EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "EMAIL_HOST": "mail.example",
        "EMAIL_PORT": port,
        "EMAIL_HOST_USER": "me",
        "EMAIL_HOST_PASSWORD": "p@ss",
        "EMAIL_USE_SSL": use_ssl,
        "EMAIL_USE_TLS": use_tls,
        "EMAIL_TIMEOUT": 10,
        "DEFAULT_FROM_EMAIL": "cronty@here",
    }


@pytest.mark.parametrize(
    ("url", "sender"),
    [
        ("smtp://mail.example?from=jobs@mail.example", "jobs@mail.example"),
        ("smtp://me%40mail.example@mail.example", "me@mail.example"),
        ("smtp://me@mail.example", "cronty@here"),
    ],
)
def test_sender_of_mail_is_given_or_derived(given, url, sender):
    given(url)

    assert environment.email_settings("X", "cronty@here")["DEFAULT_FROM_EMAIL"] == sender


def test_secret_key_that_could_be_guessed_is_refused(monkeypatch):
    for key in ["short", "x" * 31, "ab" * 40]:
        monkeypatch.setenv("X", key)

        with pytest.raises(ImproperlyConfigured, match=r"^X: use at least 32 random characters"):
            environment.secret_key("X")


def test_long_secret_key_is_read_and_none_is_empty(monkeypatch):
    monkeypatch.setenv("X", "0123456789abcdef" * 2)

    assert environment.secret_key("X") == "0123456789abcdef" * 2
    assert environment.secret_key("Y") == ""


def test_variable_that_nothing_reads_is_named_with_the_most_similar_one(monkeypatch):
    monkeypatch.setattr(environment, "_registered", set())
    monkeypatch.setenv("CRONTY_WORKRES", "2")
    monkeypatch.setenv("CRONTY_TOKEN_SECRET_FILE", "/run/x")
    for name in ("CRONTY_WORKERS", "CRONTY_URL"):
        environment.text(name)
    environment.secret("CRONTY_SECRET_KEY", "")

    unknown = environment.unknown_variables()

    assert unknown["CRONTY_WORKRES"] == "CRONTY_WORKERS"
    assert "CRONTY_TOKEN_SECRET_FILE" in unknown
    assert not unknown.keys() & {"CRONTY_SECRET_KEY", "CRONTY_SECRET_KEY_FILE"}


def test_folder_that_cannot_be_read_is_refused_in_a_sentence(given, tmp_path, monkeypatch):
    given(str(tmp_path))
    monkeypatch.setattr(os, "access", lambda path, mode: False)

    with pytest.raises(ImproperlyConfigured, match=r"^X: the folder .* cannot be read; change its rights"):
        environment.folder("X", Path("data"))


def test_dotenv_in_a_folder_that_cannot_be_read_is_refused_in_a_sentence(tmp_path, monkeypatch):
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", refuse)

    with pytest.raises(
        ImproperlyConfigured, match=r"^CRONTY_DATA: .*/\.env cannot be read \(Permission denied"
    ):
        environment.load_dotenv(tmp_path / ".env")
