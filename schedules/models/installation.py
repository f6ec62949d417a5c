"""The installation: facts shared by all hosts that use this database."""

from django.db import models


class Installation(models.Model):
    """The only row of its table, with what every host compares with its own."""

    ONLY = 1

    secret_fingerprint = models.CharField(
        max_length=64, blank=True, help_text="Identifies the secret key without revealing it."
    )
    replaced_fingerprint = models.CharField(
        max_length=64,
        blank=True,
        default="",
        db_default="",
        help_text="The key before this one, which no host puts back by itself.",
    )
    zone_data = models.CharField(
        max_length=20,
        blank=True,
        help_text="The version of the zone data that next_run_at was computed with.",
    )

    pruned_runs = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text="The newest run that the nightly pruning has taken into account."
    )
    pruned_events = models.PositiveBigIntegerField(default=0, db_default=0, help_text="The same for events.")
    pruned_to = models.CharField(
        max_length=100, blank=True, default="", db_default="", help_text="The limits it has pruned to."
    )

    watch_pinged_at = models.DateTimeField(null=True, help_text="When the outside watch was last pinged.")
    watch_answered_at = models.DateTimeField(null=True, help_text="When it last answered a ping.")
    watch_error = models.CharField(
        max_length=200, blank=True, default="", db_default="", help_text="Why the last ping did not arrive."
    )

    class Meta:
        constraints = [
            models.CheckConstraint(name="installation_has_one_row", condition=models.Q(pk=1)),
        ]

    def __str__(self) -> str:
        return "Installation"
