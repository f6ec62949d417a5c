"""The URLs of the site: the app's pages, the admin, and accounts."""

from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.urls import include, path

from cronty_site import accounts

urlpatterns = [
    path("admin/", admin.site.urls),
    path("login/", accounts.LoginPage.as_view(), name="login"),
    path("logout/", LogoutView.as_view(next_page="login"), name="logout"),
    path("password/", accounts.PasswordPage.as_view(), name="password_change"),
    path("", include("schedules.urls")),
]
