"""The settings of processes that show no pages, which start faster with fewer apps.

An operator's own apps may need any other app, so with them nothing is left out.
"""

from cronty_site.settings import *  # noqa: F403  (all of them)
from cronty_site.settings import CRONTY_APPS, INSTALLED_APPS

# Django's own loggers would import the error pages; `set_up` configures ours alone.
LOGGING_CONFIG = None

if not CRONTY_APPS:
    INSTALLED_APPS = [
        "schedules",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
    ]
    # Their apps are missing.
    ROOT_URLCONF = ""
    # Nobody logs in here; permissions come from this backend alone, with and without pages.
    AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend"]
