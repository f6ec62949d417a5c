"""How much a cluster may claim at once: enough to keep its workers busy, and no more than its share."""

from schedules.engine import Claim
from schedules.models import Execution
from schedules.worker import packages
from schedules.worker.command_lane import CommandLane
from schedules.worker.context import ClusterContext
from schedules.worker.next_slot import BATCH_AHEAD
from schedules.worker.plain_lane import PlainLane

# The most executions that one cluster holds: enough to keep every worker busy, but few to hand back.
HELD = 2000
# Small enough that workers start the first runs of a burst while the next are claimed.
BATCH = 500
# While many are held, wait until there is room for this many instead of claiming a few at a time.
SMALLEST_CLAIM = 250


class Capacity:
    """How many executions a cluster holds, in all and in the lanes that have limits of their own."""

    def __init__(self, context: ClusterContext) -> None:
        self.plain = PlainLane()
        self.commands = CommandLane()
        self._context = context
        # An upper bound, counted again only when needed.
        self._held_at_most = HELD

    def room(self, clusters: int, *, is_ahead: bool) -> int:
        """Return how many executions to claim now, or 0 to wait, if so many clusters share the work."""
        batch = BATCH_AHEAD if is_ahead else BATCH
        if self._held_at_most + batch > HELD:
            self._held_at_most = Execution.objects.held().filter(cluster_id=self._context.cluster_id).count()
        room = HELD - self._held_at_most
        # One cluster must not take a whole burst while others are idle.
        share = min(batch, max(packages.CHUNK, batch // clusters))
        return min(room, share) if room >= SMALLEST_CLAIM else 0

    def add(self, claims: list[Claim]) -> None:
        self._held_at_most += len(claims)
        self.plain.add(claims)

    def is_exhausted_by(self, claims: list[Claim], room: int) -> bool:
        """Return whether a claim took as many as it could, so that more may be due."""
        return len(claims) >= min(room, BATCH)

    def waiting_tasks(self) -> list[str]:
        """Return the names of the tasks that cannot be claimed now, because their lanes are full."""
        commands = self.commands.names()
        is_full = commands and not self.commands.room(self._context.cluster_id)
        return [*self.plain.names_to_exclude(self._context), *(commands if is_full else [])]
