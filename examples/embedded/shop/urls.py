"""The URLs of the shop; Cronty's pages are below /cronty/."""

from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path
from orders import views

urlpatterns = [
    path("", views.orders, name="orders"),
    path("admin/", admin.site.urls),
    path("login/", LoginView.as_view(template_name="admin/login.html"), name="login"),
    path("logout/", LogoutView.as_view(next_page="login"), name="logout"),
    path("cronty/", include("schedules.urls")),
]
