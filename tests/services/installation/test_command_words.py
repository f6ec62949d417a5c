"""Commands as a person types them: in an installed package, in a checkout, and in a project that embeds the app."""

import subprocess
import sys

import django
import pytest
from django.template import Context, Template

from schedules.services.installation.command_words import how_to_run
from tests.clusters import PROJECT


@pytest.mark.parametrize(
    ("manage", "words"),
    [
        (["-m", "cronty_site"], ["cronty up", "cronty manage restore --already-in-place"]),
        (
            ["/srv/cronty/manage.py"],
            [".venv/bin/python manage.py up", ".venv/bin/python manage.py restore --already-in-place"],
        ),
        (
            ["/srv/other/manage.py"],
            [
                f"/srv/cronty/.venv/bin/python manage.py {command}"
                for command in ("up", "restore --already-in-place")
            ],
        ),
        (None, ["python manage.py up", "python manage.py restore --already-in-place"]),
    ],
)
def test_command_is_the_one_that_exists(settings, monkeypatch, manage, words):
    monkeypatch.setattr("sys.executable", "/srv/cronty/.venv/bin/python")
    if manage:
        settings.CRONTY_MANAGE = manage
    else:
        del settings.CRONTY_MANAGE

    assert [how_to_run("up"), how_to_run("restore --already-in-place")] == words
    assert Template('{% load cronty_text %}{% how_to_run "up" %}').render(Context()) == words[0]


def test_python_of_the_search_path_is_called_by_its_name(settings, monkeypatch):
    settings.CRONTY_MANAGE = ["/srv/cronty/manage.py"]
    monkeypatch.setattr("shutil.which", lambda name: sys.executable)

    assert how_to_run("up") == "python manage.py up"


def test_command_works_as_it_is_printed_on_a_host_that_has_no_python_of_that_name(tmp_path):
    done = subprocess.run(
        ["/bin/sh", "-c", how_to_run("version")],
        cwd=PROJECT,
        env={"PATH": str(tmp_path), "CRONTY_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout.strip()) == (0, django.__version__)


def test_no_text_names_manage_py_itself():
    """Docstrings and comments may; what people read comes from `how_to_run`."""
    found = []
    for folder in ("schedules", "cronty_site", "templates"):
        for path in (PROJECT / folder).rglob("*"):
            if path.suffix not in (".py", ".html") or path.name == "command_words.py":
                continue
            lines = path.read_text().splitlines()
            found += [
                f"{path.relative_to(PROJECT)}: {line.strip()}"
                for line in lines
                if ("`manage.py " in line or "<code>manage.py" in line) and '"""' not in line
            ]

    # A check of a project's own settings, which has a manage.py.
    assert found == [found[0]]
    assert found[0].startswith("schedules/checks.py")
