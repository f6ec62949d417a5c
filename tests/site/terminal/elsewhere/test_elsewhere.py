"""Operations and commands give the same documents, words and exit codes here and over the API."""

import inspect
import json
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from cronty_site.terminal.elsewhere.server import Reply, Server
from cronty_site.terminal.failures import Failure
from cronty_site.terminal.operations import OPERATIONS, Elsewhere, Here, Refusal, remote_server
from schedules import clock
from schedules.api.urls import api_document
from schedules.models import Event, Incident, Token
from schedules.services import Actor, issue_token
from tests.factories import ExecutionFactory, JobFactory
from tests.sink import Answer, Sink

REMOTE = {name: operation for name, operation in OPERATIONS.items() if operation.method}
# What differs each time, like the id of a new job, or only says who acts.
VOLATILE = {
    *("id", "number", "run", "job", "job_id", "text", "confirm", "secret", "url", "made_by", "ping_url"),
    *("token", "kind", "tools", "snoozed_by", "last_used_at", "expires_at"),
}
FILE = "jobs:\n  Report:\n    schedule: every day at 9:00\n    task: tests.ping\n"
CHECKS = json.dumps(
    {
        "checks": [
            {
                "name": "X",
                "slug": "x",
                "uuid": "11c1b1c9-4b1c-4b8e-9f1b-1d2c3b4a5f6e",
                "timeout": 60,
                "grace": 60,
            }
        ]
    }
)
CALENDAR = {"calendar": "office", "kind": "dates", "lines": ["12-24"]}
CHANNEL = {"channel": "phone", "kind": "ntfy", "values": {"topic": "backups"}}
# The arguments of each operation; `B` is the job, `1` its run, and `n` the incident.
SAMPLES: dict[str, dict[str, Any]] = {
    "list_jobs": {"order": "next", "query": "back", "limit": 10},
    "show_job": {"job": "Backup"},
    "create_job": {"schedule": "every day at 9:00", "task": "tests.ping", "timeout": "2m", "paused": True},
    "change_job": {"job": "Backup", "schedule": "every day at 8:00", "tags": ["home"], "attempts": 2},
    "delete_job": {"job": "Backup"},
    "pause_job": {"job": "Backup", "until": "2030-01-01", "reason": "holidays"},
    "resume_job": {"job": "Backup"},
    "confirm_job": {"job": "Backup"},
    "cancel_job": {"job": "Backup"},
    "restore_job": {"job": "Backup"},
    "skip_runs": {"job": "Backup", "dates": ["2030-12-24"]},
    "answer_reminder": {"job": "Backup", "answer": "done"},
    "run_job": {"job": "Backup"},
    "open_trigger": {"job": "Backup"},
    "close_trigger": {"job": "Backup"},
    "explain_run": {"job": "Backup", "at": "yesterday at 9:00"},
    "list_upcoming": {"hours": 2.5, "limit": 3},
    "preview_schedule": {"schedule": "every day at 9:00", "count": 2, "spread": "20m"},
    "pause_all": {"until": "2030-01-01"},
    "list_runs": {"job": "Backup", "limit": 5, "order": "written"},
    "show_run": {"run": "RUN"},
    "show_output": {"run": "RUN", "position": 0, "attempt": 0},
    "apply_file": {"source": "a.yaml", "files": [{"name": "a.yaml", "text": FILE}], "prune": True},
    "import_checks": {"text": CHECKS},
    "export_jobs": {"job": ["Backup"]},
    "show_document": {"job": "Backup"},
    "change_by_document": {"job": "Backup", "text": FILE, "name": "a.yaml"},
    "change_preferences": {"timezone": "Berlin", "alert_every": "1d"},
    "set_calendar": CALENDAR,
    "preview_calendar": CALENDAR,
    "delete_calendar": {"calendar": "office"},
    "set_channel": CHANNEL,
    "test_channel": {"channel": "phone"},
    "confirm_channel": {"channel": "phone", "code": "x"},
    "rename_channel": {"channel": "phone", "name": "mobile"},
    "delete_channel": {"channel": "phone"},
    "switch_channel_on": {"channel": "phone"},
    "switch_channel_off": {"channel": "phone"},
    "rotate_channel_secret": {"channel": "phone"},
    "list_channel_deliveries": {"channel": "phone"},
    "send_event_again": {"channel": "phone", "delivery": 1},
    "set_secret": {"secret": "KEY", "value": "hunter2", "hosts": ["api.example.org"]},
    "move_secret_expiry": {"secret": "KEY", "expires_at": "never"},
    "delete_secret": {"secret": "KEY"},
    "create_token": {"name": "new", "scopes": ["read"], "kind": "program", "expires_in_days": 3.0},
    "revoke_token": {"token": 999_999},
    "list_incidents": {"limit": 5},
    "show_incident": {"incident": "INCIDENT"},
    "snooze_incident": {"incident": "INCIDENT", "until": "2030-01-01"},
    "begin_check": {"runner": "nobody"},
    "show_check": {"run": 999_999},
    "show_approval": {"approval": 999_999},
    "answer_approval": {"approval": 999_999, "answer": "once", "digest": "x"},
}


