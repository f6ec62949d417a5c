"""The cluster that works, and the person who answers."""

import pytest

from schedules.models import Cluster, Event
from schedules.services.permissions import Actor
from tests.factories import ClusterFactory


@pytest.fixture
def cluster() -> Cluster:
    return ClusterFactory()


@pytest.fixture
def person(owner) -> Actor:
    return Actor(owner, Event.Door.WEB)
