import pytest

from schedules import clock
from tests.factories import ClusterFactory, JobFactory


def test_alive_answers_without_login(client):
    assert client.get("/healthz").content == b"ok\n"


@pytest.mark.django_db
def test_not_ready_without_a_worker(client):
    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json() == {"database": True, "worker": False, "on_time": True}


@pytest.mark.django_db
def test_ready_with_a_fresh_worker_and_nothing_late(client):
    ClusterFactory()

    assert client.get("/readyz").status_code == 200


@pytest.mark.django_db
def test_not_ready_when_a_job_is_long_overdue(client):
    ClusterFactory()
    JobFactory(next_run_at=clock.now().replace(year=2020))

    assert client.get("/readyz").json()["on_time"] is False


@pytest.mark.django_db
def test_metrics_count_workers(client):
    ClusterFactory(claimed_count=7)

    text = client.get("/metrics").content.decode()

    assert "cronty_workers 1" in text
    assert "cronty_claimed_total 7" in text
