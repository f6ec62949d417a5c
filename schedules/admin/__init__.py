"""The admin site for operators."""

# Imported so that its models are registered and can be unregistered below: they do not show how Cronty works, and their
# admin unpickles stored rows. Not through worker/q2.py, which would load the pages before django-q2 itself is loaded.
import django_q.admin  # noqa: F401  (registers its models)
from django.contrib import admin

import schedules.admin.generic_classes  # noqa: F401  (changes Django's classes)
from schedules.admin.jobs import JobAdmin
from schedules.admin.ledger import ClusterAdmin, EventAdmin, ExecutionAdmin
from schedules.admin.people import CalendarAdmin, ProfileAdmin, TokenAdmin

__all__ = [
    "CalendarAdmin",
    "ClusterAdmin",
    "EventAdmin",
    "ExecutionAdmin",
    "JobAdmin",
    "ProfileAdmin",
    "TokenAdmin",
]

admin.site.site_header = admin.site.site_title = "Cronty"
admin.site.index_title = "Administration"
admin.site.enable_nav_sidebar = False
for model in [model for model in admin.site._registry if model.__module__.startswith("django_q.")]:
    admin.site.unregister(model)
