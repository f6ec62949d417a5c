"""How much a cluster may claim at once: its share of the work, and no more than its workers can start soon.

Plain functions and commands have limits of their own, so that coroutines never wait behind them.
"""

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

# How many executions one cluster holds at most: enough to keep every worker busy, but few to hand back.
MAX_HELD = 2000
# Small enough that workers start the first runs of a burst while the next are claimed.
BATCH = 500
# A claim that begins before its slot takes more, because no worker waits for it.
BATCH_AHEAD = 1000
# While many are held, wait until there is room for this many, instead of claiming a few at a time.
MIN_CLAIM = 250
# A cluster that holds this many plain functions claims no more of them, to leave room for other tasks.
MAX_PLAIN_HELD = 500
# A plain function that has run for longer than this may keep its permit for a long time.
LONG_AFTER = timedelta(seconds=0.3)
# How many seconds the first plain function in line waits for a permit before other clusters may have it.
WAIT_FOR_PERMIT = 0.3


class Capacity:
    """How many executions a cluster holds: in total, as plain functions, and as commands."""

    def __init__(self, context: ClusterContext) -> None:
        self.plain = PlainLane(context)
        self.commands = CommandLane(context.cluster_id)
        self._cluster_id = context.cluster_id
        # An upper bound, counted again only when needed.
        self._held_at_most = MAX_HELD

    def room(self, clusters: int, *, is_ahead: bool) -> int:
        """Return how many executions to claim now, or 0 to wait; the work is shared by `clusters`."""
        batch = BATCH_AHEAD if is_ahead else BATCH
        if self._held_at_most + batch > MAX_HELD:
            self._held_at_most = Execution.objects.held().filter(cluster_id=self._cluster_id).count()
        room = MAX_HELD - self._held_at_most
        # One cluster must not take a whole burst while others are idle.
        share = min(batch, max(packages.CHUNK, batch // clusters))
        return min(room, share) if room >= MIN_CLAIM else 0

    def add(self, claims: list[Claim]) -> None:
        self._held_at_most += len(claims)
        self.plain.add(claims)

    def is_exhausted_by(self, claims: list[Claim], room: int) -> bool:
        """Return whether a claim took all that it could, so that more may be due."""
        return len(claims) >= min(room, BATCH)

    def waiting_tasks(self) -> list[str]:
        """Return the names of the tasks that must wait because their lanes are full."""
        commands = self.commands.names()
        is_full = commands and not self.commands.room()
        return [*self.plain.names_to_exclude(), *(commands if is_full else [])]


class PlainLane:
    """The plain functions that a cluster holds: it stops claiming them when too many wait or no permit is free."""

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        # An upper bound, counted again only when needed.
        self._held_at_most = MAX_PLAIN_HELD

    def add(self, claims: list[Claim]) -> None:
        self._held_at_most += sum(packages.lane_of(claim) is Lane.PLAIN for claim in claims)

    def names_to_exclude(self) -> list[str]:
        """Return the names of all plain functions if no more of them may be claimed now, else an empty list."""
        if self._held_at_most < settings.CRONTY_WORKERS:
            return []
        is_permit_free = self._count()
        return [] if is_permit_free and self._held_at_most < MAX_PLAIN_HELD else registry.plain_names()

    def release_if_stalled(self) -> None:
        """Release the functions that wait for a permit if long-running ones hold all permits."""
        line = self._context.plain_line
        if line.seconds_waiting < WAIT_FOR_PERMIT or self._count():
            return
        if execution_ids := line.clear():
            with self._context.turns.take_for_claim_loop():
                engine.release_claims(self._context.cluster_id, execution_ids, self._context.clock.now())

    def _count(self) -> bool:
        """Count the functions held; return whether a permit is free, or will be soon."""
        is_long = Q(status=Execution.Status.RUNNING, started_at__lt=self._context.clock.now() - LONG_AFTER)
        plain = Execution.objects.held().filter(
            cluster_id=self._context.cluster_id, task__in=registry.plain_names()
        )
        counts = plain.aggregate(held=Count("pk"), long=Count("pk", filter=is_long))
        self._held_at_most = counts["held"]
        return bool(counts["long"] < settings.CRONTY_WORKERS)


class CommandLane:
    """The commands that a cluster holds: no more than it may run at once.

    While there is room, commands are claimed with everything else. Once more are due than can run, they are claimed
    separately, up to the limit, until none is left waiting.
    """

    def __init__(self, cluster_id: int) -> None:
        self._cluster_id = cluster_id
        self.is_crowded = False

    def names(self) -> list[str]:
        """Return the commands to claim separately: all of them if the lane is crowded, else none."""
        return registry.command_names() if self.is_crowded else []

    def room(self) -> int:
        """Return how many commands the cluster may claim now."""
        return max(0, settings.CRONTY_COMMANDS_AT_ONCE - self._held())

    def admit(self, claims: list[Claim]) -> tuple[list[Claim], list[Claim]]:
        """Split claims into those to run now and the commands to release because too many are running."""
        commands = [claim for claim in claims if packages.lane_of(claim) is Lane.COMMAND]
        if not commands:
            return claims, []
        # These claims are in the database already.
        held = self._held() - len(commands)
        surplus = commands[max(0, settings.CRONTY_COMMANDS_AT_ONCE - held) :]
        if not surplus:
            return claims, []
        self.is_crowded = True
        released = {claim.execution_id for claim in surplus}
        return [claim for claim in claims if claim.execution_id not in released], surplus

    def _held(self) -> int:
        held = Execution.objects.held()
        return held.filter(cluster_id=self._cluster_id, task__in=registry.command_names()).count()
