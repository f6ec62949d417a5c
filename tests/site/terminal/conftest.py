"""The `cronty` command in this process, as the owner of the jobs under test."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User

from cronty_site.terminal.group import main


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


@pytest.fixture
def cronty(owner: User, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cronty:
    # Where the tests run in a terminal, its width is not the output's.
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("CRONTY_URL", raising=False)

    def run(*arguments: str) -> Ended:
        capsys.readouterr()
        code = main(list(arguments))
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err)

    return run
