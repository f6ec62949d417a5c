"""The lane of plain functions: when a cluster claims no more of them, and when it gives back those that wait."""

from datetime import timedelta

from django.conf import settings
from django.db.models import Count, Q

from schedules import engine
from schedules.engine import Claim
from schedules.models import Execution
from schedules.tasks import registry
from schedules.tasks.registry import Lane
from schedules.worker import packages
from schedules.worker.context import ClusterContext

# While a cluster holds so many, it claims others only: there must be room for those.
MOST_HELD = 500
LONG_AFTER = timedelta(seconds=0.3)
# How many seconds the next one waits for a permit before other clusters may have it.
WAIT_FOR_PERMIT = 0.3


class PlainLane:
    """The plain functions that a cluster holds."""

    def __init__(self) -> None:
        # An upper bound, counted again only when needed.
        self._held_at_most = MOST_HELD

    def add(self, claims: list[Claim]) -> None:
        self._held_at_most += sum(packages.lane_of(claim) is Lane.PLAIN for claim in claims)

    def names_to_exclude(self, context: ClusterContext) -> list[str]:
        """Return the names of all plain functions if no more of them are to be claimed now, else an empty list."""
        if self._held_at_most < settings.CRONTY_WORKERS:
            return []
        is_permitted = self._count(context)
        return [] if is_permitted and self._held_at_most < MOST_HELD else registry.plain_names()

    def release_if_stalled(self, context: ClusterContext) -> None:
        """Release the functions that wait for a permit if long ones hold them all."""
        if context.plain_line.seconds_waiting < WAIT_FOR_PERMIT or self._count(context):
            return
        if waiting := context.plain_line.clear():
            with context.turns.take_for_claim_loop():
                engine.release_claims(context.cluster_id, waiting, context.clock.now())

    def _count(self, context: ClusterContext) -> bool:
        """Count the functions held; return whether a permit is free, or will be soon."""
        is_long = Q(status=Execution.Status.RUNNING, started_at__lt=context.clock.now() - LONG_AFTER)
        plain = Execution.objects.held().filter(
            cluster_id=context.cluster_id, task__in=registry.plain_names()
        )
        counts = plain.aggregate(held=Count("pk"), long=Count("pk", filter=is_long))
        self._held_at_most = counts["held"]
        return bool(counts["long"] < settings.CRONTY_WORKERS)
