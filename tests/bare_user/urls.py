"""The app's own pages alone."""

from django.urls import include, path

urlpatterns = [path("", include("schedules.urls"))]
