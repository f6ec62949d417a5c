"""Programs that call the API with tokens."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from schedules.models import Token
from schedules.result import Ok
from schedules.services import issue_token


@dataclass
class Program:
    """A client with a token."""

    text: str
    token: Token

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> HttpResponse:
        given: dict[str, Any] = {}
        if body is not None:
            given = {"data": json.dumps(body), "content_type": "application/json"}
        return Client().generic(
            method,
            f"/api/v1{path}",
            headers={"Authorization": f"Bearer {self.text}", **headers},
            **given,
        )

    def ok(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Call, and return the document of an answer that must be no refusal."""
        answer = self.call(method, path, body, **headers)
        assert answer.status_code < 300, answer.content
        return json.loads(answer.content) if answer.content else None


def program_of(user: User, name: str = "n8n", kind: str = Token.Kind.PROGRAM, **options: Any) -> Program:
    match issue_token(user, name=name, kind=kind, **options):
        case Ok(issued):
            return Program(issued.text, issued.token)
    raise AssertionError("no token was issued")


@pytest.fixture(autouse=True)
def many_calls(settings: LazySettings) -> None:
    settings.CRONTY_MCP_CALLS_PER_MINUTE = 10**6


@pytest.fixture
def program(owner: User) -> Program:
    return program_of(owner)


@pytest.fixture
def strange_program(stranger: User) -> Program:
    return program_of(stranger)


@pytest.fixture
def program_with(owner: User) -> Callable[..., Program]:
    return lambda **options: program_of(owner, **options)
