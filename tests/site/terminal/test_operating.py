"""The subcommand backup, and those that pass their arguments on."""

import pytest

from schedules import __version__


@pytest.mark.django_db(transaction=True)
def test_backup_overwrites_nothing(cronty, tmp_path, settings):
    if "sqlite" not in settings.DATABASES["default"]["ENGINE"]:
        pytest.skip("SQLite only")
    path = tmp_path / "copy.sqlite3"

    assert cronty("backup", str(path), "--json").json == {"path": str(path), "bytes": path.stat().st_size}
    again = cronty("backup", str(path))
    assert again.code == 1
    assert "overwrites nothing" in again.err


def test_management_commands_get_their_arguments(cronty):
    assert "No planned migration operations" in cronty("manage", "migrate", "--plan").out


@pytest.mark.parametrize("arguments", [(), ("--help",), ("help",)])
def test_help_on_management_commands_names_a_command_that_exists(cronty, arguments):
    assert "Type 'cronty manage help <subcommand>'" in cronty("manage", *arguments).out


@pytest.mark.parametrize("command", ["up", "doctor"])
def test_version_of_a_command_is_that_of_cronty(cronty, capsys, command):
    with pytest.raises(SystemExit, match="0"):
        cronty(command, "--version")

    assert capsys.readouterr().out == f"{__version__}\n"


def test_http_is_left_to_the_web_process(cronty):
    ended = cronty("mcp", "--http")

    assert ended.code == 2
    assert "`cronty up` serves the tools at /mcp" in ended.err


def test_help_on_mcp_names_the_command_and_only_options_that_it_accepts(cronty, capsys):
    with pytest.raises(SystemExit, match="0"):
        cronty("mcp", "--help")

    words = capsys.readouterr().out
    assert words.startswith("usage: cronty mcp ")
    assert all(option in words for option in ("--user", "--name", "--read-only", "--tools"))
    assert not any(option in words for option in ("--http", "--host", "--port"))


def test_unknown_user_is_refused_before_any_tool_is_served(cronty, capsys):
    with pytest.raises(SystemExit, match="1"):
        cronty("mcp", "--user", "nobody")

    assert "there is no active user called 'nobody'" in capsys.readouterr().err
