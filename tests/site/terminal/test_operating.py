"""The subcommands token and backup, and those that pass their arguments on."""

import pytest

from schedules import __version__
from schedules.models import Event, Token


def test_token_is_printed_once_and_recorded(cronty):
    ended = cronty("token", "laptop", "--scopes", "read", "--expires-in", "30d")

    token = Token.objects.get()
    assert ended.out.startswith(f"cronty_{token.prefix}_")
    assert (token.scopes, token.expires_at is None) == (["read"], False)
    assert Event.objects.get().door == "terminal"
    assert cronty("token", "laptop").code == 1
    assert cronty("token", "phone", "--expires-in", "soon").code == 2


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
