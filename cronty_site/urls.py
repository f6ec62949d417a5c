"""The addresses of the site: the pages, the admin, and accounts."""

from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.urls import include, path

from schedules.web.views import account

urlpatterns = [
    path("admin/", admin.site.urls),
    path("login/", account.LoginPage.as_view(), name="login"),
    path("logout/", LogoutView.as_view(next_page="login"), name="logout"),
    path("password/", account.PasswordPage.as_view(), name="password"),
    path("", include("schedules.urls")),
]
