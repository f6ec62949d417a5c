"""Everything that touches django-q2; no other file imports it, except the admin, which hides its models.

Cronty uses the processes of django-q2, but neither its tables nor its scheduler:

    leader          cluster.py
    └── sentinel    LedgerSentinel: starts the processes below, and replaces those that die
        ├── pusher  asks LedgerBroker for packages (claim_loop.py), and puts their tasks into TaskQueue
        ├── workers take tasks from TaskQueue (package_queue.py), and call the function that each names (runner.py)
        └── monitor tells LedgerBroker which tasks have ended (upkeep.py)

The classes here only adapt our own to what django-q2 expects. They get them as arguments and import none of them, because
most of our classes import this file.
"""

import logging
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

from django_q.brokers import Broker
from django_q.cluster import Sentinel
from django_q.conf import Conf
from django_q.exceptions import TimeoutException
from django_q.queues import Queue
from django_q.signing import SignedPackage
from django_q.timeout import TimeoutHandler
from django_q.worker import worker

from schedules import clock
from schedules.models import Execution
from schedules.worker.supervisor import fork

if TYPE_CHECKING:
    from schedules.worker.claim_loop import ClaimLoop
    from schedules.worker.context import ClusterContext
    from schedules.worker.package_queue import QueueOrder

logger = logging.getLogger(__name__)

Task = dict[str, Any]
"""What a worker gets: one of our functions, its arguments, and a time limit."""

Package = tuple[str, str]
"""What the pusher gets: an id that the monitor acknowledges, and a signed task."""

PAUSE_WITHOUT_CLUSTER = 0.5


# Packages


def new_task(
    name: str, function: Callable[..., None], arguments: tuple[Any, ...], now: datetime, timeout: int
) -> Task:
    """Return a task for a worker; after `timeout` seconds, django-q2 replaces the worker that runs it."""
    return {
        "id": name,
        "name": function.__name__,
        "func": function,
        "args": arguments,
        "kwargs": {},
        "timeout": timeout,
        "started": now,
        "ack_failure": True,
    }


def sign(ack_id: str, task: Task) -> Package:
    return ack_id, SignedPackage.dumps(task)


# Processes


def worker_count() -> int:
    """Return how many workers the sentinel of each cluster starts."""
    count: int = Conf.WORKERS
    return count


class LedgerBroker(Broker):
    """Gives the pusher what the claim loop finds, and tells it which probes have come back.

    `Q_CLUSTER["broker_class"]` names this class. django-q2 itself creates brokers without a claim loop, which find nothing.
    """

    claim_loop: "ClaimLoop | None" = None

    def __init__(self, list_key: str | None = None, *, claim_loop: "ClaimLoop | None" = None) -> None:
        super().__init__(list_key)  # type: ignore[arg-type]
        self.claim_loop = claim_loop

    def ping(self) -> bool:
        return True

    def info(self) -> str:
        return "Cronty's ledger"

    def enqueue(self, task: str) -> None:
        """Refuse django-q2's own tasks: the base class would drop them silently."""
        raise NotImplementedError(
            "Cronty's broker does not accept django-q2 tasks (async_task, Schedule): register a function with"
            " schedules.tasks.task, and create a job for it with schedules.services.schedule."
        )

    def dequeue(self) -> list[Package] | None:
        """Return packages of claimed executions, or None after a short wait."""
        if self.claim_loop is None:
            logger.error("No work can be claimed: start clusters with manage.py qcluster or manage.py up")
            time.sleep(PAUSE_WITHOUT_CLUSTER)  # noqa: TID251  (the pusher would ask again at once)
            return None
        return self.claim_loop.next_packages()

    def acknowledge(self, task_id: str) -> None:
        if self.claim_loop is not None:
            self.claim_loop.upkeep.acknowledge(task_id)

    def queue_size(self) -> int:
        return Execution.objects.ready(clock.now()).count()

    def lock_size(self) -> int:
        return Execution.objects.held().count()


class TaskQueue(Queue):
    """The queue between the pusher and the workers, in which plain functions wait in a line of their own."""

    def __init__(self, order: "QueueOrder") -> None:
        super().__init__(maxsize=Conf.QUEUE_LIMIT)  # type: ignore[no-untyped-call]
        self._order = order

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        queued = self._order.before_put(obj)
        if queued is not None:
            super().put(queued, block, timeout)  # type: ignore[no-untyped-call]

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the next task; the one before it has ended."""
        take: Callable[..., Any] = super().get
        return self._order.next(lambda: take(block, timeout), lambda: take(block=False))


class LedgerSentinel(Sentinel):
    """The sentinel with our broker and our queue, and with workers that finish their executions before they end."""

    def __init__(
        self,
        context: "ClusterContext",
        broker: LedgerBroker,
        order: "QueueOrder",
        executing: Callable[[int], AbstractContextManager[object]],
        stop_event: Any,
        start_event: Any,
    ) -> None:
        """Run a cluster until it is told to stop; each worker takes tasks inside `executing(number)`."""
        self._context = context
        self._order = order
        self._executing = executing
        # Returns when the cluster has stopped.
        super().__init__(stop_event, start_event, uuid4(), broker)  # type: ignore[no-untyped-call]

    def start(self) -> None:
        self.task_queue = TaskQueue(self._order)
        super().start()  # type: ignore[no-untyped-call]

    def spawn_worker(self) -> None:
        timer = fork.Value("f", -1)
        # The number of a worker that has died is free again, and so is what it reported.
        number = min(set(range(Conf.WORKERS)) - {process.number for process in self.pool})
        self._context.report_unwritten(number, None)
        process: Any = fork.Process(
            target=run_worker,
            args=(self._executing, number, self.task_queue, self.result_queue, timer, self.timeout),
            name=f"Process-{uuid4().hex}",
            daemon=Conf.DAEMONIZE_WORKERS,
        )
        process.timer, process.number = timer, number
        self.pool.append(process)
        process.start()


def run_worker(
    executing: Callable[[int], AbstractContextManager[object]], number: int, *arguments: Any
) -> None:
    """Run django-q2's worker function in this process, then finish the executions in progress."""
    with executing(number):
        worker(*arguments)


# Time limits

TimedOut = TimeoutException


def time_limit(seconds: float) -> AbstractContextManager[None]:
    """Raise `TimedOut` in a block that takes longer; it replaces django-q2's own limit for the whole package."""
    return TimeoutHandler(max(1, math.ceil(seconds)))


def replace_worker() -> NoReturn:
    """Make django-q2 end this worker and start another one, as after a timeout."""
    raise TimeoutException


# The admin site
