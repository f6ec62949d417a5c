"""Cronty's Django app."""

from importlib import import_module
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.db.backends.signals import connection_created
from django.utils.module_loading import autodiscover_modules

from schedules import checks, clock, defaults
from schedules.tasks import registry
from schedules.tasks.commands.catalog import catalog


class SchedulesConfig(AppConfig):
    name = "schedules"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        _apply_defaults()
        checks.register_checks()
        # A signal, because a project may open a connection anywhere.
        connection_created.connect(clock.measure_new_connection)
        connection_created.connect(_read_moments_faster)
        # Importing a module registers its tasks: our own, and the tasks.py of every installed app.
        import_module("schedules.tasks.builtin")
        import_module("schedules.tasks.heartbeat")
        import_module("schedules.agents.tasks")
        import_module("schedules.channels.notify")
        import_module("schedules.channels.event_delivery")
        import_module("schedules.engine.upkeep.tasks")
        import_module("schedules.services.jobs.moves")
        autodiscover_modules("tasks")
        registry.add_source(catalog)


def _read_moments_faster(*, connection: Any, **signal: Any) -> None:
    # On SQLite, importing psycopg would make every process start 15 % more slowly.
    if connection.vendor == "postgresql":
        import_module("schedules.engine.sql.postgresql").read_moments_faster(connection)


def _apply_defaults() -> None:
    """Add our defaults to Django's settings, unless the project has set a value."""
    values = {name: value for name, value in vars(defaults).items() if name.startswith(("CRONTY_", "NTFY_"))}
    for name, value in {**values, "CRONTY_TIME_ZONE": settings.TIME_ZONE}.items():
        if not hasattr(settings, name):
            setattr(settings, name, value)
