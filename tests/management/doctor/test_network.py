"""Reachability of ntfy, the mail server and the public address, on loopback."""

from collections.abc import Callable, Iterator

import pytest

from schedules.management.doctor import network
from tests.mcp.processes import free_port
from tests.sink import Answer, Sink
from tests.site.smtp import MailSink
from tests.waiting import PATIENCE

pytest_plugins = ["tests.ntfy"]

HEALTHY = Answer(body=b'{"healthy":true}')
ALIVE = Answer(body=b"ok\n")


@pytest.fixture
def sink(settings) -> Iterator[Sink]:
    with Sink(ALIVE) as sink:
        settings.NTFY_URL = settings.CRONTY_URL = sink.url("").rstrip("/")
        settings.NTFY_TOKEN = ""
        settings.CRONTY_PORT = sink.port
        settings.CRONTY_PASSWORD_RESET = False
        yield sink


def found(check: str) -> tuple[str, str]:
    [finding] = [finding for finding in network.examine() if finding.check == check]
    return finding.level, finding.message


def test_healthy_hosts_are_ok(sink):
    sink.then(HEALTHY)

    assert [finding.level for finding in network.examine()] == ["ok", "ok"]
    assert [request.path for request in sink.requests] == [
        "/v1/health",
        "/_matrix/push/v1/notify",
        "/healthz",
    ]


@pytest.mark.parametrize("answer", [Answer(status=404), Answer(body=b"<html>hello"), Answer(manner="reset")])
def test_server_that_is_not_ntfy_is_a_problem(sink, answer):
    sink.then(answer)

    assert found("ntfy")[0] == "problem"


@pytest.fixture
def of_ntfy(settings) -> Callable[[str], list[tuple[str, str]]]:
    """Return what is found about a real ntfy server at an address."""

    def examine(url: str) -> list[tuple[str, str]]:
        settings.NTFY_URL, settings.CRONTY_URL, settings.NTFY_TOKEN = url, "", ""
        settings.CRONTY_PASSWORD_RESET = False
        return [(finding.level, finding.message) for finding in network.examine()]

    return examine


def test_address_that_phones_need_is_examined(of_ntfy, start_ntfy):
    with start_ntfy() as server:
        fits = of_ntfy(server.url)
        other = of_ntfy(server.url.replace("127.0.0.1", "localhost"))
    assert [level for level, _ in fits] == ["ok", "ok"]
    assert "upstream-base-url" in fits[1][1]
    assert [level for level, _ in other] == ["ok", "warning"]
    assert "base-url there is not http://localhost" in other[1][1]


def test_address_that_is_not_set_is_a_warning(of_ntfy, start_ntfy):
    with start_ntfy(base_url="") as server:
        assert of_ntfy(server.url)[1] == (
            "warning",
            "base-url is not set there: iPhones and attachments need it.",
        )


def test_refused_token_is_a_problem_that_does_not_show_it(sink, settings):
    settings.NTFY_TOKEN = "tk_secret"
    sink.then(HEALTHY, Answer(status=401))

    level, message = found("ntfy")

    assert (level, "tk_secret" in message) == ("problem", False)
    assert sink.requests[1].headers["authorization"] == "Bearer tk_secret"


def test_unreachable_address_is_a_warning_on_loopback_and_a_problem_elsewhere(sink, settings):
    settings.CRONTY_PORT = free_port()
    settings.CRONTY_URL = f"http://127.0.0.1:{settings.CRONTY_PORT}"
    assert found("address")[0] == "warning"

    settings.CRONTY_HOST = "192.0.2.1"
    assert found("address")[0] == "problem"


def test_address_that_leads_elsewhere_is_a_problem(sink):
    sink.then(HEALTHY, Answer(status=404), Answer.redirect("https://elsewhere.example/"))

    assert "redirects to https://elsewhere.example/" in found("address")[1]


def test_mail_server_is_tried(sink, settings, monkeypatch):
    monkeypatch.setattr(network, "SECONDS", PATIENCE)
    settings.CRONTY_PASSWORD_RESET = True
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST = "127.0.0.1"
    with MailSink() as mail:
        settings.EMAIL_PORT = mail.port
        assert found("mail")[0] == "ok"
    settings.EMAIL_PORT = free_port()
    assert found("mail")[0] == "problem"
