"""A running server with OAuth, and a browser in which somebody is logged in."""

import base64
import hashlib
import html
import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2

from tests import databases
from tests.forks import fork_server
from tests.mcp.processes import IMPORTS, MANAGE, ROOT, free_port, wait_for_port
from tests.waiting import PATIENCE

PREPARE = """
import django
django.setup()
from django.contrib.auth.models import User
from django.core.management import call_command
call_command("migrate", verbosity=0)
call_command("collectstatic", verbosity=0, interactive=False)
User.objects.create_user("olga", password="correct horse")
"""
BACK = "http://127.0.0.1:9999/back"
METADATA = {"client_name": "Assistant", "redirect_uris": [BACK], "token_endpoint_auth_method": "none"}
VERIFIER = "v" * 50
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")


@dataclass
class Server:
    """A running web process with OAuth, an app that talks to it, and a browser in which olga is logged in."""

    address: str
    environment: dict[str, str]
    python: list[str]
    addresses: Iterator[str] = field(default_factory=lambda: (f"2001:db8:0:{n:x}::1" for n in count()))
    browser: httpx2.Client = field(init=False)
    app: httpx2.Client = field(init=False)

    def __post_init__(self) -> None:
        self.app = httpx2.Client(base_url=self.address, timeout=PATIENCE)
        self.browser = httpx2.Client(
            base_url=self.address, headers={"Referer": self.address}, timeout=PATIENCE
        )
        page = self.browser.get("/login/")
        answer = self.browser.post(
            "/login/", data=hidden(page.text) | {"username": "olga", "password": "correct horse"}
        )
        assert answer.status_code == 302, answer.text

    def register(self, *, address: str = "", **more: Any) -> httpx2.Response:
        """Register a client from this address, or from one that has registered none before."""
        headers = {"X-Forwarded-For": address or next(self.addresses)}
        # As ASCII, which can carry any text.
        return self.app.post("/oauth/register/", content=json.dumps(METADATA | more), headers=headers)

    def client(self) -> str:
        answer = self.register()
        assert answer.status_code == 201, answer.text
        return str(answer.json()["client_id"])

    def ask(self, client_id: str, **more: str) -> httpx2.Response:
        asked = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": BACK,
            "scope": "read write",
            "state": "s",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "resource": f"{self.address}/mcp",
        }
        return self.browser.get("/oauth/authorize/", params=asked | more)

    def decide(self, page: httpx2.Response, **choices: str) -> httpx2.Response:
        chosen = {"access": "read write", "tools": "", "expires": "30", "allow": "true"}
        return self.browser.post("/oauth/authorize/", data=hidden(page.text) | chosen | choices)

    def code(self, client_id: str, **choices: str) -> str:
        answer = self.decide(self.ask(client_id), **choices)
        assert answer.status_code == 302, answer.text
        return back_with(answer)["code"]

    def exchange(self, client_id: str, **more: str) -> httpx2.Response:
        wanted = {
            "grant_type": "authorization_code",
            "client_id": client_id,
            "redirect_uri": BACK,
            "code_verifier": VERIFIER,
        }
        return self.app.post("/oauth/token/", data=wanted | more)

    def connect(self, **choices: str) -> tuple[str, dict[str, Any]]:
        client_id = self.client()
        answer = self.exchange(client_id, code=self.code(client_id, **choices))
        assert answer.status_code == 200, answer.text
        return client_id, answer.json()

    def tools(self, token: str) -> list[str] | int:
        """Return the names of the tools that a token may call, or the status of the refusal."""
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        answer = self.app.post(
            "/mcp",
            json=call,
            headers={
                "Authorization": f"Bearer {token}",
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": "2025-11-25",
            },
        )
        if answer.status_code != 200:
            return answer.status_code
        return re.findall(r'"name":"(\w+)","title"', answer.text) or re.findall(
            r'"name":"(\w+)"', answer.text
        )

    def apps(self) -> list[str]:
        """Return the addresses under which the connected apps are disconnected."""
        return re.findall(r'action="(/connect/\d+/revoke/)"', self.browser.get("/connect/").text)

    def run(self, code: str) -> str:
        """Run Python in the server's settings."""
        return subprocess.run(
            [*self.python, "-c", f"import django; django.setup()\n{code}"],
            env=self.environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()


def hidden(page: str) -> dict[str, str]:
    inputs = re.findall(r'<input type="hidden"[^>]*?name="([^"]+)"(?:[^>]*?value="([^"]*)")?', page)
    return {name: html.unescape(value) for name, value in inputs}


def back_with(answer: httpx2.Response) -> dict[str, str]:
    target = answer.headers["location"]
    assert target.startswith(BACK), target
    return {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}


@contextmanager
def serving_oauth(folder: Path) -> Iterator[Server]:
    """Run a web process with OAuth on loopback, in which olga has an account."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "DJANGO_SETTINGS_MODULE": "cronty_site.settings",
        "CRONTY_DATA": str(folder),
        "CRONTY_PORT": str(port),
        "CRONTY_OAUTH": "on",
        "CRONTY_TRUSTED_PROXIES": "127.0.0.1",
        "CRONTY_MAX_TOKENS": "40",
    }
    with fork_server(IMPORTS, environment) as forks:
        databases.fill(folder)
        subprocess.run([*forks.command, "-c", PREPARE], env=environment, check=True)
        process = subprocess.Popen([*forks.command, MANAGE, "web"], env=environment, stderr=subprocess.PIPE)
        try:
            wait_for_port(process, port)
            started = Server(address, environment, forks.command)
            yield started
            started.browser.close()
            started.app.close()
        finally:
            process.terminate()
            process.communicate()
