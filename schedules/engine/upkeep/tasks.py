"""The tasks of Cronty's own jobs: nightly pruning, reading calendars at addresses, and checking the cluster."""

from datetime import timedelta

from schedules import clock, engine
from schedules.engine.upkeep.calendar_addresses import read_calendars
from schedules.tasks.registry import task


@task(title="Prune history", system=True, timeout=timedelta(minutes=5))
def prune_history() -> dict[str, int]:
    """Delete history beyond the configured limits, and add the years that come near to calendars."""
    engine.refresh_calendars(clock.now())
    return engine.prune_history()


@task(title="Read calendars", system=True, timeout=timedelta(minutes=15))
def read_calendar_addresses() -> dict[str, int]:
    """Read the calendars at addresses again; those that do not answer stay as they are."""
    return read_calendars(clock.now())


@task(title="Check the cluster", system=True)
def check_cluster() -> None:
    """Do nothing: a run that succeeds shows that jobs are fired, run and recorded."""
