"""Default values of the app's settings.

Django settings of the same names override them, so a project that installs the app sets only what it changes.
"""

# Addresses
CRONTY_URL = "http://127.0.0.1:8000"
CRONTY_HOST = "127.0.0.1"
CRONTY_PORT = 8000
CRONTY_TRUSTED_PROXIES: list[str] = []
CRONTY_ADMIN_PASSWORD: str = ""
CRONTY_OAUTH = False
# Without one, only clients on this machine read /metrics.
CRONTY_METRICS_TOKEN: str = ""
# The function that `web` and `mcp_serve --http` serve an ASGI app with.
CRONTY_SERVER = "cronty_site.serving.server.serve"

# What tasks may reach
NTFY_URL = "https://ntfy.sh"
NTFY_TOKEN: str = ""
# Pinged every minute while a cluster claims.
CRONTY_HEARTBEAT_URL: str = ""
CRONTY_AGENT_COMMAND: list[str] = []
CRONTY_AGENT_USERS: list[str] = []
# The file that lists the commands that jobs may run; without one, there are none.
CRONTY_COMMANDS_FILE = ""
# The file that lists the runners that prompts may be given to.
CRONTY_RUNNERS_FILE = ""
# The file that lists services that staff may send messages to by Apprise.
CRONTY_APPRISE_FILE = ""
CRONTY_OUTBOUND_ALLOW: list[str] = []
CRONTY_WEBHOOK_HEADERS: list[str] = []
CRONTY_OUTBOUND_TIMEOUT = 10
CRONTY_OUTBOUND_BYTES = 65_536

# Limits
CRONTY_MAX_JSON_BYTES = 16_384
CRONTY_MAX_ACTIVE_JOBS = 1000
CRONTY_MAX_CREATES_PER_MINUTE = 60
# Planned by the schedules of one owner's active jobs; 0 means no limit.
CRONTY_MAX_RUNS_PER_MINUTE = 3000
CRONTY_MAX_TOKENS = 50
CRONTY_MAX_RUNS_BY_HAND_PER_MINUTE = 60
CRONTY_MAX_FAILURE_NOTICES_PER_HOUR = 60
CRONTY_AGENT_MIN_INTERVAL = 10
CRONTY_MCP_CALLS_PER_MINUTE = 600
CRONTY_MCP_BODY_BYTES = 262_144
CRONTY_PINGS_PER_MINUTE = 1000
CRONTY_TRIGGERS_PER_MINUTE = 60
CRONTY_MAX_CONNECTIONS = 500
CRONTY_CATCH_UP_HOURS = 24
CRONTY_CATCH_UP_RUNS = 100
CRONTY_HISTORY_DAYS = 90
CRONTY_HISTORY_PER_JOB = 1000
CRONTY_HISTORY_PER_PERSON = 200_000
CRONTY_EVENTS_PER_PERSON = 20_000
CRONTY_INBOX_HOURS = 24

# Clusters
CRONTY_WORKERS = 2
CRONTY_COMMANDS_AT_ONCE = 4
CRONTY_LEASE_SECONDS = 10
CRONTY_STOP_SECONDS = 20
# The options of PostgreSQL sessions, added to those of your DATABASES: detect a lost server or network within seconds
# instead of the kernel's minutes or hours.
DATABASE_OPTIONS = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 8000,
}
# Import this one into your settings: django-q2 reads it before the app is ready.
Q_CLUSTER = {
    "name": "cronty",
    "broker_class": "schedules.worker.q2.LedgerBroker",
    # One more than the plain functions that run at once, so that long ones never delay notifications.
    "workers": CRONTY_WORKERS + 1,
    "scheduler": False,
    "save_limit": -1,
    "ack_failures": True,
    "max_attempts": 1,
    "queue_limit": 10_000,
    # Never: a worker that is replaced would end its coroutines and commands, which may take hours.
    "recycle": 10**12,
    "timeout": 86_400,
    "retry": 90_000,
    "guard_cycle": 1,
    "log_level": "WARNING",
}
