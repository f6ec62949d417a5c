"""System checks: the setup that the app needs, each check with an id and a hint."""

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as CheckWarning
from django.db import connection, connections, models
from django.db.migrations.loader import MigrationLoader
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, Resolver404, resolve, reverse
from django.utils.module_loading import import_string

from schedules import defaults
from schedules.secrets import private_files
from schedules.tasks import parameters, registry
from schedules.tasks.outbound.destinations import parse_destination
from schedules.tasks.outbound.headers import setting_problem, shape_problem

MIDDLEWARE = (
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
)
GUARD = "schedules.web.middleware.guard"
PROCESSORS = (
    "django.template.context_processors.request",
    "django.contrib.messages.context_processors.messages",
)

MOVE_TO_THIS_BUILD = (
    "Nothing was changed. If a newer version made it, upgrade Cronty on this host. If a build from before 0.1.0 did, "
    "run `cronty export > jobs.yaml` with that build, let this one start with an empty database, and run `cronty apply jobs.yaml`."
)


def register_checks() -> None:
    for check in (
        check_broker,
        check_database,
        check_app_order,
        check_time,
        check_tasks,
        check_outbound,
        check_pages,
        check_variables,
    ):
        register(check)
    # `migrate` runs the checks of databases before it writes anything.
    register(check_schema, Tags.database)
    # A project that embeds the app has files of its own: tell it only when it asks about its deployment.
    register(check_files, deploy=not hasattr(settings, "CRONTY_DATA"))


def check_variables(**options: Any) -> Iterator[CheckMessage]:
    for name, similar in getattr(settings, "CRONTY_UNKNOWN_VARIABLES", {}).items():
        yield CheckWarning(
            f"{name} has no effect: there is no such variable.",
            hint=f"Did you mean {similar}?" if similar else "Remove it, or see the list of settings.",
            id="schedules.W006",
        )


def check_broker(**options: Any) -> Iterator[CheckMessage]:
    cluster = getattr(settings, "Q_CLUSTER", {})
    broker = defaults.Q_CLUSTER["broker_class"]
    if cluster.get("broker_class") != broker:
        yield Error(
            "django-q2 does not use Cronty's broker, so no job would ever run.",
            hint=f'Set Q_CLUSTER["broker_class"] = "{broker}", or import Q_CLUSTER from schedules.defaults.',
            id="schedules.E001",
        )
    workers = cluster.get("workers") or os.cpu_count() or 1
    if workers <= settings.CRONTY_WORKERS:
        yield CheckWarning(
            f"{settings.CRONTY_WORKERS} long tasks would keep all {workers} workers busy and delay the others.",
            hint='Set Q_CLUSTER["workers"] to CRONTY_WORKERS + 1 or more.',
            id="schedules.W004",
        )
    longest = int(str(defaults.Q_CLUSTER["timeout"]))
    if cluster.get("timeout") and cluster["timeout"] < longest:
        yield CheckWarning(
            f"django-q2 kills workers after {cluster['timeout']} seconds, whatever time limit their tasks have.",
            hint='Remove Q_CLUSTER["timeout"]: every task has a time limit of its own.',
            id="schedules.W001",
        )


def check_database(**options: Any) -> Iterator[CheckMessage]:
    database = connections["default"]
    if database.vendor not in ("sqlite", "postgresql"):
        yield Error(
            f"Cronty does not run on {database.display_name}.",
            hint="Use PostgreSQL, or SQLite on a single host, as the default database.",
            id="schedules.E004",
        )
    mode = database.settings_dict.get("OPTIONS", {}).get("transaction_mode") or ""
    if database.vendor == "sqlite" and mode.upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        yield Error(
            "Two processes that read and then write one SQLite file would fail with `database is locked`.",
            hint='Set DATABASES["default"]["OPTIONS"]["transaction_mode"] = "IMMEDIATE".',
            id="schedules.E002",
        )


def check_schema(*, databases: Iterable[str] | None = None, **options: Any) -> Iterator[CheckMessage]:
    if "default" in (databases or ()) and (problem := foreign_schema_problem()):
        yield Error(problem, hint=MOVE_TO_THIS_BUILD, id="schedules.E013")


def foreign_schema_problem() -> str:
    """Return what shows that another build made the tables, which no migration of this one changes, or an empty text."""
    loader = MigrationLoader(connection)
    applied = {key for key in loader.applied_migrations or () if key[0] == "schedules"}
    known = applied & loader.graph.nodes.keys()
    if unknown := applied - known:
        return f"The database has schedules.{max(unknown)[1]}, which this version of Cronty does not know."
    # Until the first release, the initial migration changes and keeps its name.
    state = loader.project_state(sorted(known)) if known else None
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        for model in state.models.values() if state else ():
            if model.app_label != "schedules":
                continue
            table = model.options.get("db_table") or f"schedules_{model.name_lower}"
            columns = connection.introspection.get_table_description(cursor, table) if table in tables else []
            if {column.name for column in columns} != _columns_of(model.fields):
                return f"The table {table} has other columns than this version of Cronty gives it."
    return ""


