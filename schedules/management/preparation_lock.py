"""The lock that lets one process at a time prepare an installation, on any number of hosts."""

import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.core.management.base import CommandError
from django.db import connection, connections

logger = logging.getLogger(__name__)

# Any constant does, as long as nothing else locks the same number in this database.
ADVISORY_KEY = 0x43726F6E7479
POLL_SECONDS = 0.2
LOG_SECONDS = 60.0


@contextmanager
def preparation_lock(max_wait: float) -> Iterator[None]:
    """Hold the lock inside the block; raise CommandError after waiting `max_wait` seconds for another holder."""
    lock = _advisory_lock if connection.vendor == "postgresql" else _file_lock
    with lock() as try_lock:
        _wait(try_lock, max_wait)
        yield


def _wait(try_lock: Callable[[], bool], max_wait: float) -> None:
    started_at = time.monotonic()
    logged_at: float | None = None
    while not try_lock():
        now = time.monotonic()
        if now - started_at > max_wait:
            raise CommandError(
                f"Another process has been preparing this database for more than {max_wait:g} seconds:"
                " see its log, and start again when it is done."
            )
        if logged_at is None or now - logged_at > LOG_SECONDS:
            logged_at = now
            logger.warning("Another process is preparing this database; waiting until it is done")
        time.sleep(POLL_SECONDS)  # noqa: TID251  (waits for another process)


@contextmanager
def _advisory_lock() -> Iterator[Callable[[], bool]]:
    """Lock a number in PostgreSQL, in a transaction of its own: a pooler hands out connections per transaction."""
    database = connections.create_connection("default")
    try:
        database.set_autocommit(False)
        with database.cursor() as cursor:
            # This transaction is idle while another connection migrates.
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")

            def try_lock() -> bool:
                cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [ADVISORY_KEY])
                return bool(cursor.fetchone()[0])

            yield try_lock
    finally:
        # Ends the transaction, and with it the lock.
        database.close()


@contextmanager
def _file_lock() -> Iterator[Callable[[], bool]]:
    """Lock a file beside the SQLite database; the file stays, because deleting it would let two processes lock it."""
    if connection.is_in_memory_db():  # type: ignore[attr-defined]
        yield lambda: True
        return
    handle = os.open(f"{connection.settings_dict['NAME']}.lock", os.O_RDWR | os.O_CREAT, 0o600)

    def try_lock() -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    try:
        yield try_lock
    finally:
        os.close(handle)
