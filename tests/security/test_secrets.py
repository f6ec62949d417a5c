"""Secrets stay out of logs, answers, forms, the admin and tables; the paths are the real ones."""

import asyncio
import logging
import os
import subprocess
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.test import Client

from schedules import clock, engine
from schedules.management.commands.backup import pg_dump_command
from schedules.models import Execution
from schedules.services import issue_token, schedule, verify_token
from schedules.services.permissions import Actor
from schedules.tasks import registry
from schedules.web.views import system
from schedules.worker import calls
from tests.clusters import PROJECT
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory
from tests.forks import python
from tests.security.addresses import every_address
from tests.security.owned_rows import OwnedRows
from tests.security.test_authorization import examples
from tests.security.test_authorization_of_tools import send, tool_call
from tests.sink import Answer, Sink

SECRET = "zqsecret-4f1c9a"
Visit = Callable[[str], Client]


@pytest.fixture
def log_output() -> Iterator[StringIO]:
    """The output of all loggers, at every level, with tracebacks."""
    log_output, root = StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(log_output), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    # Django's log of SQL statements contains every value; it is only for development.
    statements = logging.getLogger("django.db.backends")
    statements.setLevel(logging.INFO)
    yield log_output
    statements.setLevel(logging.NOTSET)
    root.removeHandler(handler)
    root.setLevel(level)


def stored() -> str:
    """Return every row of every table, as text."""
    return str(
        [list(model._default_manager.values()) for model in apps.get_models(include_auto_created=True)]
    )


def shown(owned: OwnedRows, visit: Visit, *, but: frozenset[str] = frozenset()) -> str:
    """Return every page, including the admin, as the owner and as staff see it."""
    run = Execution.objects.order_by("-pk")[0].pk
    pages = []
    for person in ("owner", "staff"):
        client = visit(person)
        for address in every_address():
            if address.name not in but and not address.name.endswith("logout"):
                path = address.path(examples(address, owned) | {"run_id": run})
                pages.append(b"".join(client.get(path)).decode(errors="replace"))
    return "".join(pages)


@pytest.mark.verify
def test_new_token_and_secret_settings_are_shown_nowhere_after_a_failed_notification(
    owned: OwnedRows, visit: Visit, log_output: StringIO, settings: Any, monkeypatch: pytest.MonkeyPatch
):
    """One test for all of them, because it reads every page."""
    for name in ("NTFY_TOKEN", "CRONTY_ADMIN_PASSWORD", "EMAIL_HOST_PASSWORD"):
        setattr(settings, name, f"{SECRET}-{name}")
    monkeypatch.setitem(connection.settings_dict, "PASSWORD", f"{SECRET}-database")
    created = visit("owner").post("/connect/", {"name": "laptop"})
    text = created.context["text"]
    key = text.split("_", 2)[2]
    assert key in created.content.decode()
    wrong = text[:-1] + ("x" if text[-1] != "x" else "y")

    used = send(text, {"list": tool_call("list_jobs", {}, "modern")})["list"]
    refused = send(wrong, {"list": tool_call("list_jobs", {}, "modern")})["list"]
    with Sink(Answer(status=500, body=b"no")) as sink:
        settings.NTFY_URL = sink.url("")
        error = fire(owned.job)
        pages = shown(owned, visit)

    assert (used.status_code, refused.status_code) == (200, 401)
    assert [SECRET in request.headers["authorization"] for request in sink.requests] == [True]
    assert "answered 500" in error
    assert "NTFY_TOKEN" in pages
    everywhere = log_output.getvalue() + stored() + pages + used.text + refused.text + error
    for secret in (key, wrong.split("_", 2)[2], SECRET):
        assert secret not in everywhere
    # A table stores the signing key.
    for secret in (settings.SECRET_KEY, owned.profile.signing_key):
        assert secret not in pages + log_output.getvalue()
    assert SECRET not in pg_dump_command(connection.settings_dict, PROJECT / "x")


def test_value_of_a_stored_secret_is_in_no_table_and_so_in_no_backup(
    owned: OwnedRows, visit: Visit, log_output: StringIO
):
    typed = {"name": "KEY", "value": SECRET, "hosts": "a.example", "commands": ""}

    saved = visit("owner").post("/settings/secrets/", typed)
    refused = visit("owner").post("/settings/secrets/", typed | {"hosts": "not a/host"})
    # The session has ended: nothing of what was typed is kept.
    browser = visit("owner")
    browser.get("/settings/secrets/")
    del browser.cookies["sessionid"]
    lost = browser.post("/settings/secrets/", typed)

    assert (saved.status_code, refused.status_code, lost.status_code) == (302, 422, 302)
    everything = stored()
    assert "a.example" in everything
    assert SECRET not in everything + log_output.getvalue()
    # Sessions are stored signed and encoded.
    sessions = [each.get_decoded() for each in apps.get_model("schedules.UserSession").objects.all()]
    assert SECRET not in str(sessions)


def test_command_prints_the_token_and_logs_nothing_of_it(owned: OwnedRows, log_output: StringIO, capsys: Any):
    call_command("issue_token", user="olga", name="laptop")

    printed = capsys.readouterr()
    text = printed.out.strip()
    assert verify_token(text) is not None
    assert text.split("_", 2)[2] not in log_output.getvalue() + stored() + printed.err