@pytest.fixture
def token(owner) -> Any:
    return issue_token(
        owner, name="laptop", kind=Token.Kind.PROGRAM, scopes=["read", "write"], expires_in=timedelta(days=9)
    ).value


@pytest.fixture
def over_http(client: Client, monkeypatch):
    """Let requests to servers reach the application under test."""

    def ask(server: Server, method, path, body=b"", headers=None, timeout=0.0) -> Reply:
        response = client.generic(
            method,
            path,
            body,
            content_type="application/json",
            headers={**(headers or {}), "Authorization": f"Bearer {server.token}"},
        )
        return Reply(response.status_code, dict(response.headers), response.content)

    monkeypatch.setattr(Server, "ask", ask)
    # The log of the server may have another stream than this test.
    monkeypatch.setattr("logging.raiseExceptions", False)


@pytest.fixture
def rows(owner) -> dict[str, int]:
    now = clock.now()
    job = JobFactory(owner=owner, name="Backup", task="tests.ping")
    run = ExecutionFactory(job=job, owner=owner, status="failed", error="disk full", finished_at=now)
    incident = Incident.objects.create(
        owner=owner, job=job, kind="failing", subject="job", name="Backup", opened_at=now, due_at=now
    )
    return {"RUN": run.pk, "INCIDENT": incident.pk}


def answer_of(place: Here | Elsewhere, name: str, values: dict[str, Any]) -> Any:
    """Return what an operation answers or refuses, and undo it."""
    answer: Any
    with transaction.atomic():
        try:
            answer = stable(place.call(name, values))
        except Refusal as refusal:
            answer = (refusal.format_message(), refusal.exit_code, refusal.code, refusal.errors)
        transaction.set_rollback(True)
    return answer


def stable(document: Any) -> Any:
    if isinstance(document, list):
        return [stable(each) for each in document]
    if isinstance(document, dict):
        return {name: stable(value) for name, value in document.items() if name not in VOLATILE}
    # Elsewhere, the token acts for its owner.
    return document.replace("laptop", "olga") if isinstance(document, str) else document


@pytest.mark.parametrize("name", REMOTE)
def test_operation_answers_and_refuses_the_same_here_and_elsewhere(
    owner, token, over_http, rows, name, time_machine
):
    time_machine.move_to(clock.now(), tick=False)
    here = Here(Actor(owner, Event.Door.TERMINAL))
    elsewhere = Elsewhere(Server("https://cronty.example", token.text))
    values = {
        key: rows.get(value, value) if isinstance(value, str) else value
        for key, value in SAMPLES.get(name, {}).items()
    }
    missing = {
        key: 0 if isinstance(value, int) else "nothing"
        for key, value in values.items()
        if f"{{{key}}}" in REMOTE[name].path
    }

    for arguments in [values, values | missing]:
        first = answer_of(here, name, arguments)
        assert answer_of(elsewhere, name, arguments) == first
        assert first is not None


def test_arguments_of_operations_are_fields_of_the_api():
    document = json.loads(api_document())
    own = {"actor", "options", "own", "revision"}
    for name, operation in REMOTE.items():
        routes = {path.removeprefix("/api/v1"): methods for path, methods in document["paths"].items()}
        route = routes[operation.path][operation.method.lower()]
        function = getattr(import_module(f"schedules.services.{operation.module}"), name)
        parameters = inspect.signature(function).parameters.values()
        named = {each.name for each in parameters if each.kind != inspect.Parameter.VAR_KEYWORD} - own
        fields = {each["name"] for each in route.get("parameters", ()) if each["in"] in ("path", "query")}
        if body := route.get("requestBody"):
            schema = body["content"]["application/json"]["schema"]
            schema = next((each for each in schema.get("anyOf", [schema]) if "$ref" in each), schema)
            fields |= set(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]["properties"])

        assert named <= fields | {"of_installation"}, name


