"""The subcommand that serves the tools; the server itself is tested in tests/mcp."""

import pytest

from cronty_site.terminal.group import main


def test_http_is_left_to_the_web_process(capsys):
    assert main(["mcp", "--http"]) == 2
    assert "`cronty up` serves the tools at /mcp" in capsys.readouterr().err


def test_help_names_the_command_and_only_options_that_it_accepts(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["mcp", "--help"])

    words = capsys.readouterr().out
    assert words.startswith("usage: cronty mcp ")
    assert all(option in words for option in ("--user", "--name", "--read-only", "--tools"))
    assert not any(option in words for option in ("--http", "--host", "--port"))


def test_unknown_user_is_refused_before_anything_is_served(capsys, db):
    with pytest.raises(SystemExit, match="1"):
        main(["mcp", "--user", "nobody"])

    assert "there is no active user called 'nobody'" in capsys.readouterr().err
