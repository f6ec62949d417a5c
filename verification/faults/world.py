"""The environment of a campaign, started and stopped together: database, sink, proxies, clock and product."""

import io
import os
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import psutil

from tests.postgres import Postgres
from verification.faults.apps import ShiftedClock
from verification.faults.product import TOKEN_USER, Product, free_port, rest
from verification.faults.records import Aftermath, JobSummary, Row
from verification.faults.sink import API_KEY, SECRET_NAME, Loop, Proxy, Sink

if TYPE_CHECKING:
    from schedules.models import Cluster
    from tests.agents.asking_program import AskingProgram
    from verification.faults.wings import Wings

# Leader, sentinel, pusher, three workers with two threads each, web and agents: at most a few per process.
MOST_CONNECTIONS = 45
# Longer than any attempt of the campaign's tasks takes, in seconds.
LONGEST_ATTEMPT = 12.0


class World:
    """The database, sink, proxies, clock and product of one campaign."""

    def __init__(self, database: str, lease: int) -> None:
        self.database = database
        self.lease = lease
        self.shifts: list[tuple[float, float]] = []
        self.forget_fault()
        # How much slower this machine is than a quiet one.
        self.pace = 1.0
        self.token = ""
        self.wings: Wings | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack as stack:
            self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cronty-faults-")))
            self.clock = ShiftedClock.create(self.folder / "clock")
            self.loop = stack.enter_context(Loop())
            self.sink = Sink()
            self.loop.do(self.sink.start())
            self.target_wire = Proxy(lambda: self.sink.port)
            self.loop.do(self.target_wire.start())
            self.postgres = Postgres() if self.database == "postgresql" else None
            self.database_wire: Proxy | None = None
            self.sqlite_file = self.folder / "cronty.sqlite3"
            direct = near = f"sqlite:///{self.sqlite_file}"
            if self.postgres:
                server = self.postgres
                server.port = free_port()
                stack.enter_context(server)
                self.database_wire = Proxy(lambda: server.port)
                self.loop.do(self.database_wire.start())
                direct = server.url
                near = direct.replace(f":{server.port}/", f":{self.database_wire.port}/")
            self.product = Product(self.folder, near, self.folder / "clock", self.lease)
            stack.callback(self.product.stop)
            self.product.environment["NTFY_URL"] = f"http://127.0.0.1:{self.target_wire.port}"
            self._set_up_django(direct)
            self.program = self._asking_program()
            self._start_product()
            # From here on we must stop it.
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def target(self) -> str:
        return f"http://127.0.0.1:{self.target_wire.port}"

    def log(self) -> bytes:
        return self.product.log_file.read_bytes() if self.product.log_file.exists() else b""

    def shift_clock(self, seconds: float) -> None:
        self.clock.offset = seconds
        self.shifts.append((time.time(), seconds))

    def forget_fault(self) -> None:
        # Set by the fault that is being injected: when it hit, the only job and host it concerns, and what went wrong.
        self.struck_at, self.struck_job, self.struck_host, self.problem = 0.0, "", "", ""

    def strike(self, job_id: str = "", host: str = "") -> None:
        """Note that the fault hits the product now."""
        self.struck_at, self.struck_job, self.struck_host = time.time(), job_id, host

    def freeze(self, host: str) -> None:
        """Note that processes of a host are frozen now; on SQLite, they may hold the write lock, which concerns all hosts."""
        self.strike(host=host if self.postgres else "")

    def undo_everything(self) -> None:
        """Undo everything that an interrupted fault left behind."""
        for wire in (self.target_wire, self.database_wire):
            if wire:
                wire.is_cut, wire.delay = False, 0.0
        self.sink.manner = "well"
        if self.clock.offset:
            self.shift_clock(0.0)
        for process in self.product.all_processes():
            with suppress(psutil.Error):
                process.resume()
        if self.postgres and (self.postgres.process is None or self.postgres.process.poll() is not None):
            self.postgres.process = None
            self.postgres.start()

    def remaining_problem(self, since: float) -> str:
        """Return what has not recovered yet, or "": probes return, the web answers, no job is overdue."""
        from django.db import Error, connections  # noqa: PLC0415

        try:
            return self._trouble(since)
        except Error as error:
            connections.close_all()
            return f"the database does not answer: {error}"

    def wait_until_recovered(self, since: float | None = None, seconds: float = 60.0) -> None:
        """Wait until the product has recovered, or until that takes too long."""
        began_at = time.time() if since is None else since
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.remaining_problem(began_at):
            rest(0.2)

    def rows(self) -> list[Row]:
        from schedules.models import Execution  # noqa: PLC0415

        known = Execution.objects.filter(job__owner__username=TOKEN_USER).select_related("job", "cluster")
        rows = known.defer("traceback", "result")
        return [_row(row) for row in rows.iterator(2000)]

    def jobs(self) -> list[JobSummary]:
        from schedules.models import Job  # noqa: PLC0415

        columns = (
            Job.objects.filter(owner__username=TOKEN_USER)
            .order_by("pk")
            .values_list("public_id", "slot_count", "recent")
        )
        return [JobSummary(*values) for values in columns]

    def snapshot(self) -> tuple[list[Row], list[JobSummary]]:
        """Read rows and jobs as of the same moment, while the product works."""
        from django.db import connection, transaction  # noqa: PLC0415

        with transaction.atomic(), connection.cursor() as cursor:
            if self.postgres:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            return self.rows(), self.jobs()

    def held_by(self, leader: int | None = None, name: str = "") -> int:
        """Count the claimed and running runs of jobs whose name begins so, in all clusters or in those of one leader."""
        from schedules.models import Execution  # noqa: PLC0415

        held = Execution.objects.filter(status__in=Execution.HELD, job_name__startswith=name)
        # A heartbeat that was started runs elsewhere.
        held = held.exclude(task="heartbeat")
        return (held if leader is None else held.filter(cluster__pid=leader)).count()

    def aftermath(self, complaints: list[str]) -> Aftermath:
        """Read the tables before the product is stopped."""
        from schedules import clock  # noqa: PLC0415
        from schedules.models import Execution, Job  # noqa: PLC0415

        now = clock.now()
        return Aftermath(
            fresh_clusters=len(self._fresh()),
            live_runs=Execution.objects.live().filter(job__owner__username=TOKEN_USER).count(),
            overdue_jobs=Job.objects.due(now - timedelta(seconds=5)).count(),
            complaints=complaints,
            connections=self.connections(),
            most_connections=MOST_CONNECTIONS,
        )

    def connections(self) -> int:
        if not self.postgres:
            return 0
        from django.db import connection  # noqa: PLC0415

        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
            return int(cursor.fetchone()[0])

    def _trouble(self, since: float) -> str:
        from schedules import clock  # noqa: PLC0415
        from schedules.models import Execution, Job  # noqa: PLC0415

        now = clock.now()
        overdue = Job.objects.due(now - timedelta(seconds=1.5)).count()
        if overdue:
            return f"{overdue} jobs are overdue"
        if abandoned := Execution.objects.abandoned(now).count():
            return f"{abandoned} runs are abandoned"
        stuck = Execution.objects.filter(status=Execution.Status.RUNNING, job__owner__username=TOKEN_USER)
        # After its worker died, a run must be started again, and not only have its lease renewed.
        if count := stuck.filter(started_at__lt=now - timedelta(seconds=LONGEST_ATTEMPT)).count():
            return f"{count} runs do not end"
        leaders = set(self.product.leaders().values())
        # Not in the future, as after the clock was set back.
        earliest, latest = since + self.clock.offset, now.timestamp() + 0.5
        round_again = {
            row.pid for row in self._fresh() if earliest < row.probe_returned_at.timestamp() < latest
        }
        if missing := leaders - round_again or len(leaders) < 2:
            return f"clusters {missing} have not come round"
        for url in (f"{self.product.url}/healthz", self.product.mcp_urls()[1]):
            if not answers(url):
                return f"{url} does not answer"
        return ""

    def _fresh(self) -> "list[Cluster]":
        from schedules import clock  # noqa: PLC0415
        from schedules.models import Cluster  # noqa: PLC0415

        leaders = set(self.product.leaders().values())
        return [row for row in Cluster.objects.fresh(clock.now()) if row.pid in leaders]

    def _set_up_django(self, url: str) -> None:
        for name in list(os.environ):
            if name.startswith(("CRONTY_", "NTFY_")):
                del os.environ[name]
        os.environ |= self.product.environment | {"DATABASE_URL": url, "CRONTY_LOG_LEVEL": "CRITICAL"}
        import django  # noqa: PLC0415

        django.setup()

    def _asking_program(self) -> "AskingProgram":
        """Make a program that asks for leave before its call, and a runner that starts it."""
        from tests.agents.asking_program import AskingProgram  # noqa: PLC0415

        program = AskingProgram(self.folder)
        runners = self.folder / "runners.toml"
        runners.write_text(program.runner())
        runners.chmod(0o600)
        return program

    def _start_product(self) -> None:
        self.product.start("up")
        began_at = time.time()
        wait_until(lambda: answers(f"{self.product.url}/healthz"), 300)
        self.token = self._issue_token()
        self._set_secret()
        self.product.start("second")
        self.product.start("mcp")
        wait_until(lambda: not self.remaining_problem(began_at), 300)

    def _set_secret(self) -> None:
        from django.contrib.auth.models import User  # noqa: PLC0415

        from schedules.result import Ok  # noqa: PLC0415
        from schedules.services.people.stored_secrets import set_secret  # noqa: PLC0415
        from schedules.services.permissions import Actor  # noqa: PLC0415

        actor = Actor(User.objects.get(username=TOKEN_USER))
        place = self.target.removeprefix("http://")
        made = set_secret(actor, SECRET_NAME, API_KEY, hosts=[place])
        assert isinstance(made, Ok), made

    def _issue_token(self) -> str:
        from django.core.management import call_command  # noqa: PLC0415

        out = io.StringIO()
        call_command("issue_token", user=TOKEN_USER, name="campaign", stdout=out)
        return out.getvalue().strip()


