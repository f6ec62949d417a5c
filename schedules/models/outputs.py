"""The output of runs: what commands print, during the run and afterwards."""

from django.db import models

from schedules.models.executions import Execution


class RunOutput(models.Model):
    """The stored output of one attempt: its beginning and its end."""

    # No database constraint: pruning deletes both sides, and must not check every run.
    execution = models.ForeignKey(
        Execution, on_delete=models.DO_NOTHING, related_name="outputs", db_constraint=False, db_index=False
    )
    attempt = models.PositiveSmallIntegerField()
    head = models.TextField(blank=True)
    tail = models.TextField(blank=True)
    # The number of characters that were printed in all, of which the last are the tail.
    position = models.PositiveBigIntegerField()
    # Where colours begin: pairs of a position and the codes of the sequence for terminals.
    colours = models.JSONField(default=list, blank=True)
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="output_is_the_only_one_of_its_attempt", fields=["execution", "attempt"]
            )
        ]

    def __str__(self) -> str:
        return f"Output of run {self.execution_id}, attempt {self.attempt}"
