"""The settings of Cronty, read from environment variables."""

import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from csp.constants import NONE, SELF
from django.conf import global_settings

from cronty_site import environment
from schedules import defaults
from schedules.management.arguments import host_in_url


def _limit(name: str, minimum: int, maximum: int = 1_000_000_000) -> int:
    return environment.integer(name, getattr(defaults, name), minimum=minimum, maximum=maximum)


# Set before any process creates a file: nobody else may read the database, backups and logs.
os.umask(0o077)

BASE_DIR = Path(__file__).resolve().parent.parent
_is_checkout = environment.is_checkout(BASE_DIR)
_data = environment.data_folder(BASE_DIR)
environment.load_dotenv(
    (BASE_DIR if _is_checkout else Path(environment.text("CRONTY_DATA", str(_data)))) / ".env"
)
# The arguments of Python that run management commands, for child processes and agents' clients.
CRONTY_MANAGE = [str(BASE_DIR / "manage.py")] if _is_checkout else ["-m", "cronty_site"]
CRONTY_ZONE_DATA = environment.zone_data("CRONTY_ZONE_DATA")

# Addresses and data
CRONTY_DATA = environment.folder("CRONTY_DATA", _data)
CRONTY_SERVER = defaults.CRONTY_SERVER
CRONTY_HOST = environment.host("CRONTY_HOST", defaults.CRONTY_HOST)
CRONTY_PORT = environment.integer("CRONTY_PORT", defaults.CRONTY_PORT, minimum=1, maximum=65_535)
CRONTY_URL = environment.site_address(
    "CRONTY_URL",
    environment.address_of_server(CRONTY_DATA, f"http://{host_in_url(CRONTY_HOST)}:{CRONTY_PORT}"),
)
CRONTY_TRUSTED_PROXIES = environment.networks("CRONTY_TRUSTED_PROXIES")
CRONTY_ADMIN_PASSWORD = environment.secret("CRONTY_ADMIN_PASSWORD")

DEBUG = environment.boolean("CRONTY_DEBUG", False)
SECRET_KEY = environment.secret_key("CRONTY_SECRET_KEY") or environment.generated_secret(
    "CRONTY_DATA", CRONTY_DATA / "secret_key"
)
SECRET_KEY_FALLBACKS = environment.secret("CRONTY_SECRET_KEY_FALLBACKS").split()

_public = urlsplit(CRONTY_URL)
ALLOWED_HOSTS = sorted(
    {host_in_url(host) for host in (str(_public.hostname), CRONTY_HOST, "127.0.0.1", "localhost", "::1")}
)
CSRF_FAILURE_VIEW = "schedules.web.middleware.refuse_token"
CSRF_TRUSTED_ORIGINS = [f"{_public.scheme}://{_public.netloc}"]

_https = _public.scheme == "https"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = _https
# Browsers remember HSTS, so the operator decides about it, and only for this host: subdomains and the preload list
# would affect other sites. W004, W005 and W021 ask for all three.
SECURE_HSTS_SECONDS = environment.integer("CRONTY_HSTS_SECONDS", 0, minimum=0, maximum=63_072_000)
SILENCED_SYSTEM_CHECKS = ["security.W004", "security.W005", "security.W021"]
SECURE_REDIRECT_EXEMPT = [r"^(healthz|readyz|metrics)$"]
SESSION_ENGINE = "schedules.models.sessions"
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
        "manifest-src": [SELF],
        "worker-src": [SELF],
    }
}

# Apps of the operator: installed packages, modules on PYTHONPATH, or folders in CRONTY_DATA/apps.
if (CRONTY_DATA / "apps").is_dir() and str(CRONTY_DATA / "apps") not in sys.path:
    sys.path.append(str(CRONTY_DATA / "apps"))
