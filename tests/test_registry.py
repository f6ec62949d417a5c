"""The two modules from which a project imports the task registry."""

import importlib

import pytest

from schedules.tasks import interface, registry


@pytest.mark.parametrize("address", ["schedules.tasks", "schedules.registry"])
def test_task_registered_through_either_module_can_be_run_by_a_job(monkeypatch, address):
    monkeypatch.setattr(registry, "_tasks", {})
    module = importlib.import_module(address)

    @module.task(name="shop.greet", attempts=2)
    def greet(name: str, *, run: module.Run) -> str:
        return f"Hello {name}"

    found = registry.get("shop.greet")
    assert found is not None
    assert (found.function, found.attempts, found.run_parameter) == (greet, 2, "run")
    assert registry.names() == ["shop.greet"]


@pytest.mark.parametrize("address", ["schedules.tasks", "schedules.registry"])
@pytest.mark.parametrize(
    ("home", "name"),
    [(registry, "task"), (interface, "Run"), (interface, "Final"), (interface, "RetryLater")],
    ids=["task", "Run", "Final", "RetryLater"],
)
def test_both_modules_export_the_same_names(address, home, name):
    module = importlib.import_module(address)

    assert name in module.__all__
    assert getattr(module, name) is getattr(home, name)
