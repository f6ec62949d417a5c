"""Gates of prompts: remember the last answer that a run acted on, written together with the end of that run."""

from collections.abc import Sequence

from schedules.engine.history import Outcome
from schedules.models import Execution, PromptGate

Status = Execution.Status


def remember_gates(outcomes: Sequence[Outcome]) -> None:
    """Remember the gate answers of runs that succeeded or wait in the inbox; the others ask their gate again.

    A prompt in the inbox gets the answer of its gate. The caller has locked the runs.
    """
    settled = [outcome for outcome in outcomes if outcome.status in (Status.SUCCEEDED, Status.WAITING)]
    PromptGate.objects.bulk_create(
        [
            PromptGate(job_id=item.job_id, digest=item.gate["digest"], changed_at=item.finished_at)
            for item in settled
            if item.gate and item.gate["digest"]
        ],
        update_conflicts=True,
        unique_fields=["job"],
        update_fields=["digest", "changed_at"],
    )
    waiting = {item.execution_id: item.gate for item in settled if item.status == Status.WAITING}
    for row in Execution.objects.filter(pk__in=list(waiting)).only("given"):
        row.given = {**(row.given or {}), "gate": waiting[row.pk]}
        row.save(update_fields=["given"])
