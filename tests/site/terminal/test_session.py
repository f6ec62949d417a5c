"""Whoever acts in the terminal, and what happens if Cronty is not ready."""

import json
import os
import subprocess

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, InterfaceError, OperationalError

from schedules import clock
from schedules.models import Event, Job
from schedules.services.installation.setup import ensure_system_job
from tests.documented import PROJECT
from tests.factories import JobFactory, UserFactory
from tests.forks import python

ADD = ("add", "every day at 9:00", "tests.ping", "--name", "Ping")


def test_first_superuser_acts_unless_a_user_is_named(cronty, operator, owner):
    cronty(*ADD)
    cronty(*ADD, "--user", "olga")

    assert list(Job.objects.order_by("pk").values_list("owner__username", flat=True)) == ["otto", "olga"]


def test_changes_are_recorded_as_made_in_the_terminal(cronty):
    assert cronty(*ADD).code == 0
    assert cronty("pause", "Ping").code == 0

    events = Event.objects.order_by("pk").values_list("verb", "actor", "door")
    assert list(events) == [("create", "olga", "terminal"), ("pause", "olga", "terminal")]


def test_jobs_of_others_do_not_exist(cronty, stranger):
    theirs = JobFactory(owner=stranger, name="Theirs")

    assert theirs.name not in cronty("jobs").out
    for line in (["show"], ["pause"], ["rm"], ["run"], ["why"]):
        ended = cronty(*line, str(theirs.pk))
        assert (ended.code, ended.err) == (3, f"cronty: Job not found: {theirs.pk}\n")


def test_unknown_user_is_not_ready(cronty):
    assert cronty("jobs", "--user", "nobody").code == 5


def test_without_users_the_operator_is_sent_to_up(cronty):
    User.objects.all().delete()
    ensure_system_job()

    ended = cronty("jobs")

    assert (ended.code, ended.err) == (5, "cronty: There is no user yet: run `cronty up`.\n")


def test_database_that_is_away_is_not_ready(cronty, monkeypatch):
    def fail(username: str) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr("cronty_site.terminal.session.find_user", fail)

    ended = cronty("jobs", "--user", "olga", "--json")

    assert ended.code == 5
    assert json.loads(ended.err) == {
        "error": "The database does not answer (connection refused).",
        "code": "not_ready",
    }


def test_ambiguous_name_lists_the_jobs(cronty, owner):
    JobFactory.create_batch(2, owner=owner, name="Twice")

    ended = cronty("pause", "Twice")

    assert ended.code == 1
    assert "Several jobs have this name" in ended.err


def test_inactive_users_cannot_be_named(cronty):
    UserFactory(username="gone", is_active=False)

    assert cronty("jobs", "--user", "gone").code == 5


def test_unknown_job_is_refused_with_the_nearest_name(cronty, owner, stranger):
    JobFactory(owner=owner, name="Backup of the photos")
    JobFactory(owner=stranger, name="Back up of the photos")
    for command in [["show"], ["run"], ["pause"], ["edit"], ["skip"], ["why"], ["logs"], ["next"]]:
        refused = cronty(*command, "backup of photos", "--json")

        assert refused.code == 3
        assert json.loads(refused.err) == {
            "error": 'Job not found: backup of photos. Did you mean "Backup of the photos"?',
            "code": "not_found",
        }


def test_part_of_a_name_is_enough_for_a_suggestion(cronty, owner):
    JobFactory(owner=owner, name="Copy all photos to the other disk every night")

    assert 'Did you mean "Copy all photos' in cronty("show", "photos").err
    assert cronty("show", "zzzzzz").err == "cronty: Job not found: zzzzzz\n"


def test_deleted_job_is_suggested_for_its_restoration(cronty, owner):
    JobFactory(owner=owner, name="Backup", deleted_at=clock.now())

    assert 'Did you mean "Backup"?' in cronty("restore", "Bakup").err


@pytest.mark.parametrize(
    "error", [DatabaseError("file is not a database"), InterfaceError("connection already closed")]
)
def test_damaged_database_is_not_ready(cronty, monkeypatch, error):
    def fail() -> None:
        raise error

    monkeypatch.setattr("cronty_site.terminal.session.first_user", fail)

    ended = cronty("jobs")

    assert ended.code == 5
    assert str(error) in ended.err


READING = [
    ["jobs"], ["show", "1"], ["next"], ["why", "1"], ["logs"], ["preview", "every day at 9:00"], ["export"],
    ["schema"], ["token", "list"], ["secret"], ["doctor"], ["add", "every day at 9:00", "notify", "x", "y"],
]  # fmt: skip


@pytest.mark.verify
def test_before_the_first_start_nothing_is_created_and_a_sentence_says_what_to_do(tmp_path):
    """In one process, which starts Django for each command anew; its libraries are loaded once."""
    script = (
        "import os, sys\n"
        "from cronty_site.terminal import main\n"
        "for words in eval(sys.argv[1]):\n"
        "    if os.fork() == 0:\n"
        "        os._exit(main(words))\n"
        "    print(words[0], os.waitstatus_to_exitcode(os.wait()[1]), flush=True)\n"
    )
    environment = {
        **{
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CRONTY", "DJANGO", "DATABASE"))
        },
        "CRONTY_DATA": str(tmp_path / "data"),
        "HOME": str(tmp_path),
    }

    ended = subprocess.run(
        [*python(), "-c", script, repr([*READING, ["jobs", "--help"]])],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    sentences = ended.stderr.splitlines()
    assert [line for line in ended.stdout.splitlines() if line.endswith(" 5")] == [
        f"{words[0]} 5" for words in READING
    ]
    assert "jobs 0" in ended.stdout
    assert len(sentences) == len(READING)
    assert all("Run `cronty up` first" in sentence for sentence in sentences)
    assert list(tmp_path.iterdir()) == []