CRONTY_APPS = environment.apps("CRONTY_APPS")
# Passed on to the server that an agent's client starts, so that it finds the same apps.
CRONTY_APPS_VARIABLES = {
    name: environment.text(name)
    for name in ("CRONTY_APPS", "PYTHONPATH")
    if CRONTY_APPS and environment.text(name)
}
# Hosted assistants connect by OAuth, which needs an address that they can reach.
CRONTY_OAUTH = environment.boolean("CRONTY_OAUTH", _https)
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
    *(["oauth2_provider"] if CRONTY_OAUTH else []),
    *CRONTY_APPS,
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "cronty_site.static_files.StaticFiles",
    "django.middleware.gzip.GZipMiddleware",
    "csp.middleware.CSPMiddleware",
    "schedules.web.middleware.guard",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "schedules.web.middleware.LoginRequired",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
    "cronty_site.serving.threads.stay_in_thread",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates" if _is_checkout else BASE_DIR / "cronty_site/templates"],
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
FORM_RENDERER = "schedules.web.forms.PageRenderer"
ROOT_URLCONF = "cronty_site.urls"
ASGI_APPLICATION = "cronty_site.asgi.application"

# Database: one SQLite file by default, PostgreSQL by DATABASE_URL
DATABASES = {
    "default": environment.database(
        "DATABASE_URL",
        f"sqlite:///{CRONTY_DATA / 'cronty.sqlite3'}",
        conn_max_age=60,
        conn_health_checks=True,
        disable_server_side_cursors=environment.boolean("CRONTY_DATABASE_POOLED", False),
    )
}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["OPTIONS"] = {
        "timeout": 20,
        "transaction_mode": "IMMEDIATE",
        # FULL, because an acknowledged job must survive a power cut; with a write-ahead log, this is cheap enough.
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
    }
else:
    DATABASES["default"]["OPTIONS"] = defaults.DATABASE_OPTIONS | DATABASES["default"].get("OPTIONS", {})
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}

# Users and logins
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
# The last one is for OAuth clients only: new passwords are hashed by the first.
PASSWORD_HASHERS = [*global_settings.PASSWORD_HASHERS, "cronty_site.hashers.ClientSecretHasher"]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
# For a name from one address; `cronty_site.logins` has the limits per name and per address.
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"], "username", "ip_address"]
AXES_HANDLER = "cronty_site.logins.LoginLimits"
AXES_USERNAME_CALLABLE = "cronty_site.logins.name_of"
AXES_CLIENT_IP_CALLABLE = "cronty_site.logins.network_of"
# Attempts while locked are not stored: they neither extend the lock nor fill the database.
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_VERBOSE = False
AXES_LOCKOUT_TEMPLATE = "lockout.html"

# OAuth: authorization code with PKCE for clients that register themselves, as MCP asks for it.
OAUTH2_PROVIDER = {
    "SCOPES": {"read": "see your jobs and runs", "write": "create, change and run jobs"},
    "OIDC_ISS_ENDPOINT": CRONTY_URL,
    "OAUTH2_VALIDATOR_CLASS": "schedules.web.oauth.ClientRules",
    "CLIENT_SECRET_HASHER": "client_secret_sha256",  # nosec B105  (the name of a hasher)
    "ALLOWED_REDIRECT_URI_SCHEMES": ["https", "http", "cursor"],
    "ALLOW_LOCALHOST_LOOPBACK": True,
    "ACCESS_TOKEN_EXPIRE_SECONDS": 60 * 60,
    "REFRESH_TOKEN_EXPIRE_SECONDS": 90 * 86_400,
    "REFRESH_TOKEN_REUSE_PROTECTION": True,  # nosec B105  # a switch
    "DCR_ENABLED": True,
    "DCR_REGISTRATION_PERMISSION_CLASSES": ["oauth2_provider.dcr.AllowAllDCRPermission"],
    "CIMD_ENABLED": True,
    # Anybody can make the server fetch documents, and each fetch occupies a page.
    "CIMD_MAX_CONCURRENT_FETCHES": 2,
    "CIMD_METADATA_FETCHER": "schedules.web.oauth_clients.DocumentFetcher",
    "CIMD_REGISTRATION_PERMISSION_CLASSES": ["schedules.web.oauth_clients.DocumentPermission"],
    "OAUTH2_RESPONSE_TYPES_SUPPORTED": ["code"],
    "OAUTH2_GRANT_TYPES_SUPPORTED": ["authorization_code", "refresh_token"],
    "OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED": ["none", "client_secret_post", "client_secret_basic"],
    "OAUTH2_PROTECTED_RESOURCE_IDENTIFIER": f"{CRONTY_URL}/mcp",
    "OAUTH2_PROTECTED_RESOURCE_AUTHORIZATION_SERVERS": [CRONTY_URL],
    "OAUTH2_PROTECTED_RESOURCE_NAME": "Cronty",
    **{
        f"COMPLIANT_BCP_RFC9700_{rule}": True
        for rule in (
            "IMPLICIT_GRANT",
            "PASSWORD_GRANT",
            "PKCE_METHOD",
            "PKCE_REQUIRED",
            "ACCESS_TOKEN_TRANSPORT",
            "AUTHZ_RESPONSE_ISS",
            "TOKEN_STORAGE",
            "REFRESH_TOKEN",
            "REDIRECT_URI_MATCHING",
        )
    },
}
# Redirects over http go to programs on the person's own machine; `ClientRules` refuses all others.
SILENCED_SYSTEM_CHECKS += ["oauth2_provider.W008"]

