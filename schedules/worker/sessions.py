"""Database sessions: those of the engine never wait without limit; tasks get sessions with the project's own options."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections

from schedules import defaults

KEEP_CONNECTION = 60
# How many seconds an engine session waits for SQLite's write lock, and for a row or table of PostgreSQL.
BUSY_TIMEOUT = 5.0
LOCK_TIMEOUT = 2.0
SHORT_TIMEOUT = 1.0
# After how many seconds PostgreSQL ends the transaction of a host that froze or disappeared.
LOST_AFTER = 8.0

_of_thread = threading.local()


def use_engine_session(*, is_durable: bool = False) -> None:
    """Give this thread a session for the engine's own steps; processes that it forks inherit it.

    A durable session waits for the disk at every commit, if the project's sessions do.
    """
    connections["default"].close()
    project = getattr(_of_thread, "project", None) or connections["default"]
    session = connections.create_connection("default")
    session.settings_dict = engine_settings(project.settings_dict, project.vendor, is_durable=is_durable)
    _of_thread.project = project
    connections["default"] = session


@contextmanager
def project_session() -> Iterator[None]:
    """Let a task use a session with the project's own settings instead of this thread's engine session."""
    project = getattr(_of_thread, "project", None)
    if project is None:
        yield
        return
    session = connections["default"]
    connections["default"] = project
    try:
        yield
    finally:
        connections["default"] = session
        # As Django does after a request.
        project.close_if_unusable_or_obsolete()


@contextmanager
def short_waits() -> Iterator[None]:
    """Make steps that can be put off wait only briefly for SQLite's write lock."""
    session = connections["default"]
    if session.vendor != "sqlite":
        yield
        return
    session.ensure_connection()
    session.connection.execute(f"PRAGMA busy_timeout = {SHORT_TIMEOUT * 1000:.0f}")
    try:
        yield
    finally:
        if session.connection is not None:
            session.connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT * 1000:.0f}")


def engine_settings(database: dict[str, Any], vendor: str, *, is_durable: bool = False) -> dict[str, Any]:
    """Return the settings of an engine session; options that the project sets itself stay."""
    # No pool: all sessions of a pool have the same options.
    options = {name: value for name, value in database["OPTIONS"].items() if name != "pool"}
    if vendor == "sqlite":
        options["timeout"] = min(options.get("timeout", BUSY_TIMEOUT), BUSY_TIMEOUT)
        command = options.get("init_command", "")
        if not is_durable:
            command = command.replace("synchronous=FULL", "synchronous=NORMAL")
        if command:
            options["init_command"] = command
    elif vendor == "postgresql":
        options = defaults.DATABASE_OPTIONS | options
        # A pooler refuses such options.
        if not database.get("DISABLE_SERVER_SIDE_CURSORS"):
            # The project's own options come last, so that they win.
            options["options"] = f"{_server_options()} {options.get('options', '')}".strip()
    return database | {
        "OPTIONS": options,
        # Saves a query before every run; the runner handles a broken connection when it uses it.
        "CONN_HEALTH_CHECKS": False,
        # The project's setting may close a connection after each use, which is too slow for polling.
        "CONN_MAX_AGE": database["CONN_MAX_AGE"] or KEEP_CONNECTION,
    }


def _server_options() -> str:
    values = {
        # Claims and settlements do not wait for the disk: what a power cut undoes is fired again, never lost. Starts do
        # wait, and so do other processes, which write the changes of people and agents.
        "synchronous_commit": "off",
        # During a burst, the statistics are outdated and the planner would read whole tables; every statement has an index.
        "enable_seqscan": "off",
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
        # Planning again for each number of keys would take longer than a claim of one job.
        "plan_cache_mode": "force_generic_plan",
        "lock_timeout": f"{LOCK_TIMEOUT * 1000:.0f}",
        "idle_in_transaction_session_timeout": f"{LOST_AFTER * 1000:.0f}",
        # The same for a host that disappears while the server sends it an answer.
        "tcp_user_timeout": f"{LOST_AFTER * 1000:.0f}",
    }
    return " ".join(f"-c {name}={value}" for name, value in values.items())
