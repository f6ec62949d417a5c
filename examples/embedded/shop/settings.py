"""Settings of a shop that embeds Cronty; the lines about Cronty are marked."""

import os
from datetime import timedelta
from pathlib import Path

import dj_database_url

from schedules.defaults import Q_CLUSTER as CRONTY_CLUSTER

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = os.environ.get("SHOP_SECRET_KEY", "only-for-this-example")
DEBUG = True

INSTALLED_APPS = [
    "schedules",  # Cronty: before django_q
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_q",  # Cronty
    "orders",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "schedules.web.middleware.guard",  # Cronty
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
ROOT_URLCONF = "shop.urls"
ASGI_APPLICATION = "shop.asgi.application"
STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True

DATABASES = {
    "default": dj_database_url.parse(os.environ.get("DATABASE_URL", f"sqlite:///{BASE_DIR / 'shop.sqlite3'}"))
}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",  # Cronty
        "init_command": "PRAGMA journal_mode=WAL;",
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "orders.Customer"
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"

USE_TZ = True
TIME_ZONE = "Europe/Berlin"

Q_CLUSTER = {**CRONTY_CLUSTER, "name": "shop"}  # Cronty
CRONTY_URL = "http://127.0.0.1:8000"  # Cronty: the public address, for links

ORDER_REMINDER_AFTER = timedelta(seconds=float(os.environ.get("SHOP_REMINDER_SECONDS", 3 * 86_400)))
