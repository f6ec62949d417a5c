"""The admin site for operators."""

from django.contrib import admin

import schedules.admin.generic_classes  # noqa: F401  (changes Django's classes)
from schedules.admin.jobs import JobAdmin
from schedules.admin.ledger import ClusterAdmin, EventAdmin, ExecutionAdmin
from schedules.admin.people import ProfileAdmin, TokenAdmin
from schedules.worker import q2

__all__ = ["ClusterAdmin", "EventAdmin", "ExecutionAdmin", "JobAdmin", "ProfileAdmin", "TokenAdmin"]

admin.site.site_header = admin.site.site_title = "Cronty"
admin.site.index_title = "Administration"
admin.site.enable_nav_sidebar = False
q2.hide_from_admin(admin.site)
