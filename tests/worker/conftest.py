"""Fixtures of a worker: its cluster, and the state that the processes of a cluster share."""

from collections.abc import Iterator

import pytest

from schedules.models import Cluster
from schedules.worker.context import ClusterContext
from schedules.worker.locks import Permits
from tests.factories import ClusterFactory


@pytest.fixture
def cluster(transactional_db: None) -> Cluster:
    return ClusterFactory()


@pytest.fixture
def context(cluster: Cluster) -> Iterator[ClusterContext]:
    made = ClusterContext(cluster.pk, Permits(1))
    yield made
    made.close()