COMMANDS = [
    ["jobs"],
    ["show", "Backup"],
    ["show", "Bakup", "--json"],
    ["why", "Backup", "blue moon"],
    ["next", "--limit", "2"],
    ["add", "every blue moon", "tests.ping"],
    ["add", "every day at 9:00", "tests.pong"],
    ["pause", "Backup", "Nothing", "--until", "2030-01-01"],
    ["logs", "Backup"],
    ["logs", "--run", "999999"],
    ["edit", "Backup", "--timeout", "soon"],
    ["export"],
    ["secret", "KEY", "--delete"],
    ["calendars", "office", "--delete"],
    ["alerts"],
    ["runner"],
    ["token", "revoke", "nobody"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_command_prints_the_same_here_and_elsewhere(
    cronty, token, over_http, rows, monkeypatch, words, time_machine
):
    time_machine.move_to(clock.now(), tick=False)
    ended = []
    for address in ("", "https://cronty.example"):
        monkeypatch.setenv("CRONTY_URL", address)
        monkeypatch.setenv("CRONTY_TOKEN", token.text)
        with transaction.atomic():
            ended.append(cronty(*words))
            transaction.set_rollback(True)

    assert ended[0] == ended[1]


def test_file_is_applied_edited_and_exported_elsewhere(
    cronty, token, over_http, monkeypatch, tmp_path, owner
):
    monkeypatch.setenv("CRONTY_URL", "https://cronty.example")
    monkeypatch.setenv("CRONTY_TOKEN", token.text)
    (tmp_path / "jobs.yaml").write_text(FILE)

    assert cronty("apply", str(tmp_path / "jobs.yaml"), "--yes").out.endswith("Applied.\n")
    exported = cronty("export", "--json").json
    (tmp_path / "one.yaml").write_text(exported["text"].replace("0 9 ", "0 8 "))
    edited = cronty("edit", "Report", "--file", str(tmp_path / "one.yaml"), "--json")

    assert (exported["jobs"], edited.code) == (1, 0)
    assert "08:00" in edited.json["schedule"]
    changes = Event.objects.exclude(job=None)
    assert set(changes.values_list("door", flat=True)) == {"api"}


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (Answer(status=503), 5, "503"),
        (Answer(manner="reset"), 5, "is not reached"),
        (Answer(body=b"<html>"), 5, "does not answer like Cronty"),
        (
            Answer(
                status=403,
                body=b'{"code": "scope_missing", "detail": "This call needs a token."}',
                headers={"Content-Type": "application/problem+json"},
            ),
            1,
            "This call needs a token.",
        ),
    ],
)
def test_server_that_cannot_is_a_failure_of_its_own(answer, code, words):
    with Sink() as sink:
        sink.default = answer

        with pytest.raises(Failure, match=words) as failure:
            Elsewhere(Server(sink.url(""), "t")).call("list_jobs", {})

    assert failure.value.exit_code == code


def test_local_command_and_user_are_refused_elsewhere(cronty, token, monkeypatch):
    monkeypatch.setenv("CRONTY_URL", "https://cronty.example")
    monkeypatch.setenv("CRONTY_TOKEN", token.text)

    assert "leave out --user" in cronty("jobs", "--user", "olga").err
    assert "on the machine of Cronty" in cronty("import", "crontab", "--check").err
    assert "on its own machine" in cronty("secret", "KEY", "--installation", "--delete").err


@pytest.mark.parametrize(
    ("variables", "is_remote"),
    [
        ({"CRONTY_URL": "https://a.example", "CRONTY_TOKEN": "t"}, True),
        ({"CRONTY_URL": "https://a.example"}, False),
        ({"CRONTY_TOKEN": "t"}, False),
        ({"CRONTY_URL": "https://a.example", "CRONTY_TOKEN": "t", "CRONTY_REMOTE": "off"}, False),
        ({}, False),
    ],
)
def test_terminal_is_remote_with_an_address_and_a_token(monkeypatch, variables, is_remote):
    for name in ("CRONTY_URL", "CRONTY_TOKEN", "CRONTY_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert (remote_server() is not None) == is_remote
