"""The two modules from which a project imports the task registry."""

import importlib

import pytest

from schedules.tasks import registry


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
@pytest.mark.parametrize("name", ["task", "Run", "Final", "RetryLater"])
def test_both_modules_export_the_same_names(address, name):
    module = importlib.import_module(address)

    assert name in module.__all__
    assert getattr(module, name) is getattr(registry, name)
