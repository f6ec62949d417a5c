"""Commands on a host whose secret key is not the installation's."""

import os
import signal
import socket

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from schedules import clock, engine
from schedules.management import secret_key
from schedules.management.commands import qcluster
from schedules.models import Cluster
from schedules.secrets.encryption import fingerprint
from schedules.services.installation.secret_key import (
    ForeignSecretKeyError,
    adopt_secret_key,
    require_secret_key,
)
from schedules.worker import supervisor
from tests.clusters import running_cluster
from tests.factories import UserFactory
from tests.management.test_commands import FakeLeader
from tests.waiting import PATIENCE, wait_for

COMMANDS = [
    ("up", "--check", "--no-web"),
    ("web",),
    ("qcluster",),
    ("mcp_serve", "--user", "olga"),
    ("mcp_serve", "--http"),
    ("issue_token", "--user", "olga", "--name", "laptop"),
]


@pytest.fixture
def another_key(transactional_db, settings):
    UserFactory(username="olga")
    require_secret_key()
    settings.SECRET_KEY = "another"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_command_refuses_to_start_and_says_what_to_copy(another_key, command, monkeypatch):
    monkeypatch.setattr(qcluster, "Leader", FakeLeader)

    with pytest.raises(CommandError, match=r"another secret key .* Copy the key from such a host"):
        call_command(*command)


def test_key_is_adopted_by_a_command(another_key, capsys):
    call_command("adopt_secret_key")

    require_secret_key()
    assert "give it to the other hosts" in capsys.readouterr().out


def test_server_that_started_without_its_database_stops_when_it_learns_of_the_key(monkeypatch, caplog):
    answers = iter([OperationalError("away"), OperationalError("away"), ForeignSecretKeyError("Copy it.")])
    signals = []

    def require() -> None:
        raise next(answers)

    monkeypatch.setattr(secret_key, "require_secret_key", require)
    monkeypatch.setattr(secret_key.connections, "close_all", lambda: None)
    monkeypatch.setattr(supervisor, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(os, "kill", lambda *arguments: signals.append(arguments))

    secret_key.stop_with_foreign_secret_key()

    wait_for(lambda: signals == [(os.getpid(), signal.SIGTERM)])
    assert "Copy it." in caplog.text


def test_key_is_not_adopted_by_a_command_while_another_host_runs_without_it(another_key, settings):
    settings.SECRET_KEY = "the first"
    engine.enlist(clock.now())
    settings.SECRET_KEY = "another"

    with pytest.raises(CommandError, match=f"do not accept it: {socket.gethostname()}"):
        call_command("adopt_secret_key")


def test_running_cluster_whose_key_was_replaced_stops_instead_of_failing_runs(transactional_db, settings):
    # Its workers are real processes, which take seconds to start and to stop.
    with running_cluster() as cluster:
        settings.SECRET_KEY = "new"
        Cluster.objects.update(secret_keys=[fingerprint("new")])
        adopt_secret_key()

        assert cluster.wait(PATIENCE) == 1
    assert Cluster.objects.get().stopped_at is not None
