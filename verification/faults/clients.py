"""Clients of the product: tool calls over HTTP, and forms of the pages."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

import httpx2

from verification.faults.product import PASSWORD, TOKEN_USER
from verification.faults.records import Outcome

PATIENCE = 8.0
VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "campaign", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass
class Answer:
    outcome: Outcome
    body: dict[str, Any] = field(default_factory=dict)
    words: str = ""


class Agent:
    """Calls tools at one URL, and classifies each answer as acknowledged, refused or unknown."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self._http = httpx2.Client(
            timeout=PATIENCE,
            headers={
                "Authorization": f"Bearer {token}",
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": VERSION,
            },
        )

    def call(self, tool: str, **arguments: Any) -> Answer:
        params = {"name": tool, "arguments": arguments, "_meta": META}
        try:
            answer = self._http.post(
                self.url,
                json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
                headers={"Mcp-Method": "tools/call", "Mcp-Name": tool},
            )
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            return Answer("refused", words="nobody listens")
        except httpx2.HTTPError as error:
            return Answer("unknown", words=repr(error))
        if answer.status_code != 200:
            return Answer("unknown", words=f"{answer.status_code} {answer.text[:200]}")
        return _read(answer)

    def close(self) -> None:
        self._http.close()


def _read(answer: httpx2.Response) -> Answer:
    text = answer.text
    if "data:" in text[:200]:
        text = next(line[5:] for line in text.splitlines()[::-1] if line.startswith("data:"))
    try:
        result = json.loads(text)["result"]
    except (ValueError, KeyError):
        return Answer("unknown", words=text[:300])
    body = result.get("structuredContent") or {}
    if result.get("isError") and not body:
        # A crash: the change may or may not have been committed.
        return Answer("unknown", body, str(result.get("content"))[:300])
    problem = body.get("error") if "status" not in body else None
    if problem or body.get("cancelled") is False or body.get("success") is False:
        return Answer("refused", body, str(problem))
    return Answer("acknowledged", body)


class Browser:
    """Submits the forms of the pages as the first user."""

    SUCCESS = {
        "pause": "Paused {name}.",
        "resume": "Resumed {name}.",
        "cancel": "Cancelled {name}",
        "delete": "Moved {name} to the trash",
        "run": "Started {name}",
        "restore": "Restored {name}.",
    }

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx2.Client(timeout=PATIENCE, follow_redirects=True)
        self._is_in = False

    def press(self, verb: str, job_id: str, name: str) -> Answer:
        try:
            if not self._is_in and not self._log_in():
                return Answer("refused", words="could not log in")
            is_restore = verb == "restore"
            path = "/jobs/restore/" if is_restore else f"/jobs/{job_id}/{verb}/"
            answer = self._post(path, {"job": job_id} if is_restore else {})
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            return Answer("refused" if not self._is_in else "unknown", words="nobody listens")
        except httpx2.HTTPError as error:
            return Answer("unknown", words=repr(error))
        if self._is_logged_out(answer):
            return Answer("refused", words="logged out")
        if answer.status_code == 200 and self.SUCCESS[verb].format(name=name) in answer.text:
            return Answer("acknowledged")
        return Answer("unknown", words=f"{answer.status_code} {answer.url}")

    def fill_in(self, values: dict[str, str]) -> Answer:
        """Send the form of a new job."""
        try:
            if not self._is_in and not self._log_in():
                return Answer("refused", words="could not log in")
            answer = self._post("/jobs/new/", values)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            return Answer("unknown", words="nobody listens")
        except httpx2.HTTPError as error:
            return Answer("unknown", words=repr(error))
        if self._is_logged_out(answer):
            return Answer("refused", words="logged out")
        *_, folder, job_id, _ = f"x/{answer.url}".split("/")
        if answer.status_code == 200 and folder == "jobs" and job_id != "new":
            return Answer("acknowledged", {"job_id": job_id})
        outcome: Outcome = "refused" if answer.status_code == 422 else "unknown"
        return Answer(outcome, words=f"{answer.status_code} {answer.url} {_problems(answer.text)}")

    def _log_in(self) -> bool:
        self._http.get(f"{self.url}/login/")
        self._is_in = self._post("/login/", {"username": TOKEN_USER, "password": PASSWORD}).status_code == 200
        return self._is_in

    def _is_logged_out(self, answer: httpx2.Response) -> bool:
        """Return whether the page asks for a login instead, as after a change of the secret key; then log in next time."""
        self._is_in = answer.url.path != "/login/"
        return not self._is_in

    def _post(self, path: str, values: dict[str, str]) -> httpx2.Response:
        token = self._http.cookies.get("csrftoken") or ""
        return self._http.post(f"{self.url}{path}", data={**values, "csrfmiddlewaretoken": token})

    def close(self) -> None:
        self._http.close()


def _problems(page: str) -> str:
    """Return the error messages that a page shows beside its fields."""
    return "; ".join(re.findall(r'class="err[^"]*"[^>]*>(.*?)</', page, re.DOTALL))[:300]
