"""Apps of the operator, which CRONTY_APPS adds to the product."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.projects import ROOT, Project
from tests.waiting import wait_for

OWN_APPS = Path(__file__).parent / "own_apps"

SCHEDULE = """
from datetime import timedelta
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.utils import timezone
from schedules.result import Ok
from schedules.services import Actor, schedule

call_command("migrate", verbosity=0)
olga = get_user_model().objects.create_superuser("olga", password="correct horse")
run_at = timezone.now() + timedelta(seconds=4)
answer = schedule(
    Actor(olga), name="Greet", task="greetings.greet", args=["Olga"], trigger_type="once", run_at=run_at
)
assert isinstance(answer, Ok), answer
"""
ADMIN = """
from django.contrib.auth import get_user_model
from django.test import Client

client = Client()
client.force_login(get_user_model().objects.get(username="olga"))
print(client.get("/admin/greetings/greeting/", headers={"Host": "localhost"}).status_code)
"""


@pytest.fixture
def site(tmp_path: Path) -> Project:
    return Project(
        ROOT,
        {
            "CRONTY_DATA": str(tmp_path),
            "CRONTY_APPS": "greetings",
            "CRONTY_LOG_LEVEL": "ERROR",
            # Pages then need no collected static files.
            "CRONTY_DEBUG": "true",
            "PYTHONPATH": str(OWN_APPS),
        },
    )


@pytest.mark.verify
def test_app_of_the_operator_adds_tasks_tables_and_admin_pages(site: Project, tmp_path: Path):
    site.shell(SCHEDULE)

    with site.running("qcluster"):
        wait_for(lambda: rows(tmp_path, "SELECT status FROM schedules_execution") == [("succeeded",)])

    assert rows(tmp_path, "SELECT name FROM greetings_greeting") == [("Olga",)]
    assert rows(tmp_path, "SELECT result FROM schedules_execution") == [('"Hello Olga"',)]
    assert site.shell(ADMIN) == "200"


def test_app_is_found_in_the_data_folder_and_in_the_command_for_agents(site: Project, tmp_path: Path):
    shutil.copytree(OWN_APPS, tmp_path / "apps")

    found = Project(ROOT, {"CRONTY_DATA": str(tmp_path), "CRONTY_APPS": "greetings"}).shell(
        "from schedules.tasks import registry;"
        "from schedules.services.installation.local_server import local_server;"
        "print('greetings.greet' in registry.names(), local_server('o')['env'])"
    )

    assert found.startswith("True")
    assert "'CRONTY_APPS': 'greetings'" in found


def rows(folder: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / "cronty.sqlite3")) as database:
        return database.execute(query).fetchall()
