import pytest
from django.db import InterfaceError, OperationalError, connection

from schedules import clock, engine
from schedules.models import Cluster
from schedules.models.clusters import BLOCKED_AFTER
from schedules.tasks.commands import catalog as command_catalog
from tests.factories import ClusterFactory


def test_liveness_needs_no_login(client):
    assert client.get("/healthz").content == b"ok\n"


@pytest.mark.django_db
def test_not_ready_without_a_cluster(client):
    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json() == {
        "database": True,
        "worker": False,
        "on_time": True,
        "unblocked": True,
        "commands": True,
    }


@pytest.mark.django_db
def test_ready_with_a_live_cluster_and_no_late_job(client):
    ClusterFactory()

    assert client.get("/readyz").status_code == 200


@pytest.mark.django_db
def test_not_ready_while_a_cluster_waits_for_a_lock(client, time_machine):
    time_machine.move_to(clock.now(), tick=False)
    cluster = ClusterFactory(blocked_since=clock.now())
    assert client.get("/readyz").status_code == 200

    Cluster.objects.update(blocked_since=clock.now() - 2 * BLOCKED_AFTER)
    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["unblocked"] is False
    assert "locked" in answer.json()["reason"]
    engine.beat(cluster.pk, clock.now())
    assert client.get("/readyz").status_code == 200


@pytest.mark.django_db
@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_not_ready_and_the_rest_unknown_when_the_database_connection_is_lost(client, error):
    def refuse(*args):
        raise error("the connection is closed")

    with connection.execute_wrapper(refuse):
        answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json() == {
        "database": False,
        "worker": None,
        "on_time": None,
        "unblocked": None,
        "commands": True,
        "reason": "The database cannot be read, so the rest is unknown.",
    }


@pytest.mark.django_db
def test_ready_with_a_warning_while_the_last_good_commands_are_in_force(client, commands_file, use_commands):
    ClusterFactory()
    use_commands('[one]\ndescription = "x"\nprogram = "/bin/true"\n')
    assert "warning" not in client.get("/readyz").json()
    commands_file.write_text("[one]\nprogram = 'a/secret/path'\n")
    command_catalog.catalog.refresh()

    answer = client.get("/readyz")

    assert (answer.status_code, answer.json()["commands"]) == (200, True)
    assert answer.json()["warning"].startswith("The file commands.toml, line ")
    assert "secret" not in answer.content.decode()
