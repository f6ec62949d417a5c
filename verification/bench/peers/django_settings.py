"""Settings of the peers that are Django applications."""

import os
from pathlib import Path
from urllib.parse import urlsplit

from verification.bench import recorder
from verification.bench.peers.system import POLL_SECONDS, WORKERS, synchronous

SECRET_KEY = "bench"
USE_TZ = True
TIME_ZONE = "UTC"
INSTALLED_APPS = ["django_tasks", "django_tasks_db", "django_q"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}
Q_CLUSTER = {
    "name": "bench",
    "orm": "default",
    "workers": WORKERS,
    "poll": POLL_SECONDS,
    "timeout": 60,
    "retry": 90,
    "save_limit": -1,
    "log_level": "ERROR",
}

if url := os.environ.get("DATABASE_URL"):
    parts = urlsplit(url)
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.path.lstrip("/"),
            "USER": parts.username,
            "PASSWORD": parts.password,
            "HOST": parts.hostname,
            "PORT": parts.port,
            "CONN_MAX_AGE": None,
        }
    }
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": Path(os.environ.get(recorder.FOLDER, ".")) / "peer.sqlite3",
            "CONN_MAX_AGE": None,
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": f"PRAGMA journal_mode=WAL; PRAGMA synchronous={synchronous()};",
            },
        }
    }
