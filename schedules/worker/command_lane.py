"""The lane of commands: a cluster claims no more of them than it may run at once.

As long as there is room, commands are claimed with everything else. Once more were due than could run, they are claimed
separately, as many as there is room for, until none is left to wait.
"""

from django.conf import settings

from schedules.engine import Claim
from schedules.models import Execution
from schedules.tasks import registry


class CommandLane:
    """How many commands a cluster holds, and whether others wait."""

    def __init__(self) -> None:
        # An upper bound, counted again only when it leaves no room.
        self._held_at_most = 0
        self.is_crowded = False

    def names(self) -> list[str]:
        """Return the commands to be claimed separately: all of them if the lane is crowded, else none."""
        return registry.command_names() if self.is_crowded else []

    def room(self, cluster_id: int) -> int:
        """Return how many commands the cluster may claim now."""
        most: int = settings.CRONTY_COMMANDS_AT_ONCE
        if self._held_at_most >= most:
            self._held_at_most = self._count(cluster_id)
        return max(0, most - self._held_at_most)

    def _count(self, cluster_id: int) -> int:
        held = Execution.objects.held().filter(cluster_id=cluster_id, task__in=registry.command_names())
        return held.count()

    def admit(self, cluster_id: int, claims: list[Claim]) -> tuple[list[Claim], list[Claim]]:
        """Divide claims into those to run now and the commands to release, because too many are running."""
        names = set(registry.command_names())
        commands = [claim for claim in claims if claim.task in names] if names else []
        if not commands:
            return claims, []
        most: int = settings.CRONTY_COMMANDS_AT_ONCE
        if self._held_at_most + len(commands) > most:
            # These claims are written already.
            self._held_at_most = max(0, self._count(cluster_id) - len(commands))
        room = max(0, most - self._held_at_most)
        surplus = commands[room:]
        self._held_at_most += len(commands) - len(surplus)
        if not surplus:
            return claims, []
        self.is_crowded = True
        released = {claim.execution_id for claim in surplus}
        return [claim for claim in claims if claim.execution_id not in released], surplus
