import pytest
from django.db import InterfaceError, OperationalError, connection

from schedules import clock, engine
from schedules.models import Cluster
from schedules.models.clusters import BLOCKED_AFTER
from tests.factories import ClusterFactory, JobFactory


def test_liveness_needs_no_login(client):
    assert client.get("/healthz").content == b"ok\n"


@pytest.mark.django_db
def test_not_ready_without_a_cluster(client):
    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json() == {"database": True, "worker": False, "on_time": True, "unblocked": True}


@pytest.mark.django_db
def test_ready_with_a_live_cluster_and_no_late_job(client):
    ClusterFactory()

    assert client.get("/readyz").status_code == 200


@pytest.mark.django_db
def test_not_ready_when_a_job_is_long_overdue(client):
    ClusterFactory()
    JobFactory(next_run_at=clock.now().replace(year=2020))

    assert client.get("/readyz").json()["on_time"] is False


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
        "reason": "The database cannot be read, so the rest is unknown.",
    }
