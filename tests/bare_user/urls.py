"""URLs of the app's own pages only."""

from django.urls import include, path

urlpatterns = [path("", include("schedules.urls"))]
