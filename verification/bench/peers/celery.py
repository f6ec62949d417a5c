"""Celery with Redis: prefork workers, and jobs that wait for their ETA inside the worker."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from celery import Celery as Application

from verification.bench.peers import tasks
from verification.bench.peers.system import WORKERS, System, moment, processes

PORT = "BENCH_REDIS_PORT"

app = Application("bench", broker=f"redis://127.0.0.1:{os.environ.get(PORT, '0')}/0")
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=64,
    broker_connection_retry_on_startup=True,
    enable_utc=True,
)
plain = app.task(name="plain")(tasks.plain)


class Celery(System):
    distributions = ("celery", "redis")
    settings = (
        f"prefork, {WORKERS} processes, prefetch multiplier 64, results ignored; Redis with appendonly and "
        "appendfsync everysec (a power failure loses up to a second)"
    )

    def absent(self) -> str:
        return "" if _redis() else "no redis-server on PATH (or in REDIS_SERVER)"

    def store_version(self) -> str:
        printed = subprocess.run([_redis(), "--version"], capture_output=True, text=True, check=True).stdout
        return f"Redis {printed.partition('v=')[2].split()[0]}"

    @contextmanager
    def running(self, kind: str) -> Iterator[None]:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        os.environ[PORT] = port
        app.conf.broker_url = f"redis://127.0.0.1:{port}/0"
        redis = [
            _redis(), "--port", port, "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", "",
            "--appendonly", "yes", "--appendfsync", "everysec",
        ]  # fmt: skip
        worker = [
            "celery", "-A", "verification.bench.peers.celery:app", "worker", "-P", "prefork", "-c", str(WORKERS),
            "-l", "ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat",
        ]  # fmt: skip
        with processes(redis):
            _wait_for(int(port))
            with processes(worker):
                yield

    def add(self, moments: Sequence[int], kind: str) -> None:
        with app.producer_pool.acquire(block=True) as producer:
            for due in moments:
                plain.apply_async((due,), eta=moment(due), producer=producer)

    def unfinished(self) -> int:
        with app.connection_for_read() as connection:
            client = connection.default_channel.client
            return int(client.llen("celery")) + int(client.hlen("unacked"))


def _redis() -> str:
    return shutil.which(os.environ.get("REDIS_SERVER", "redis-server")) or ""


def _wait_for(port: int, seconds: float = 10) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