@pytest.mark.verify
def test_failing_webhook_does_not_reveal_its_headers_or_key(
    owned: OwnedRows, visit: Visit, log_output: StringIO, settings: Any
):
    settings.CRONTY_OUTBOUND_ALLOW = ["127.0.0.1"]
    owned.profile.signing_key = f"{SECRET}-signing"
    owned.profile.save()
    for status in (401, 500):
        with Sink(Answer(status=status, body=b"no")) as sink:
            owned.job.task, owned.job.kwargs = (
                "webhook",
                {"url": sink.url(), "headers": {"Authorization": f"Bearer {SECRET}", "X-Api-Key": SECRET}},
            )
            owned.job.save()
            error = fire(owned.job)
            assert SECRET in sink.requests[0].headers["authorization"]
        assert str(status) in error

    assert SECRET not in log_output.getvalue()
    kept = [*Execution.objects.values(), *apps.get_model("schedules.Event").objects.values()]
    assert SECRET not in str(kept)
    pages = shown(owned, visit)
    # The forms that edit the job name the header.
    assert "Authorization" in pages
    assert SECRET not in pages


def fire(job: Any) -> str:
    """Run a job once as a worker does, record the outcome, and return its error."""
    cluster = ClusterFactory()
    row = ExecutionFactory(job=job, status="claimed", cluster=cluster)
    (started,) = engine.start_runs(cluster.pk, 0, [row.pk], clock.now())
    task = registry.get(job.task)
    assert task is not None
    outcome = asyncio.run(calls.run_coroutine(started, task))
    engine.settle_runs(cluster.pk, [outcome])
    row.refresh_from_db()
    return outcome.error


def test_events_of_a_job_mask_its_secrets(owned: OwnedRows, actor: Actor):
    headers = {"url": "https://example.com/", "headers": {"Authorization": SECRET, "X-Token": SECRET}}

    made = schedule(actor, name="x", task="webhook", kwargs=headers, trigger_type="cron", cron="0 9 * * *")

    events = str(list(made.value.job.events.values()))
    assert "Authorization" in events
    assert SECRET not in events


@pytest.fixture
def actor(owned: OwnedRows) -> Actor:
    return Actor(owned.owner, apps.get_model("schedules.Event").Door.WEB)


def test_server_error_page_reveals_no_details(
    owned: OwnedRows, visit: Visit, log_output: StringIO, settings: Any, monkeypatch: pytest.MonkeyPatch
):
    def break_down() -> str:
        password = f"{SECRET}-local"
        raise RuntimeError(f"broken, though not with {len(password)} letters")

    settings.NTFY_TOKEN = SECRET
    monkeypatch.setattr(system, "database_text", break_down)
    client = visit("staff")
    client.raise_request_exception = False

    answer = client.get("/system/", headers={"Authorization": f"Bearer {SECRET}", "X-Api-Key": SECRET})

    assert answer.status_code == 500
    assert "Traceback" not in answer.content.decode()
    assert "RuntimeError" not in answer.content.decode()
    assert "RuntimeError: broken" in log_output.getvalue()
    for secret in (SECRET, settings.SECRET_KEY):
        assert secret not in answer.content.decode() + log_output.getvalue()


def test_wrong_password_is_neither_logged_nor_stored(owned: OwnedRows, client: Client, log_output: StringIO):
    for address in ("/login/", "/admin/login/"):
        answer = client.post(address, {"username": "olga", "password": SECRET})

        assert answer.status_code == 200
        assert SECRET not in answer.content.decode()
    assert apps.get_model("axes.AccessAttempt").objects.filter(username="olga").exists()
    assert SECRET not in log_output.getvalue() + stored()


def test_new_password_is_neither_logged_nor_stored_in_the_clear(
    owned: OwnedRows, visit: Visit, log_output: StringIO
):
    fields = {"old_password": "correct horse", "new_password1": SECRET, "new_password2": SECRET}

    assert visit("owner").post("/password/", fields).status_code == 302

    owned.owner.refresh_from_db()
    assert owned.owner.check_password(SECRET)
    assert SECRET not in log_output.getvalue() + stored()


def test_refused_bearer_token_is_not_repeated(owned: OwnedRows, log_output: StringIO):
    issue_token(owned.owner, name="laptop")

    answer = send(SECRET, {"list": tool_call("list_jobs", {}, "legacy")})["list"]

    assert answer.status_code == 401
    assert SECRET not in answer.text + str(answer.headers) + log_output.getvalue()


def test_commands_do_not_print_settings(tmp_path: Any):
    environment = {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        **{"CRONTY_DATA": str(tmp_path), "DATABASE_URL": f"postgres://cronty:{SECRET}@127.0.0.1:1/cronty"},
        **{"NTFY_TOKEN": SECRET, "CRONTY_SECRET_KEY": SECRET * 3, "CRONTY_ADMIN_PASSWORD": SECRET},
        "EMAIL_URL": f"smtp://me:{SECRET}@mail.example",
    }

    # Nothing listens at that address, so the command fails with the driver's message.
    done = subprocess.run(
        [*python(), str(PROJECT / "manage.py"), "showmigrations"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert SECRET not in done.stdout + done.stderr


def test_page_of_a_job_masks_its_secrets(owned: OwnedRows, visit: Visit):
    job = JobFactory(owner=owned.owner, task="webhook", kwargs={"headers": {"Authorization": SECRET}})

    page = visit("owner").get(f"/jobs/{job.public_id}/").content.decode()

    assert "Authorization" in page
    assert SECRET not in page
