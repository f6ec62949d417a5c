"""The admin site for operators: imports every admin page, and hides those of django-q2."""

# Registers django-q2's models, so that they can be unregistered below: they don't show how Cronty works, and their
# admin unpickles stored rows. Not imported through worker/q2.py, which would load these pages before django-q2.
import django_q.admin  # noqa: F401  (registers its models)
from django.contrib import admin

import schedules.admin.generic_classes  # noqa: F401  (changes Django's classes)
from schedules.admin.jobs import JobAdmin
from schedules.admin.ledger import ClusterAdmin, EventAdmin, ExecutionAdmin, HeartbeatAdmin
from schedules.admin.people import CalendarAdmin, ProfileAdmin, TokenAdmin

__all__ = [
    "CalendarAdmin",
    "ClusterAdmin",
    "EventAdmin",
    "ExecutionAdmin",
    "HeartbeatAdmin",
    "JobAdmin",
    "ProfileAdmin",
    "TokenAdmin",
]

admin.site.site_header = admin.site.site_title = "Cronty"
admin.site.index_title = "Administration"
admin.site.enable_nav_sidebar = False
for model in [model for model in admin.site._registry if model.__module__.startswith("django_q.")]:
    admin.site.unregister(model)
