"""The output of runs in progress, which their workers store about every second, and lost runs."""

from collections.abc import Mapping

from schedules import clock
from schedules.models import Execution, RunOutput
from schedules.tasks.interface import OutputText


def save_output(execution_id: int, attempt: int, output: OutputText) -> None:
    """Store what is kept of an attempt's output so far, in one statement."""
    row = RunOutput(
        execution_id=execution_id,
        attempt=attempt,
        head=output.head,
        tail=output.tail,
        position=output.position,
        updated_at=clock.now(),
    )
    RunOutput.objects.bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["execution", "attempt"],
        update_fields=["head", "tail", "position", "updated_at"],
    )


def find_lost(cluster_id: int, attempts: Mapping[int, int]) -> list[int]:
    """Return the executions that this cluster no longer runs in these attempts."""
    running = Execution.objects.filter(
        pk__in=list(attempts), status=Execution.Status.RUNNING, cluster_id=cluster_id
    )
    mine = dict(running.order_by().values_list("pk", "attempt"))
    return [execution_id for execution_id, attempt in attempts.items() if mine.get(execution_id) != attempt]