def _columns_of(fields: "Mapping[str, models.Field[Any, Any]]") -> set[str]:
    stored = {name: field for name, field in fields.items() if not field.many_to_many}
    return {
        field.db_column or (f"{name}_id" if isinstance(field, models.ForeignKey) else name)
        for name, field in stored.items()
    }


def check_app_order(**options: Any) -> Iterator[CheckMessage]:
    names = [name.removesuffix(".apps.SchedulesConfig") for name in settings.INSTALLED_APPS]
    if "django_q" not in names or names.index("django_q") < names.index("schedules"):
        yield Error(
            "`manage.py qcluster` would not be Cronty's command.",
            hint='List "schedules" before "django_q" in INSTALLED_APPS.',
            id="schedules.E003",
        )


def check_time(**options: Any) -> Iterator[CheckMessage]:
    if not settings.USE_TZ:
        yield Error(
            "Jobs need moments with a time zone.",
            hint="Set USE_TZ = True.",
            id="schedules.E005",
        )


def check_tasks(**options: Any) -> Iterator[CheckMessage]:
    for task in registry.all_tasks(include_system=True):
        if parameters.has_schema(task.adapter):
            continue
        for name in parameters.indescribable_parameters(task.signature):
            yield Error(
                f"The parameter {name} of the task {task.name} has a type that JSON cannot describe.",
                hint="Give it a type like str, int, list[str] or a pydantic model, or leave it out.",
                id="schedules.E012",
            )


def check_outbound(**options: Any) -> Iterator[CheckMessage]:
    for entry in settings.CRONTY_OUTBOUND_ALLOW:
        try:
            parse_destination(entry)
        except ValueError as error:
            yield Error(
                f"CRONTY_OUTBOUND_ALLOW: {error}",
                hint=f"Correct the entry {entry!r}, or remove it: it allows nothing.",
                id="schedules.E009",
            )
    for name in settings.CRONTY_WEBHOOK_HEADERS:
        if problem := setting_problem(name):
            yield Error(
                f"CRONTY_WEBHOOK_HEADERS: {problem}",
                hint=f"Correct the entry {name!r}, or remove it.",
                id="schedules.E010",
            )

    if shape_problem("authorization", settings.NTFY_TOKEN):
        yield Error(
            "NTFY_TOKEN must be one line of ASCII characters, without spaces around it.",
            hint="Copy the token from the ntfy server again, without a line break at its end.",
            id="schedules.E011",
        )


def check_files(**options: Any) -> Iterator[CheckMessage]:
    for path in private_files.open_to_others():
        yield CheckWarning(
            f"Other users of this machine have rights on {path}, which holds secrets.",
            hint=f"Take them away: chmod go= {shlex.quote(str(path))}",
            id="schedules.W005",
        )


def check_pages(**options: Any) -> Iterator[CheckMessage]:
    """Check the setup for the pages, if the project includes them."""
    try:
        reverse("schedules:jobs")
    except NoReverseMatch:
        return
    yield from _check_templates()
    yield from _check_middleware()
    yield from _check_login()


def _check_templates() -> Iterator[CheckMessage]:
    templates: Any = settings.TEMPLATES
    backend = "django.template.backends.django.DjangoTemplates"
    engines = [each | each.get("OPTIONS", {}) for each in templates if each["BACKEND"] == backend]
    if not any(engine.get("APP_DIRS") or engine.get("loaders") for engine in engines):
        yield Error(
            "No template engine looks into the apps, so the pages have no templates.",
            hint='Set "APP_DIRS": True in TEMPLATES.',
            id="schedules.E006",
        )
    for name in PROCESSORS:
        if not any(name in engine.get("context_processors", []) for engine in engines):
            yield Error(
                f"The pages need the context processor {name}.",
                hint='Add it to "context_processors" in the OPTIONS of TEMPLATES.',
                id="schedules.E007",
            )


def _check_middleware() -> Iterator[CheckMessage]:
    for name in MIDDLEWARE:
        if not _has_middleware(name, settings.MIDDLEWARE):
            yield Error(
                f"The pages need {name}.",
                hint="Add it to MIDDLEWARE.",
                id="schedules.E008",
            )
    if GUARD not in settings.MIDDLEWARE:
        yield CheckWarning(
            "Shared caches may store private pages, and a NUL in an address causes an error on PostgreSQL.",
            hint=f'Add "{GUARD}" to MIDDLEWARE, before SessionMiddleware.',
            id="schedules.W002",
        )


def _has_middleware(name: str, installed: Iterable[str]) -> bool:
    """Return whether a middleware or a subclass of it is installed."""
    base = import_string(name)
    classes = (import_string(path) for path in installed)
    return any(isinstance(each, type) and issubclass(each, base) for each in classes)


def _check_login() -> Iterator[CheckMessage]:
    try:
        address = resolve_url(settings.LOGIN_URL)
        if address.startswith("/"):
            resolve(address)
    except (NoReverseMatch, Resolver404):
        yield CheckWarning(
            f"The pages send people to LOGIN_URL ({settings.LOGIN_URL!r}), where this project has no page.",
            hint="Set LOGIN_URL to the name or the address of your login page.",
            id="schedules.W003",
        )