# Language and time
LANGUAGE_CODE = "en-gb"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"
CRONTY_TIME_ZONE = environment.time_zone("CRONTY_TIME_ZONE", "UTC")

STATIC_URL = "/static/"
STATIC_ROOT = CRONTY_DATA / "static"
STORAGES = {"staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"}}
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000_000

# Password reset needs a mail server; without one, its pages do not exist.
globals().update(environment.email_settings("EMAIL_URL", sender=f"cronty@{_public.hostname}"))
CRONTY_PASSWORD_RESET = bool(environment.secret("EMAIL_URL"))

# What tasks may reach
NTFY_URL = environment.web_address("NTFY_URL", defaults.NTFY_URL)
NTFY_TOKEN = environment.secret("NTFY_TOKEN")
CRONTY_METRICS_TOKEN = environment.secret("CRONTY_METRICS_TOKEN")
CRONTY_HEARTBEAT_URL = environment.secret_address("CRONTY_HEARTBEAT_URL")
CRONTY_AGENT_COMMAND = environment.command("CRONTY_AGENT_COMMAND")
CRONTY_AGENT_USERS = environment.users("CRONTY_AGENT_USERS")
CRONTY_RUNNERS_FILE = environment.file("CRONTY_RUNNERS_FILE", CRONTY_DATA / "runners.toml")
CRONTY_COMMANDS_FILE = environment.file("CRONTY_COMMANDS_FILE", CRONTY_DATA / "commands.toml")
CRONTY_APPRISE_FILE = environment.file("CRONTY_APPRISE_FILE", CRONTY_DATA / "apprise.toml")
CRONTY_OUTBOUND_ALLOW = environment.destinations("CRONTY_OUTBOUND_ALLOW")
CRONTY_WEBHOOK_HEADERS = environment.header_names("CRONTY_WEBHOOK_HEADERS")
CRONTY_OUTBOUND_TIMEOUT = _limit("CRONTY_OUTBOUND_TIMEOUT", 1, 3_600)
CRONTY_OUTBOUND_BYTES = _limit("CRONTY_OUTBOUND_BYTES", 1024)

