"""A day of work by a terminal that sends its command lines to a server, whose answers are those of a terminal there."""

import json
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from cronty_site.terminal.elsewhere.server import Server
from cronty_site.terminal.serving import SiteTerminal
from schedules import clock, engine, services
from schedules.api.auth import caller_of
from schedules.api.schemas.terminal import LineIn
from schedules.models import Event, Execution, Job, Secret, Token
from schedules.services import Actor
from schedules.tasks.interface import OutputText
from tests.factories import TokenFactory


@pytest.fixture
def cronty_there(cronty, owner, monkeypatch):
    send_to_server(owner, monkeypatch)
    return cronty


def send_to_server(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let command lines be executed with a token, by what the server executes them with, within this transaction."""
    monkeypatch.setenv("CRONTY_URL", "http://cronty.test")
    monkeypatch.setenv("CRONTY_TOKEN", "from-a-test")
    token = TokenFactory(owner=owner, name=owner.username, kind=Token.Kind.PROGRAM, scopes=["read", "write"])

    def stream(server: Server, method: str, path: str, body: bytes) -> Iterator[str]:
        assert (server.url, server.token, method, path) == (
            *("http://cronty.test", "from-a-test", "POST", "/api/v1/terminal"),
        )
        events: list[dict[str, Any]] = []
        line = LineIn.model_validate_json(body)
        ended: BaseException | None = None
        try:
            # Read again for each, as for a request.
            caller = caller_of(Token.objects.select_related("owner__cronty_profile").get(pk=token.pk))
            SiteTerminal().run(caller, line, events.append, lambda: False)
        except KeyboardInterrupt as error:
            ended = error
        for event in events:
            yield json.dumps(event)
        if ended:
            raise ended

    monkeypatch.setattr(Server, "stream", stream)


def test_file_is_read_here_and_applied_after_an_answer_given_here(cronty_there, tmp_path, monkeypatch):
    file = tmp_path / "jobs.yaml"
    file.write_text("jobs: {Ping: {schedule: every day at 9:00, task: tests.ping}}")
    assert cronty_there("apply", str(file)).code == 1
    monkeypatch.setattr("sys.stdin", StringIO("y\n"))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)

    applied = cronty_there("apply", str(file))

    assert (applied.code, Job.objects.get().source) == (0, "jobs.yaml"), applied.err
    assert set(Event.objects.values_list("door", flat=True)) == {"api"}
    exported = tmp_path / "exported.yaml"
    assert cronty_there("export", str(exported)).code == 0
    assert "Ping:" in exported.read_text()
    assert "Ping" in cronty_there("jobs").out
    assert cronty_there("show", "Pong").code == 3


def test_document_is_edited_here_and_kept_if_somebody_else_was_first(
    cronty_there, owner, tmp_path, monkeypatch
):
    actor = Actor(owner)
    job = services.schedule(
        actor, name="Hook", task="tests.ping", trigger_type="cron", cron="0 9 * * *"
    ).value.job
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    script = tmp_path / "editor"
    script.write_text("#!/bin/sh\nsed -i 's/0 9 /0 7 /' \"$1\"\n")
    script.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(script))

    assert cronty_there("edit", "Hook").code == 0
    job.refresh_from_db()
    assert job.cron == "0 7 * * *"

    kept: list[Path] = []

    def rename(*, filename: str) -> None:
        services.edit(actor, job.public_id, name="Renamed")
        kept.append(Path(filename))
        kept[0].write_text(kept[0].read_text().replace("0 7 ", "0 8 "))

    monkeypatch.setattr("cronty_site.terminal.elsewhere.local_actions.click.edit", rename)
    refused = cronty_there("edit", "Hook")

    # The job is looked for again.
    assert refused.code == 3
    assert "0 8 " in kept[0].read_text()


def test_secret_is_asked_for_here_and_output_is_followed_until_it_ends(cronty_there, monkeypatch):
    monkeypatch.setattr("sys.stdin", StringIO("hush-hush-7\n"))
    assert cronty_there("secret", "KEY", "--host", "api.example").code == 0
    assert Secret.objects.get().name == "KEY"
    cronty_there("add", "every day at 9:00", "tests.ping", "--name", "Ping")

    def end(seconds: float) -> None:
        run = Execution.objects.get()
        engine.save_output(run.pk, 1, OutputText("copied\n", "", 7))
        Execution.objects.update(status="failed", attempt=1, finished_at=clock.now(), error="disk full")

    monkeypatch.setattr("cronty_site.terminal.consoles.time.sleep", end)

    ended = cronty_there("run", "Ping", "--wait")

    assert (ended.code, ended.out.splitlines()[0]) == (4, "copied")
