"""Cronty's settings without the admin, with the bare user model."""

from cronty_site.settings import *  # noqa: F403
from cronty_site.settings import INSTALLED_APPS

INSTALLED_APPS = [*(app for app in INSTALLED_APPS if app != "django.contrib.admin"), "tests.bare_user"]
AUTH_USER_MODEL = "bare_user.Member"
ROOT_URLCONF = "tests.bare_user.urls"
STORAGES = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": ":memory:",
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }
}
