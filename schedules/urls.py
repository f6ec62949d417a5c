"""Which page answers at which address."""

from django.contrib.auth import views as auth
from django.urls import path
from django.views.generic import RedirectView

from schedules import health

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index"), name="home"),
    path("login/", auth.LoginView.as_view(template_name="login.html"), name="login"),
    path("healthz", health.alive, name="alive"),
    path("readyz", health.ready, name="ready"),
    path("metrics", health.metrics, name="metrics"),
]
