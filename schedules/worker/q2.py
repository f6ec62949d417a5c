"""Everything that touches django-q2; no other file imports it, except the admin, which hides its models.

Cronty uses the processes of django-q2, but neither its tables, its scheduler nor its broker:

    leader          leader.py, with one RunningCluster
    └── sentinel    LedgerSentinel: starts the processes below, and replaces those that die
        ├── pusher  puts the packages of the claim loop (claim_loop.py) into PackageQueue
        └── workers take packages (package_queue.py), and call the function that each names (packages.py)

Return values of workers are dropped: outcomes are in the ledger. The classes here only adapt ours to what django-q2
expects. They get ours as arguments instead of importing them, because most of our files import this one.
"""

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

from django_q.brokers import Broker
from django_q.cluster import Sentinel
from django_q.conf import Conf
from django_q.exceptions import TimeoutException
from django_q.queues import Queue
from django_q.worker import worker
from setproctitle import setproctitle

from schedules import clock
from schedules.models import Execution
from schedules.worker.supervisor import fork

if TYPE_CHECKING:
    from schedules.worker.context import ClusterContext
    from schedules.worker.package_queue import QueueOrder

logger = logging.getLogger(__name__)

Package = dict[str, Any]
"""A call for a worker as django-q2 takes it; `packages.py` builds them."""

TimedOut = TimeoutException

PAUSE_WITHOUT_CLUSTER = 0.5


def worker_count() -> int:
    """Return how many workers the sentinel of each cluster starts."""
    count: int = Conf.WORKERS
    return count


def replace_worker() -> NoReturn:
    """Make django-q2 end this worker and start another one, as after a timeout."""
    raise TimeoutException


class LedgerBroker(Broker):
    """The broker for django-q2's own functions, which Cronty does not use: it neither accepts nor returns tasks.

    `Q_CLUSTER["broker_class"]` names this class.
    """

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

    def dequeue(self) -> None:
        logger.error("No work can be claimed: start clusters with manage.py qcluster or manage.py up")
        time.sleep(PAUSE_WITHOUT_CLUSTER)  # noqa: TID251  (django-q2's own pusher would ask again at once)

    def queue_size(self) -> int:
        return Execution.objects.ready(clock.now()).count()

    def lock_size(self) -> int:
        return Execution.objects.held().count()


class PackageQueue(Queue):
    """The queue between the pusher and the workers, in which plain functions wait in a line of their own."""

    def __init__(self, order: "QueueOrder") -> None:
        super().__init__(maxsize=Conf.QUEUE_LIMIT)  # type: ignore[no-untyped-call]
        self._order = order

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        queued = self._order.before_put(obj)
        if queued is not None:
            super().put(queued, block, timeout)  # type: ignore[no-untyped-call]

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the next package; the previous one has ended."""
        take: Callable[..., Any] = super().get
        return self._order.next(lambda: take(block, timeout), lambda: take(block=False))


class NoResults:
    """Replaces django-q2's result queue and its monitor, a process that would only store and acknowledge results."""

    pid = 0

    def __init__(self, stopping: Any) -> None:
        self._stopping = stopping

    def put(self, package: Any) -> None:
        """Log a package that failed; its runs are queued again when their leases expire."""
        if isinstance(package, dict) and not package["success"]:
            logger.error("%s failed in a worker: %s", package["name"], package["result"])

    def is_alive(self) -> bool:
        return not self._stopping.is_set()

    def qsize(self) -> int:
        return 0

    def empty(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def join_thread(self) -> None:
        """Return at once: nothing waits to be sent."""


class LedgerSentinel(Sentinel):
    """The sentinel with our claim loop and our queue, and with workers that finish their executions before they end."""

    def __init__(
        self,
        context: "ClusterContext",
        next_packages: Callable[[], list[Package]],
        order: "QueueOrder",
        executing: Callable[[int], AbstractContextManager[object]],
        stop_event: Any,
        start_event: Any,
    ) -> None:
        """Run a cluster until it is asked to stop; each worker takes packages inside `executing(number)`."""
        self._context = context
        self._next_packages = next_packages
        self._order = order
        self._executing = executing
        # This call returns when the cluster has stopped.
        super().__init__(stop_event, start_event, uuid4(), LedgerBroker())  # type: ignore[no-untyped-call]

    def start(self) -> None:
        self.task_queue = PackageQueue(self._order)
        self.result_queue: Any = NoResults(self.event_out)
        super().start()  # type: ignore[no-untyped-call]

    def spawn_pusher(self) -> Any:
        arguments = (self._next_packages, self.task_queue, self.event_out)
        return self.spawn_process(push, *arguments)

    def spawn_monitor(self) -> Any:
        return self.result_queue

    def spawn_worker(self) -> None:
        timer = fork.Value("f", -1)
        # Reuse the number of a worker that died, and clear what it reported.
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


def push(next_packages: Callable[[], list[Package]], queue: PackageQueue, stopping: Any) -> None:
    """Put packages into the queue until the cluster stops."""
    setproctitle("qcluster pusher")
    while not stopping.is_set():
        for package in next_packages():
            queue.put(package)


def run_worker(
    executing: Callable[[int], AbstractContextManager[object]], number: int, *arguments: Any
) -> None:
    """Run django-q2's worker function in this process, then finish the executions in progress."""
    with executing(number):
        worker(*arguments)
