"""Whoever acts in the terminal, and what happens if Cronty is not ready."""

import json

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError

from schedules.models import Event, Job
from schedules.services.setup import ensure_system_job
from tests.factories import JobFactory, UserFactory

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


@pytest.mark.parametrize("name", ["-1", "", " ", "\x00", "job_1_2", "#"])
def test_odd_references_are_not_found(cronty, name):
    assert cronty("show", "--", name).code == 3


def test_inactive_users_cannot_be_named(cronty):
    UserFactory(username="gone", is_active=False)

    assert cronty("jobs", "--user", "gone").code == 5
