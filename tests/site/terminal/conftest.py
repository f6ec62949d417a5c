"""The `cronty` command in this process, as the owner of the jobs under test."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User

from cronty_site.terminal.elsewhere.server import Server
from cronty_site.terminal.group import main
from cronty_site.terminal.serving import SiteTerminal
from schedules.api.auth import caller_of
from schedules.api.schemas.terminal import LineIn
from schedules.models import Token
from tests.factories import TokenFactory

# The tests of these files are run twice: here, and by a terminal that sends its command lines to a server.
SENT = {
    *("adding", "answering", "calendars", "changing", "channels", "editing", "files", "heartbeats"),
    *("healthchecks", "hostile_text", "logs", "output", "preferences", "reading", "secrets"),
}
# Many examples of the same: `make verify` sends them, too.
OFTEN = {"hostile_text", "adding"}


@dataclass(frozen=True)
class Ended:
    """What a command line printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cronty = Callable[..., Ended]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    name = metafunc.module.__name__.rpartition(".test_")[2]
    if "typed_at" in metafunc.fixturenames:
        there = pytest.param("there", marks=pytest.mark.verify) if name in OFTEN else "there"
        is_sent = name in SENT and not metafunc.definition.get_closest_marker("only_here")
        metafunc.parametrize("typed_at", ["here", *([there] if is_sent else [])], indirect=True)


@pytest.fixture
def typed_at(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def door(typed_at: str) -> str:
    return "terminal" if typed_at == "here" else "api"


@pytest.fixture
def cronty(
    owner: User, typed_at: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Cronty:
    # Where the tests run in a terminal, its width is not the output's.
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("CRONTY_URL", raising=False)
    if typed_at == "there":
        send_to_server(owner, monkeypatch)

    def run(*arguments: str) -> Ended:
        capsys.readouterr()
        code = main(list(arguments))
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err)

    return run


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
