"""The module from which a project imports the task registry."""

from schedules import tasks
from schedules.tasks import registry


def test_task_registered_by_a_project_can_be_run_by_a_job(monkeypatch):
    monkeypatch.setattr(registry, "_tasks", {})

    @tasks.task(name="shop.greet", attempts=2)
    def greet(name: str, *, run: tasks.Run) -> str:
        return f"Hello {name}"

    found = registry.get("shop.greet")
    assert found is not None
    assert (found.function, found.attempts, found.run_parameter) == (greet, 2, "run")
    assert registry.names() == ["shop.greet"]
