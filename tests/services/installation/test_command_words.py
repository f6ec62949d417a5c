"""Commands as a person types them: in an installed package, in a checkout, and in a project that embeds the app."""

import pytest
from django.template import Context, Template

from schedules.services.installation.command_words import how_to_run
from tests.clusters import PROJECT


@pytest.mark.parametrize(
    ("manage", "words"),
    [
        (["-m", "cronty_site"], ["cronty up", "cronty manage restore --already-in-place"]),
        (["/srv/cronty/manage.py"], ["python manage.py up", "python manage.py restore --already-in-place"]),
        (None, ["python manage.py up", "python manage.py restore --already-in-place"]),
    ],
)
def test_command_is_the_one_that_exists(settings, manage, words):
    if manage:
        settings.CRONTY_MANAGE = manage
    else:
        del settings.CRONTY_MANAGE

    assert [how_to_run("up"), how_to_run("restore --already-in-place")] == words
    assert Template('{% load cronty_text %}{% how_to_run "up" %}').render(Context()) == words[0]


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
