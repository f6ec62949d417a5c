"""The task prompt, and the registration of built-in tasks."""

from datetime import timedelta

import pytest

from schedules.tasks import registry
from tests.tasks.builtin.conftest import problems


def test_built_in_tasks_are_registered_with_their_limits():
    limits = {
        found.name: (found.attempts, found.timeout) for found in registry.all_tasks(include_system=True)
    }

    assert limits["notify"] == (5, timedelta(seconds=60))
    assert limits["webhook"] == (3, timedelta(seconds=60))
    assert limits["prompt"] == (1, timedelta(minutes=10))
    assert limits["prune_history"] == (1, timedelta(minutes=5))
    assert {"notify", "webhook", "prompt"} <= set(registry.names())
    assert not {"prune_history", "check_cluster"} & set(registry.names())


@pytest.mark.parametrize("prompt", ["", "x" * 16_385, "ä" * 8193])
def test_empty_or_huge_prompt_is_refused(prompt):
    assert problems("prompt", prompt="ä" * 8192) == []
    assert len(problems("prompt", prompt=prompt)) == 1
