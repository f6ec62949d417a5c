"""Cronty's Django app."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class SchedulesConfig(AppConfig):
    name = "schedules"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Other apps offer their tasks to jobs by having a tasks.py.
        autodiscover_modules("tasks")
