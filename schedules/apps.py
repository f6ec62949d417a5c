"""Cronty's Django app."""

from importlib import import_module

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class SchedulesConfig(AppConfig):
    name = "schedules"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Importing a module of tasks registers them: our own, and the tasks.py of every installed app.
        import_module("schedules.tasks.builtin")
        autodiscover_modules("tasks")
