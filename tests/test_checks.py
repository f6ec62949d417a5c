"""System checks, one test for each id."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.checks import CheckMessage
from django.db import connection
from pydantic import BaseModel

from schedules import checks
from schedules.tasks import registry

urlpatterns: list[object] = []


def ids_of(messages: list[CheckMessage]) -> list[str | None]:
    assert all(message.hint for message in messages)
    return [message.id for message in messages]


def test_site_passes_every_check():
    found = [
        *checks.check_broker(),
        *checks.check_database(),
        *checks.check_app_order(),
        *checks.check_time(),
        *checks.check_tasks(),
        *checks.check_outbound(),
        *checks.check_pages(),
    ]

    assert found == []


@pytest.mark.parametrize("cluster", [{}, {"orm": "default"}, {"broker_class": "shop.Broker"}])
def test_schedules_e001_another_broker(settings: LazySettings, cluster: dict[str, str]):
    settings.Q_CLUSTER = {**cluster, "workers": 3}

    assert ids_of(list(checks.check_broker())) == ["schedules.E001"]


@pytest.mark.parametrize("options", [{}, {"transaction_mode": None}, {"transaction_mode": "DEFERRED"}])
def test_schedules_e002_deferred_transactions_on_sqlite(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
):
    monkeypatch.setattr(connection, "vendor", "sqlite")
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", options)

    assert ids_of(list(checks.check_database())) == ["schedules.E002"]


@pytest.mark.parametrize(
    "apps", [["django_q", "schedules"], ["schedules"], ["django_q", "schedules.apps.SchedulesConfig"]]
)
def test_schedules_e003_another_qcluster_command(monkeypatch: pytest.MonkeyPatch, apps: list[str]):
    # Patch the reading side: changing the real setting would set up the apps again.
    monkeypatch.setattr(checks, "settings", type("Settings", (), {"INSTALLED_APPS": apps}))

    assert ids_of(list(checks.check_app_order())) == ["schedules.E003"]


def test_schedules_e004_unsupported_database(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connection, "vendor", "mysql")

    assert ids_of(list(checks.check_database())) == ["schedules.E004"]


def test_schedules_e005_naive_moments(settings: LazySettings):
    settings.USE_TZ = False

    assert ids_of(list(checks.check_time())) == ["schedules.E005"]


def test_schedules_e006_templates_of_apps_are_not_found(settings: LazySettings):
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "APP_DIRS": False}]

    assert ids_of(list(checks.check_pages())) == ["schedules.E006"]


@pytest.mark.parametrize("missing", checks.PROCESSORS)
def test_schedules_e007_missing_context_processor(settings: LazySettings, missing: str):
    kept = [name for name in checks.PROCESSORS if name != missing]
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "OPTIONS": {"context_processors": kept}}]

    found = list(checks.check_pages())

    assert ids_of(found) == ["schedules.E007"]
    assert missing in found[0].msg


@pytest.mark.parametrize("missing", checks.MIDDLEWARE)
def test_schedules_e008_missing_middleware(settings: LazySettings, missing: str):
    settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if name != missing]

    found = list(checks.check_pages())

    assert ids_of(found) == ["schedules.E008"]
    assert missing in found[0].msg


def test_schedules_w001_timeout_of_django_q2(settings: LazySettings):
    settings.Q_CLUSTER = {**settings.Q_CLUSTER, "timeout": 60}

    assert ids_of(list(checks.check_broker())) == ["schedules.W001"]


def test_schedules_w002_pages_without_the_guard(settings: LazySettings):
    settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if name != checks.GUARD]

    assert ids_of(list(checks.check_pages())) == ["schedules.W002"]


@pytest.mark.parametrize("login", ["/accounts/login/", "no-such-name"])
def test_schedules_w003_login_page_is_missing(settings: LazySettings, login: str):
    settings.LOGIN_URL = login

    assert ids_of(list(checks.check_pages())) == ["schedules.W003"]


@pytest.mark.parametrize("workers", [1, 2])
def test_schedules_w004_too_few_workers(settings: LazySettings, workers: int):
    settings.CRONTY_WORKERS, settings.Q_CLUSTER = 2, {**settings.Q_CLUSTER, "workers": workers}

    assert ids_of(list(checks.check_broker())) == ["schedules.W004"]


def test_login_page_on_another_site_is_not_looked_up(settings: LazySettings):
    settings.LOGIN_URL = "https://login.example/"

    assert list(checks.check_pages()) == []


@pytest.mark.urls(__name__)
def test_project_without_the_pages_needs_none_of_their_settings(settings: LazySettings):
    settings.MIDDLEWARE = []

    assert list(checks.check_pages()) == []


def test_schedules_e009_destination_that_cannot_be_read(settings: LazySettings):
    settings.CRONTY_OUTBOUND_ALLOW = ["10.0.0.0/8", "10.0.0.5/8", "nas.local:port"]

    assert ids_of(list(checks.check_outbound())) == ["schedules.E009", "schedules.E009"]


def test_schedules_e010_header_that_no_webhook_may_set(settings: LazySettings):
    settings.CRONTY_WEBHOOK_HEADERS = ["X-Team", "Host"]

    assert ids_of(list(checks.check_outbound())) == ["schedules.E010"]


@pytest.mark.parametrize("token", ["tk_abc\n", " tk_abc", "tk_äbc"])
def test_schedules_e011_token_that_is_no_header(settings: LazySettings, token: str):
    settings.NTFY_TOKEN = token

    assert ids_of(list(checks.check_outbound())) == ["schedules.E011"]


class Unfinished(BaseModel):
    """A model that names a class that does not exist."""

    part: "Missing"  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize("kind", [Callable[[], int], Unfinished])
def test_schedules_e012_type_of_a_parameter_without_schema(monkeypatch: pytest.MonkeyPatch, kind: Any):
    monkeypatch.setattr(registry, "_tasks", {})

    @registry.task("tests.callback")
    def callback(count: int, then: kind | None = None) -> None:
        """Do nothing."""

    found = list(checks.check_tasks())

    assert ids_of(found) == ["schedules.E012"]
    assert "then of the task tests.callback" in found[0].msg


def test_schedules_w006_variable_that_nothing_reads(settings: LazySettings):
    settings.CRONTY_UNKNOWN_VARIABLES = {"CRONTY_WORKER": "CRONTY_WORKERS", "CRONTY_XYZZY": ""}

    found = list(checks.check_variables())

    assert ids_of(found) == ["schedules.W006", "schedules.W006"]
    assert [message.hint for message in found] == [
        "Did you mean CRONTY_WORKERS?",
        "Remove it, or see the list of settings.",
    ]
