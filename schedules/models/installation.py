"""The installation: facts shared by all hosts that use this database."""

from django.db import models


class Installation(models.Model):
    """The only row of its table, with what every host compares with its own."""

    ONLY = 1

    # Identifies the secret key without revealing it.
    secret_fingerprint = models.CharField(max_length=64, blank=True)
    # The key before this one, which no host puts back by itself.
    replaced_fingerprint = models.CharField(max_length=64, blank=True, default="")
    # The version of the zone data that next_run_at was computed with.
    zone_data = models.CharField(max_length=20, blank=True)

    # The newest run that the nightly pruning has taken into account.
    pruned_runs = models.PositiveBigIntegerField(default=0)
    pruned_events = models.PositiveBigIntegerField(default=0)
    # The limits it has pruned to.
    pruned_to = models.CharField(max_length=100, blank=True, default="")

    watch_pinged_at = models.DateTimeField(null=True)
    watch_answered_at = models.DateTimeField(null=True)
    watch_error = models.CharField(max_length=200, blank=True, default="")

    class Meta:
        constraints = [
            models.CheckConstraint(name="installation_has_one_row", condition=models.Q(pk=1)),
        ]

    def __str__(self) -> str:
        return "Installation"