def wait_until(condition: Any, seconds: float) -> None:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"did not come true within {seconds} s")
        rest(0.1)


def create_due_jobs(*jobs: dict[str, Any]) -> list[str]:
    """Create one-time jobs that are due now, at once and without any check; return their ids."""
    from django.contrib.auth.models import User  # noqa: PLC0415

    from schedules import clock  # noqa: PLC0415
    from schedules.models import Job  # noqa: PLC0415
    from schedules.models.jobs import new_public_id  # noqa: PLC0415

    now = clock.now()
    common = {
        "owner": User.objects.get(username=TOKEN_USER),
        "trigger_type": "once",
        "timezone": "UTC",
        "next_run_at": now,
        "created_at": now - timedelta(seconds=1),
        "updated_at": now,
    }
    rows = [Job(public_id=new_public_id("job", now), **(common | columns)) for columns in jobs]
    for row in rows:
        row.run_at = now if row.trigger_type == "once" else None
    return [row.public_id for row in Job.objects.bulk_create(rows)]


def answers(url: str) -> bool:
    with suppress(OSError):
        try:
            urllib.request.urlopen(url, timeout=2).close()
        except urllib.error.HTTPError as error:
            # An error response is an answer, too.
            error.close()
        return True
    return False


def _row(row: Any) -> Row:
    def seconds(moment: Any) -> float | None:
        return None if moment is None else moment.timestamp()

    first = row.scheduled_for + row.lateness if row.lateness is not None else None
    return Row(
        id=row.pk,
        job_id=row.job.public_id,
        scheduled_for=row.scheduled_for.timestamp(),
        status=row.status,
        cause=row.cause,
        attempt=row.attempt,
        first_started_at=seconds(first),
        started_at=seconds(row.started_at),
        finished_at=seconds(row.finished_at),
        last_slot=seconds(row.last_slot),
        slots=row.slots,
        task=row.task,
        reason=row.reason,
        error=row.error[:200],
        host=row.cluster.host if row.cluster else "",
    )