# Limits
CRONTY_MAX_JSON_BYTES = _limit("CRONTY_MAX_JSON_BYTES", 256)
CRONTY_MAX_ACTIVE_JOBS = _limit("CRONTY_MAX_ACTIVE_JOBS", 1)
CRONTY_MAX_CREATES_PER_MINUTE = _limit("CRONTY_MAX_CREATES_PER_MINUTE", 1)
CRONTY_MAX_RUNS_PER_MINUTE = _limit("CRONTY_MAX_RUNS_PER_MINUTE", 0)
CRONTY_MAX_TOKENS = _limit("CRONTY_MAX_TOKENS", 1)
CRONTY_MAX_RUNS_BY_HAND_PER_MINUTE = _limit("CRONTY_MAX_RUNS_BY_HAND_PER_MINUTE", 1)
CRONTY_MAX_FAILURE_NOTICES_PER_HOUR = _limit("CRONTY_MAX_FAILURE_NOTICES_PER_HOUR", 1)
CRONTY_AGENT_MIN_INTERVAL = _limit("CRONTY_AGENT_MIN_INTERVAL", 1)
CRONTY_MCP_CALLS_PER_MINUTE = _limit("CRONTY_MCP_CALLS_PER_MINUTE", 1)
CRONTY_MCP_BODY_BYTES = _limit("CRONTY_MCP_BODY_BYTES", 1024)
CRONTY_PINGS_PER_MINUTE = _limit("CRONTY_PINGS_PER_MINUTE", 0)
CRONTY_TRIGGERS_PER_MINUTE = _limit("CRONTY_TRIGGERS_PER_MINUTE", 0)
CRONTY_MAX_CONNECTIONS = _limit("CRONTY_MAX_CONNECTIONS", 64, 100_000)
CRONTY_CATCH_UP_HOURS = _limit("CRONTY_CATCH_UP_HOURS", 1, 87_600)
CRONTY_CATCH_UP_RUNS = _limit("CRONTY_CATCH_UP_RUNS", 1, 100_000)
CRONTY_HISTORY_DAYS = _limit("CRONTY_HISTORY_DAYS", 1, 36_500)
CRONTY_HISTORY_PER_JOB = _limit("CRONTY_HISTORY_PER_JOB", 30)
CRONTY_HISTORY_PER_PERSON = _limit("CRONTY_HISTORY_PER_PERSON", 1000)
CRONTY_EVENTS_PER_PERSON = _limit("CRONTY_EVENTS_PER_PERSON", 100)
CRONTY_INBOX_HOURS = _limit("CRONTY_INBOX_HOURS", 1, 87_600)

# Clusters
CRONTY_WORKERS = _limit("CRONTY_WORKERS", 1, 256)
CRONTY_COMMANDS_AT_ONCE = _limit("CRONTY_COMMANDS_AT_ONCE", 1, 256)
CRONTY_LEASE_SECONDS = _limit("CRONTY_LEASE_SECONDS", 3, 3_600)
CRONTY_STOP_SECONDS = _limit("CRONTY_STOP_SECONDS", 1, 86_400)
Q_CLUSTER: dict[str, Any] = {**defaults.Q_CLUSTER, "workers": CRONTY_WORKERS + 1}

CRONTY_LOG_LEVEL = environment.choice(
    "CRONTY_LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
)
CRONTY_LOG_FORMAT = environment.choice("CRONTY_LOG_FORMAT", "TEXT", ("TEXT", "JSON"))
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "repeats": {"()": "cronty_site.logs.RepeatFilter"},
        "wrong_host": {"()": "cronty_site.logs.WrongHostFilter"},
    },
    "formatters": {
        "text": {
            "class": "cronty_site.logs.LineFormatter",
            "format": "%(asctime)s %(levelname)s %(name)s: %(message)s",
        },
        "json": {"class": "cronty_site.logs.JsonFormatter"},
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": CRONTY_LOG_FORMAT.lower(),
            "filters": ["repeats"],
        },
    },
    "root": {"handlers": ["stderr"], "level": CRONTY_LOG_LEVEL},
    "loggers": {
        # Its lines contain names as typed, even line breaks; `cronty_site.logins` logs instead.
        "axes": {"level": "ERROR"},
        # Without Django's own handlers, which write addresses with their keys.
        "django": {"level": "INFO"},
        "django.server": {"level": "INFO", "propagate": True},
        "django.security.DisallowedHost": {"filters": ["wrong_host"]},
        "mcp": {"level": "WARNING"},
        "uvicorn": {"level": "WARNING"},
        "django-q": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
    },
}
# For a warning about misspelled names; last, after every variable was read.
CRONTY_UNKNOWN_VARIABLES = environment.unknown_variables()
