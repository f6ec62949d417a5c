"""The management commands, with the real processes that they start."""

import signal
import socket
import sys
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import IntegrityError

from cronty_site import asgi
from cronty_site.serving.guards import Guards
from cronty_site.serving.server import Server
from schedules import clock
from schedules.management.commands import qcluster, up, web
from schedules.management.running_server import noted_address
from schedules.models import Execution, Job
from schedules.services.installation.command_words import how_to_run
from schedules.services.installation.setup import FirstUser
from tests.clusters import environment, family_of, is_alive, running, title_of
from tests.factories import ExecutionFactory
from tests.waiting import PATIENCE, wait_for


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def own_processes(monkeypatch):
    """Let the processes of a command use the test's database; restore the signal handlers afterwards."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.django_db(transaction=True)
def test_up_check_fires_a_job_end_to_end_and_deletes_no_history(
    own_processes, free_port, capsys, monkeypatch
):
    monkeypatch.setattr(up, "WAIT_SECONDS", PATIENCE)
    old = ExecutionFactory(finished_at=clock.now() - timedelta(days=10_000), status="succeeded")

    call_command("up", "--check", "--port", str(free_port))

    steps = capsys.readouterr().out.splitlines()
    assert [step.split()[0] for step in steps] == ["Preparing", "Starting", "ok:"]
    assert "ok: a job was fired, run and recorded" in steps[-1]
    run = Execution.objects.exclude(pk=old.pk).get()
    assert (run.task, run.status) == ("check_cluster", Execution.Status.SUCCEEDED)
    # Not pruned, although the history limits would delete it.
    assert Execution.objects.filter(pk=old.pk).exists()
    assert not User.objects.filter(is_superuser=True).exists()


@pytest.mark.django_db(transaction=True)
def test_up_restarts_a_killed_web_and_cluster_and_stops_on_sigterm(free_port, settings):
    address = f"http://127.0.0.1:{free_port}"
    with running("up", "--port", str(free_port), CRONTY_ADMIN_PASSWORD="known") as process:
        wait_for(lambda: up._answers(f"{address}/readyz"))
        assert noted_address(settings.CRONTY_DATA) == address
        first = family_of(process.pid)
        for word in (" web ", "qcluster leader"):
            next(child for child in first if word in title_of(child)).kill()

        wait_for(lambda: not any(map(is_alive, first)))
        wait_for(lambda: up._answers(f"{address}/readyz"))
        family = family_of(process.pid)
        process.send_signal(signal.SIGTERM)

        assert process.wait(PATIENCE) == 0
    assert not any(map(is_alive, family))
    assert User.objects.get(is_superuser=True).check_password("known")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--no-web", "--no-cluster"], "leave nothing to run"),
        (["--workers", "77"], "set CRONTY_WORKERS in the settings of this project"),
        (["--host", "0.0.0.0"], "not with CRONTY_DEBUG on"),  # noqa: S104
    ],
)
def test_up_refuses_conflicting_arguments(arguments, words, settings):
    settings.DEBUG = True

    with pytest.raises(CommandError, match=words):
        call_command("up", *arguments)


def test_web_refuses_debug_mode_on_a_public_address(settings):
    settings.DEBUG = True
    for host in ["0.0.0.0", "::", "192.0.2.1", "cronty.example"]:  # noqa: S104
        with pytest.raises(CommandError, match="not with CRONTY_DEBUG on"):
            call_command("web", "--host", host)


SERVERS = [("up",), ("web",), ("mcp_serve", "--http")]


@pytest.mark.django_db
@pytest.mark.parametrize("command", SERVERS, ids=" ".join)
def test_port_that_is_taken_is_refused(command):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(CommandError, match="something else listens there"):
            call_command(*command, "--port", str(taken.getsockname()[1]))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("command", "host"),
    [*((command, "192.0.2.1") for command in SERVERS), (("web",), "no.such.host.invalid")],
    ids=["up", "web", "mcp_serve", "name"],
)
def test_address_that_this_machine_does_not_have_is_refused(command, host):
    with pytest.raises(CommandError, match=f"^--host {host}: this machine has no such address"):
        call_command(*command, "--host", host)


@pytest.mark.django_db
def test_greeting_shows_url_password_and_the_command_for_agents(settings):
    options = {"host": settings.CRONTY_HOST, "port": settings.CRONTY_PORT, "no_web": False}

    words = up.greeting(options, FirstUser("admin", "made-up"), "admin")

    assert settings.CRONTY_URL in words
    assert "Log in as admin, password made-up" in words
    assert f"{sys.executable} {settings.BASE_DIR / 'manage.py'} mcp_serve --user admin\n" in words


def test_greeting_passes_the_data_folder_to_the_command_for_agents(settings, monkeypatch, tmp_path):
    settings.CRONTY_DATA = tmp_path / "my data"
    file = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(settings.CRONTY_DATA / "cronty.sqlite3")}
    monkeypatch.setitem(settings.DATABASES, "default", file)

    words = up.greeting({"host": "127.0.0.1", "port": 9, "no_web": False}, None, "olga")

    assert (
        f"claude mcp add --scope user cronty --env 'CRONTY_DATA={tmp_path}/my data' -- {sys.executable} "
        in words
    )
    assert "mcp_serve --user olga\n" in words


def test_greeting_names_no_page_without_the_web_process(settings):
    assert "/connect/" in up.greeting({"host": "127.0.0.1", "port": 9, "no_web": False}, None, "admin")
    # A project need not have the pages then.
    settings.ROOT_URLCONF = ()

    words = up.greeting({"host": "127.0.0.1", "port": 9, "no_web": True}, None, "admin")

    assert "is up:  a cluster, without pages\n" in words
    assert "http" not in words


def test_no_cluster_option_starts_only_the_web_command():
    web_only = {"host": "h", "port": 1, "no_web": False, "no_cluster": True}

    assert up._commands(web_only) == [["web", "--host", "h", "--port", "1"]]


def test_invalid_port_is_refused():
    for port in ["70000", "0", "http"]:
        for command in ["up", "web", "mcp_serve"]:
            with pytest.raises(CommandError, match=f"--port: {port} is not a port: choose 1 to 65535"):
                call_command(command, f"--port={port}")


def test_web_without_collected_static_files_points_to_up(settings, tmp_path):
    settings.STATIC_ROOT = tmp_path
    settings.STORAGES = {
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"}
    }

    with pytest.raises(CommandError, match=rf"The static files are missing: run `{how_to_run('up')}`"):
        call_command("web")


def test_web_passes_its_address_to_the_server(db, free_port, monkeypatch):
    served = []
    monkeypatch.setattr(Server, "run", lambda server: served.append(server.config))

    call_command("web", "--host", "127.0.0.1", "--port", str(free_port))

    [config] = served
    # Behind TrustProxies.
    assert config.app.app is asgi.application
    assert (config.host, config.port) == ("127.0.0.1", free_port)
    assert config.timeout_graceful_shutdown


def test_web_beside_a_cluster_lowers_its_priority(db, free_port, monkeypatch):
    lowered = []
    monkeypatch.setattr(web.parent_death, "end_with_parent", lambda *arguments: None)
    monkeypatch.setattr(web.os, "nice", lowered.append)
    monkeypatch.setattr(web, "import_string", lambda path: lambda *arguments, **options: None)

    call_command("web", "--port", str(free_port), "--with-parent", "77")

    assert lowered == [web.NICENESS]


def test_web_serves_pages_and_mcp_in_a_project_without_an_asgi_application(
    db, free_port, monkeypatch, settings
):
    del settings.ASGI_APPLICATION
    served = []
    monkeypatch.setattr(Server, "run", lambda server: served.append(server.config.app.app))

    call_command("web", "--port", str(free_port))

    [app] = served
    assert isinstance(app, Guards)
    assert app is not asgi.application


class FakeLeader:
    """Calls `on_start` once, as the real leader does, and stops."""

    def __init__(self, on_start, meanwhile):
        self.on_start = on_start

    def lead(self):
        self.on_start()


def test_qcluster_ends_with_its_parent_and_creates_the_pruning_job(db, monkeypatch):
    tied = []
    monkeypatch.setattr(qcluster, "Leader", FakeLeader)
    monkeypatch.setattr(qcluster.parent_death, "end_with_parent", lambda *arguments: tied.append(arguments))

    call_command("qcluster", "--with-parent", "77")

    assert tied == [(77, signal.SIGTERM)]
    assert Job.objects.armed().get().task == "prune_history"


def test_qcluster_starts_even_if_the_system_user_cannot_be_created(db, monkeypatch, caplog):
    def refuse():
        raise IntegrityError("NOT NULL constraint failed: members_member.birthday")

    monkeypatch.setattr(qcluster, "Leader", FakeLeader)
    monkeypatch.setattr(qcluster, "ensure_system_job", refuse)

    call_command("qcluster")

    assert "The history is not pruned: create a user named cronty." in caplog.text


def test_greeting_shows_an_address_that_a_browser_can_open():
    for host, address in [
        ("127.0.0.2", "http://127.0.0.2:9"),
        ("0.0.0.0", "http://127.0.0.1:9"),  # noqa: S104
        ("::", "http://[::1]:9"),
        ("fd00::1", "http://[fd00::1]:9"),
    ]:
        assert f"is up:  {address}\n" in up.greeting(
            {"host": host, "port": 9, "no_web": False}, None, "admin"
        )
