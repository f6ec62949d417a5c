"""The set-up of Django for command lines."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.forks import python

ROOT = Path(__file__).resolve().parent.parent.parent
SHOW = """
import json, sys
from cronty_site.startup import set_up
set_up()
from django.conf import settings
print(json.dumps([settings.CRONTY_URL, settings.CRONTY_WORKERS, settings.Q_CLUSTER["workers"], settings.ALLOWED_HOSTS]))
"""


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [*python(), *arguments],
        cwd=ROOT,
        env=inherited
        | {"CRONTY_DATA": str(folder), "DJANGO_SETTINGS_MODULE": "cronty_site.settings"}
        | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_options_of_up_are_settings_from_which_others_are_derived(tmp_path: Path):
    options = ["--port", "8123", "--workers=3", "--host", "127.0.0.9"]

    done = run(tmp_path, "-c", SHOW, "manage", "up", "--no-web", *options)

    assert not done.returncode, done.stderr
    first, *_, last = done.stdout.splitlines()
    assert first == "Loading Cronty …"
    url, workers, processes, hosts = json.loads(last)
    assert (url, workers, processes) == ("http://127.0.0.9:8123", 3, 4)
    assert "127.0.0.9" in hosts


@pytest.mark.parametrize(
    ("command", "variables", "url"),
    [
        ("jobs", {}, "http://127.0.0.1:8123"),
        ("jobs", {"CRONTY_PORT": "8001"}, "http://127.0.0.1:8001"),
        ("up", {}, "http://127.0.0.1:8000"),
    ],
)
def test_commands_name_the_address_of_the_server_that_runs(
    tmp_path: Path, command: str, variables: dict[str, str], url: str
):
    (tmp_path / "web.address").write_text("http://127.0.0.1:8123")

    done = run(tmp_path, "-c", SHOW, command, **variables)

    assert not done.returncode, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])[0] == url


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--port", "99999"], "argument --port: 99999 is not a port: choose 1 to 65535."),
        (["--workers", "0"], "CRONTY_WORKERS: "),
    ],
)
def test_wrong_option_of_up_is_named(tmp_path: Path, options: list[str], words: str):
    done = run(tmp_path, "manage.py", "up", *options)

    assert done.returncode
    assert words in done.stderr
    assert "Traceback" not in done.stderr
