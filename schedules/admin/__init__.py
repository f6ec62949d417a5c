"""The admin site for operators: its pages, without those of django-q2."""

# Registers django-q2's models, so that they can be unregistered below: they don't show how Cronty works, and their
# admin unpickles stored rows. Not imported through worker/q2.py, which would load these pages before django-q2.
import django_q.admin  # noqa: F401  (registers its models)
from django.contrib import admin

from schedules.admin.executions import ExecutionAdmin
from schedules.admin.jobs import JobAdmin
from schedules.admin.tokens import TokenAdmin

__all__ = ["ExecutionAdmin", "JobAdmin", "TokenAdmin"]

for model in [model for model in admin.site._registry if model.__module__.startswith("django_q.")]:
    admin.site.unregister(model)
