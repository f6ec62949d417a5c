"""Examine the database: whether it answers, its tables and its clock, and whether clusters keep up with the work."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor

from schedules import clock, engine
from schedules.checks import MOVE_TO_THIS_BUILD, foreign_schema_problem
from schedules.engine import sqlite_file
from schedules.engine.clusters import describe_deviation, describe_surplus_clusters
from schedules.management.database import missing_database_problem
from schedules.management.doctor import Finding, ok, problem, warning
from schedules.models import Cluster, Execution, Installation, Job
from schedules.models.counting import count_up_to, count_words
from schedules.services.installation.command_words import how_to_run
from schedules.services.installation.secret_key import secret_key_problem, secret_key_warning
from schedules.services.installation.storage import database_size
from schedules.services.people.preferences import MEND, people_unalerted
from schedules.worker.database_errors import reason_of

REMEDY_FOR_LATE_WORK = "Start another cluster, or raise CRONTY_WORKERS."
LONG_WAIT = timedelta(minutes=5)
SILENT_WORKERS = timedelta(minutes=2)
SILENT_WATCH = timedelta(minutes=5)
CLOCK_SET_BACK = timedelta(minutes=1)


def examine_connection() -> Iterator[Finding]:
    """Examine the connection and the tables, which all other checks need."""
    if moment := sqlite_file.replaced_at():
        yield problem(
            "database",
            f"Its file was replaced while Cronty was running ({moment}), and was not examined since.",
            f"Stop Cronty, put the right file in place, and start `{how_to_run('up')}`, which examines it.",
        )
        return
    if message := missing_database_problem():
        yield problem(
            "database", message, f"If nothing runs yet, start `{how_to_run('up')}`, which creates it."
        )
        return
    try:
        connection.ensure_connection()
        size = f"{database_size() / 1e6:,.1f} MB"
    except Error as error:
        yield problem(
            "database",
            f"It does not answer ({reason_of(error)}).",
            "Start the database, and check DATABASE_URL and its password.",
        )
        return
    yield ok("database", f"{connection.display_name}, {size}.")
    if connection.vendor == "postgresql" and connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"]:
        yield from _limits_of_role()
    yield _migrations()


def examine_content() -> Iterator[Finding]:
    """Examine the content of the tables, which must exist."""
    now = clock.now()
    if message := secret_key_problem():
        yield problem("secret key", message, "Copy the key of the other host, as said above.")
    elif message := secret_key_warning():
        yield warning("secret key", message, "See docs/how-to/hosts.md, Change the secret key.")
    else:
        yield ok("secret key", "It is the installation's.")
    yield _clock(now)
    for message in engine.host_warnings(now):
        yield warning("hosts", message, "Correct it on that host.")
    yield from _clusters(now)
    yield from _work(now)
    yield _outside_watch(now)
    yield _alerts()


def _limits_of_role() -> Iterator[Finding]:
    """Examine the limits of the role, which clusters cannot set themselves behind a pooler."""
    names = ("lock_timeout", "idle_in_transaction_session_timeout")
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s), current_setting(%s)", names)
        values = cursor.fetchone()
    if missing := [name for name, value in zip(names, values, strict=True) if value == "0"]:
        yield warning(
            "database",
            f"Behind a pooler, {' and '.join(missing)} must be set for the role: one lock could stop a cluster.",
            "ALTER ROLE … SET lock_timeout = '2s'; ALTER ROLE … SET idle_in_transaction_session_timeout = '8s';",
        )


def _migrations() -> Finding:
    executor = MigrationExecutor(connection)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if missing:
        names = ", ".join(f"{migration.app_label}.{migration.name}" for migration, _ in missing[:3])
        return problem("migrations", f"{len(missing)} are missing: {names}.", _upgrade())
    if message := foreign_schema_problem():
        return problem("migrations", message, MOVE_TO_THIS_BUILD)
    return ok("migrations", "The tables are those of this version.")


def _clock(now: datetime) -> Finding:
    if deviation := describe_deviation(clock.ahead()):
        return warning(
            "clock", f"The clock of this host is {deviation}.", "Set it by NTP: jobs run by the database's."
        )
    newest = Cluster.objects.order_by("-last_seen_at").values_list("last_seen_at", flat=True).first()
    if newest and newest - now > CLOCK_SET_BACK:
        return problem(
            "clock",
            f"A cluster was seen at {newest:%Y-%m-%d %H:%M:%S} UTC, which is in the future.",
            "Set the clock of this host, or of the database's, by NTP.",
        )
    return ok("clock", "It agrees with the database's.")


def _clusters(now: datetime) -> Iterator[Finding]:
    alive = list(Cluster.objects.fresh(now).order_by("host", "pid")[:1000])
    if not alive:
        yield problem(
            "clusters",
            "None is running: nothing fires.",
            f"Start `{how_to_run('up')}`, or `{how_to_run('qcluster')}`.",
        )
        return
    yield ok("clusters", f"{len(alive)} running: {', '.join(map(str, alive[:5]))}{' …' if alive[5:] else ''}")
    for host, at in engine.dead_hosts(now).items():
        yield warning(
            "clusters",
            f"{host} stopped responding at {at:%Y-%m-%d %H:%M:%S} UTC and is not back.",
            "Start it again; this is shown for an hour.",
        )
    if message := describe_surplus_clusters(now):
        yield warning("clusters", message, "Stop all but one, and raise CRONTY_WORKERS instead.")
    for cluster in Cluster.objects.blocked(now):
        yield problem(
            "clusters",
            f"{cluster} waits for rows or tables that another session has locked.",
            "End that session: on PostgreSQL, pg_blocking_pids() names it.",
        )
    for cluster in alive:
        started_long_ago = now - cluster.started_at > SILENT_WORKERS
        if started_long_ago and now - cluster.probe_returned_at > SILENT_WORKERS:
            yield warning(
                "clusters",
                f"The workers of {cluster} have not returned a probe since {cluster.probe_returned_at:%H:%M:%S} UTC.",
                "Read its log; it is restarted if that goes on.",
            )


def _work(now: datetime) -> Iterator[Finding]:
    late = count_up_to(Job.objects.late(now).order_by("next_run_at", "-pk"))
    if late:
        yield problem(
            "work",
            f"{count_words(late)} {'job is' if late == 1 else 'jobs are'} more than two minutes late.",
            REMEDY_FOR_LATE_WORK,
        )
    waiting = (
        Execution.objects.ready(now).order_by("available_at").values_list("available_at", flat=True).first()
    )
    if waiting and now - waiting > LONG_WAIT:
        yield warning(
            "work",
            f"A run has waited for a worker since {waiting:%Y-%m-%d %H:%M:%S} UTC.",
            REMEDY_FOR_LATE_WORK,
        )
    elif not late:
        yield ok("work", "Nothing is late.")


def _outside_watch(now: datetime) -> Finding:
    """Examine the pings that clusters sent; a ping from here would hide that no cluster is running."""
    if not settings.CRONTY_HEARTBEAT_URL:
        return ok(
            "watch", "CRONTY_HEARTBEAT_URL is not set: nobody outside notices when no cluster is running."
        )
    row = Installation.objects.filter(pk=Installation.ONLY).first()
    remedy = (
        "Check CRONTY_HEARTBEAT_URL on every host with a cluster, and whether that host may connect to it."
    )
    if row is None or row.watch_answered_at is None:
        reason = row.watch_error if row and row.watch_error else "It has not been pinged yet."
        return warning("watch", f"CRONTY_HEARTBEAT_URL has never answered: {reason}", remedy)
    answered = f"{row.watch_answered_at:%Y-%m-%d %H:%M:%S} UTC"
    if row.watch_error:
        return problem(
            "watch", f"CRONTY_HEARTBEAT_URL last answered at {answered}: {row.watch_error}", remedy
        )
    if now - row.watch_answered_at > SILENT_WATCH:
        return warning("watch", f"CRONTY_HEARTBEAT_URL was last pinged at {answered}.", remedy)
    return ok("watch", f"CRONTY_HEARTBEAT_URL answered at {answered}.")


def _alerts() -> Finding:
    if names := people_unalerted():
        return warning(
            "alerts",
            f"Nobody is alerted when a job of {', '.join(names)} fails: no topic or channel is set.",
            f"`{MEND}` in their terminal, or Settings on their pages.",
        )
    return ok("alerts", "Everybody with jobs is alerted somewhere.")


def _upgrade() -> str:
    return f"Run `{how_to_run('up')}`, or `{how_to_run('migrate')}`."
