"""Every setting of Cronty; the README lists the environment variables with their defaults."""

from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import dj_database_url
import django_stubs_ext
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from cronty_site import environment

django_stubs_ext.monkeypatch()

BASE_DIR = Path(__file__).resolve().parent.parent
environment.load_dotenv(BASE_DIR / ".env")

# Where it lives
CRONTY_DATA = Path(environment.text("CRONTY_DATA", str(BASE_DIR / "data"))).resolve()
CRONTY_HOST = environment.text("CRONTY_HOST", "127.0.0.1")
CRONTY_PORT = environment.integer("CRONTY_PORT", 8000, minimum=1)
CRONTY_URL = environment.web_address(
    "CRONTY_URL", f"http://{environment.host_in_address(CRONTY_HOST)}:{CRONTY_PORT}"
)
CRONTY_ADMIN_PASSWORD = environment.secret("CRONTY_ADMIN_PASSWORD")

DEBUG = environment.boolean("CRONTY_DEBUG", False)
SECRET_KEY = environment.secret("CRONTY_SECRET_KEY") or environment.generated_secret(
    CRONTY_DATA / "secret_key"
)

_public = urlsplit(CRONTY_URL)
ALLOWED_HOSTS = sorted(
    {
        environment.host_in_address(host)
        for host in (str(_public.hostname), CRONTY_HOST, "127.0.0.1", "localhost", "::1")
    }
)
CSRF_TRUSTED_ORIGINS = [f"{_public.scheme}://{_public.netloc}"]

_https = _public.scheme == "https"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = _https
SECURE_HSTS_SECONDS = 31_536_000 if _https else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = _https
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if _https else None
SECURE_REDIRECT_EXEMPT = [r"^(healthz|readyz|metrics)$"]
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "object-src": [NONE],
    }
}

INSTALLED_APPS = [
    # First, so that our qcluster command is the one that runs.
    "schedules",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_q",
    "django_htmx",
    "axes",
    "csp",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "csp.middleware.CSPMiddleware",
    "schedules.web.middleware.guard",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
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
ROOT_URLCONF = "cronty_site.urls"
ASGI_APPLICATION = "cronty_site.asgi.application"

# The store: one SQLite file by default, PostgreSQL by DATABASE_URL
DATABASES = {
    "default": dj_database_url.parse(
        environment.secret("DATABASE_URL", f"sqlite:///{CRONTY_DATA / 'cronty.sqlite3'}"),
        conn_max_age=60,
        conn_health_checks=True,
        disable_server_side_cursors=environment.boolean("CRONTY_DATABASE_POOLED", False),
    )
}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["OPTIONS"] = {
        "timeout": 20,
        "transaction_mode": "IMMEDIATE",
        # FULL: an acknowledged job must survive a power cut; with a write-ahead log that is still cheap.
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
    }
else:
    # A database that went away must be noticed in seconds, not by the kernel's two hours.
    DATABASES["default"]["OPTIONS"] = {
        "connect_timeout": 5,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 2,
        **DATABASES["default"].get("OPTIONS", {}),
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}

# People
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_VERBOSE = False
AXES_LOCKOUT_TEMPLATE = "lockout.html"

# Words and times
LANGUAGE_CODE = "en-gb"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"
CRONTY_TIME_ZONE = environment.text("CRONTY_TIME_ZONE", "UTC")
try:
    ZoneInfo(CRONTY_TIME_ZONE)
except (KeyError, ValueError, OSError) as error:
    raise ImproperlyConfigured(
        f"CRONTY_TIME_ZONE: {CRONTY_TIME_ZONE!r} is no zone like Europe/Berlin."
    ) from error

STATIC_URL = "/static/"
STATIC_ROOT = CRONTY_DATA / "static"
STORAGES = {"staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"}}
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000_000

globals().update(environment.email_settings("EMAIL_URL"))

# What the tasks may reach
NTFY_URL = environment.web_address("NTFY_URL", "https://ntfy.sh")
NTFY_TOKEN = environment.secret("NTFY_TOKEN")
CRONTY_AGENT_COMMAND = environment.command("CRONTY_AGENT_COMMAND")
CRONTY_OUTBOUND_ALLOW = environment.words("CRONTY_OUTBOUND_ALLOW")
CRONTY_OUTBOUND_TIMEOUT = environment.integer("CRONTY_OUTBOUND_TIMEOUT", 10, minimum=1)
CRONTY_OUTBOUND_BYTES = environment.integer("CRONTY_OUTBOUND_BYTES", 65_536, minimum=1024)

# How much is too much
CRONTY_MAX_JSON_BYTES = environment.integer("CRONTY_MAX_JSON_BYTES", 16_384, minimum=256)
CRONTY_MAX_ACTIVE_JOBS = environment.integer("CRONTY_MAX_ACTIVE_JOBS", 1000, minimum=1)
CRONTY_MAX_CREATES_PER_MINUTE = environment.integer("CRONTY_MAX_CREATES_PER_MINUTE", 60, minimum=1)
CRONTY_AGENT_MIN_INTERVAL = environment.integer("CRONTY_AGENT_MIN_INTERVAL", 10, minimum=1)
CRONTY_MCP_CALLS_PER_MINUTE = environment.integer("CRONTY_MCP_CALLS_PER_MINUTE", 600, minimum=1)
CRONTY_MCP_BODY_BYTES = environment.integer("CRONTY_MCP_BODY_BYTES", 262_144, minimum=1024)
CRONTY_CATCH_UP_HOURS = environment.integer("CRONTY_CATCH_UP_HOURS", 24, minimum=1)
CRONTY_CATCH_UP_RUNS = environment.integer("CRONTY_CATCH_UP_RUNS", 100, minimum=1)
CRONTY_HISTORY_DAYS = environment.integer("CRONTY_HISTORY_DAYS", 90, minimum=1)
CRONTY_HISTORY_PER_JOB = environment.integer("CRONTY_HISTORY_PER_JOB", 1000, minimum=30)
CRONTY_EVENTS_PER_PERSON = environment.integer("CRONTY_EVENTS_PER_PERSON", 20_000, minimum=100)
CRONTY_INBOX_HOURS = environment.integer("CRONTY_INBOX_HOURS", 24, minimum=1)

# The engine: django-q2 is the muscle, our tables are the truth
CRONTY_WORKERS = environment.integer("CRONTY_WORKERS", 2, minimum=1)
CRONTY_LEASE_SECONDS = environment.integer("CRONTY_LEASE_SECONDS", 10, minimum=3)
CRONTY_STOP_SECONDS = environment.integer("CRONTY_STOP_SECONDS", 20, minimum=1)
Q_CLUSTER = {
    "name": "cronty",
    "broker_class": "schedules.worker.broker.LedgerBroker",
    # One more than may run plain functions: long ones must never keep notifications waiting.
    "workers": CRONTY_WORKERS + 1,
    "scheduler": False,
    "save_limit": -1,
    "ack_failures": True,
    "max_attempts": 1,
    "queue_limit": 10_000,
    "recycle": 100_000,
    "timeout": 86_400,
    "retry": 90_000,
    "guard_cycle": 1,
    "log_level": "WARNING",
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": environment.text("CRONTY_LOG_LEVEL", "INFO").upper()},
    "loggers": {
        "axes": {"level": "WARNING"},
        "mcp": {"level": "WARNING"},
        "uvicorn": {"level": "WARNING"},
        "django-q": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
    },
}
