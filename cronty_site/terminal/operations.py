"""Operations behind the commands, and where they are called: in this process, or over /api/v1 on another machine."""

import inspect
import json
import os
import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import click
from pydantic import ValidationError

from cronty_site.terminal.elsewhere.server import AwayError, Server, read_secret, read_url
from cronty_site.terminal.failures import ExitCode, Failure
from schedules.result import Code, Err, Kind, invalid_fields, sentence

API = "/api/v1"
MAX_WAITS, LONGEST_WAIT = 5, 60.0
_JOBS, _FILES, _PEOPLE, _AGENTS = "jobs.operations", "files.operations", "people.operations", "runs.agents"


class Operation(NamedTuple):
    """Where an operation is: its module in `schedules.services`, and its method and path of the API.

    Arguments that the path names go there, `revision` goes into If-Match, and the others into the query of a GET or
    DELETE, or into the body.
    """

    module: str
    method: str
    path: str
    answers: bool = True
    """Whether the API answers with a document."""


OPERATIONS = {
    "show_me": Operation(_PEOPLE, "GET", "/me"),
    "list_jobs": Operation("listing", "GET", "/jobs"),
    "show_job": Operation(_JOBS, "GET", "/jobs/{job}"),
    "create_job": Operation(_JOBS, "POST", "/jobs"),
    "change_job": Operation(_JOBS, "PATCH", "/jobs/{job}"),
    "delete_job": Operation(_JOBS, "DELETE", "/jobs/{job}", answers=False),
    "pause_job": Operation(_JOBS, "POST", "/jobs/{job}/pause"),
    "resume_job": Operation(_JOBS, "POST", "/jobs/{job}/resume"),
    "confirm_job": Operation(_JOBS, "POST", "/jobs/{job}/confirm"),
    "cancel_job": Operation(_JOBS, "POST", "/jobs/{job}/cancel"),
    "restore_job": Operation(_JOBS, "POST", "/jobs/{job}/restore"),
    "skip_runs": Operation(_JOBS, "POST", "/jobs/{job}/skip"),
    "answer_reminder": Operation(_JOBS, "POST", "/jobs/{job}/answer"),
    "run_job": Operation(_JOBS, "POST", "/jobs/{job}/run"),
    "open_trigger": Operation(_JOBS, "POST", "/jobs/{job}/trigger"),
    "close_trigger": Operation(_JOBS, "DELETE", "/jobs/{job}/trigger", answers=False),
    "explain_run": Operation(_JOBS, "GET", "/jobs/{job}/why"),
    "list_upcoming": Operation(_JOBS, "GET", "/upcoming"),
    "preview_schedule": Operation(_JOBS, "POST", "/preview"),
    "pause_all": Operation("jobs.pause_all", "POST", "/pause"),
    "resume_all": Operation("jobs.pause_all", "POST", "/resume"),
    "list_proposals": Operation(_AGENTS, "GET", "/proposals"),
    "list_tasks": Operation(_JOBS, "GET", "/tasks"),
    "list_runs": Operation("listing", "GET", "/runs"),
    "show_run": Operation("listing", "GET", "/runs/{run}"),
    "show_output": Operation("listing", "GET", "/runs/{run}/output"),
    "apply_file": Operation(_FILES, "POST", "/apply"),
    "import_checks": Operation(_FILES, "POST", "/import/healthchecks"),
    "export_jobs": Operation(_FILES, "GET", "/export"),
    "show_document": Operation(_FILES, "GET", "/jobs/{job}/document"),
    "change_by_document": Operation(_FILES, "PUT", "/jobs/{job}/document"),
    "show_preferences": Operation(_PEOPLE, "GET", "/preferences"),
    "change_preferences": Operation(_PEOPLE, "PATCH", "/preferences"),
    "list_calendars": Operation(_PEOPLE, "GET", "/calendars"),
    "set_calendar": Operation(_PEOPLE, "PUT", "/calendars/{calendar}"),
    "preview_calendar": Operation(_PEOPLE, "POST", "/calendars/{calendar}/preview"),
    "delete_calendar": Operation(_PEOPLE, "DELETE", "/calendars/{calendar}", answers=False),
    "list_channels": Operation(_PEOPLE, "GET", "/channels"),
    "set_channel": Operation(_PEOPLE, "PUT", "/channels/{channel}"),
    "test_channel": Operation(_PEOPLE, "POST", "/channels/{channel}/test"),
    "confirm_channel": Operation(_PEOPLE, "POST", "/channels/{channel}/confirm", answers=False),
    "rename_channel": Operation(_PEOPLE, "POST", "/channels/{channel}/rename", answers=False),
    "delete_channel": Operation(_PEOPLE, "DELETE", "/channels/{channel}", answers=False),
    "switch_channel_on": Operation(_PEOPLE, "POST", "/channels/{channel}/on"),
    "switch_channel_off": Operation(_PEOPLE, "POST", "/channels/{channel}/off"),
    "rotate_channel_secret": Operation(_PEOPLE, "POST", "/channels/{channel}/secret"),
    "list_channel_deliveries": Operation(_PEOPLE, "GET", "/channels/{channel}/deliveries"),
    "send_event_again": Operation(_PEOPLE, "POST", "/channels/{channel}/deliveries/{delivery}/send"),
    "list_secrets": Operation(_PEOPLE, "GET", "/secrets"),
    "set_secret": Operation(_PEOPLE, "PUT", "/secrets/{secret}"),
    "move_secret_expiry": Operation(_PEOPLE, "PATCH", "/secrets/{secret}"),
    "delete_secret": Operation(_PEOPLE, "DELETE", "/secrets/{secret}", answers=False),
    "list_tokens": Operation(_PEOPLE, "GET", "/tokens"),
    "create_token": Operation(_PEOPLE, "POST", "/tokens"),
    "revoke_token": Operation(_PEOPLE, "DELETE", "/tokens/{token}", answers=False),
    "list_incidents": Operation(_PEOPLE, "GET", "/incidents"),
    "show_incident": Operation(_PEOPLE, "GET", "/incidents/{incident}"),
    "snooze_incident": Operation(_PEOPLE, "POST", "/incidents/{incident}/snooze"),
    "show_agents": Operation(_AGENTS, "GET", "/agents"),
    "stop_all_agents": Operation(_AGENTS, "POST", "/agents/stop"),
    "start_agents": Operation(_AGENTS, "POST", "/agents/start"),
    "begin_check": Operation(_AGENTS, "POST", "/agents/runners/{runner}/check"),
    "show_check": Operation(_AGENTS, "GET", "/agents/checks/{run}"),
    # On this machine only.
    "check_here": Operation(_AGENTS, "", ""),
    "list_approvals": Operation(_AGENTS, "GET", "/agents/approvals"),
    "show_approval": Operation(_AGENTS, "GET", "/agents/approvals/{approval}"),
    "answer_approval": Operation(_AGENTS, "POST", "/agents/approvals/{approval}"),
}


class Refusal(Failure):
    """What an operation refuses: a text, and the reasons of single fields."""

    def __init__(self, text: str, kind: str, errors: Mapping[str, str]) -> None:
        # A terminal has no form field for arguments.
        super().__init__(
            text.removeprefix("kwargs: "),
            ExitCode.NOT_FOUND if kind == Kind.NOT_FOUND else ExitCode.REFUSED,
            code=kind,
        )
        self.errors = errors


def _words_of(code: Code, text: str, detail: str) -> str:
    """Return the text of a refusal; what others have written in it ends like a sentence, as in the API."""
    if code.text == Code.INVALID.text:
        return f"{detail[:1].lower()}{detail[1:]}"
    return detail if code.text.startswith("{") else text


class Here:
    """Calls operations in this process, for a user of this machine."""

    is_remote = False
    # A page of a list is as long as the list.
    page_size = 1_000_000

    def __init__(self, actor: Any) -> None:
        self.actor = actor

    def call(self, name: str, values: Mapping[str, Any]) -> Any:
        """Return the document of an operation, or raise its refusal."""
        operation = OPERATIONS[name]
        function = getattr(import_module(f"schedules.services.{operation.module}"), name)
        try:
            result = function(self.actor, **_with_options(function, values))
        except ValidationError as error:
            result = _wrong_types(error)
        if isinstance(result, Err):
            text = _words_of(result.code, result.text, sentence(result.text))
            raise Refusal(text, result.kind, result.texts)
        return result.value if operation.answers else {}


def _with_options(function: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an operation; those that a spec describes become its `options`."""
    given = dict(values)
    if parameter := inspect.signature(function, eval_str=True).parameters.get("options"):
        spec = parameter.annotation
        given["options"] = spec.model_validate(
            {field: given.pop(field) for field in spec.of_columns() if field in given}
        )
    return given


def _wrong_types(error: ValidationError) -> Err:
    from schedules.spec.job import reason_of  # noqa: PLC0415  (only options of jobs are checked so)

    return invalid_fields({str(each["loc"][0]): [reason_of(each)] for each in error.errors()})


class Elsewhere:
    """Calls operations on a server, with the rights of a token."""

    is_remote = True
    page_size = 200

    def __init__(self, server: Server) -> None:
        self._server = server

    def call(self, name: str, values: Mapping[str, Any]) -> Any:
        """Return the document of an operation, or raise its refusal."""
        operation = OPERATIONS[name]
        given = dict(values)
        path = operation.path.format_map(
            {name: _path_part(given, name) for name in _names_in(operation.path)}
        )
        headers = {"Accept": "application/json"}
        if operation.method in ("PATCH", "DELETE") and operation.path == "/jobs/{job}":
            revision = given.pop("revision", None)
            headers["If-Match"] = "*" if revision is None else f'"r{revision}"'
        body = b""
        if operation.method in ("GET", "DELETE"):
            query = {field: _query_text(value) for field, value in given.items() if value not in ("", False)}
            path += f"?{urlencode(query, doseq=True)}" if query else ""
        else:
            headers["Content-Type"] = "application/json"
            body = json.dumps(given).encode()
        return self._ask(operation.method, path, body, headers)

    def _ask(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Any:
        url = self._server.url
        for number in range(MAX_WAITS):
            try:
                reply = self._server.ask(method, API + path, body, headers, timeout=120.0)
            except AwayError as error:
                raise _not_ready(f"{url} is not reached ({error}).") from error
            try:
                document = json.loads(reply.body) if reply.body else {}
            except ValueError:
                document = None
            wait = document.get("retry_after") if isinstance(document, dict) else None
            if reply.status != 429 or number + 1 == MAX_WAITS or not wait or wait > LONGEST_WAIT:
                break
            time.sleep(wait)  # noqa: TID251  (until this token may call again)
        if 200 <= reply.status < 300 and document is not None:
            return document
        if not isinstance(document, dict) or "code" not in document or "detail" not in document:
            raise _not_ready(f"{url} does not answer like Cronty ({reply.status}).")
        if reply.status >= 500:
            raise _not_ready(f"{url}: {document['detail']}")
        errors = {each["field"]: each["detail"] for each in document.get("errors", ())}
        raise _refusal(document["code"], document["detail"], errors)


def _names_in(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def _path_part(given: dict[str, Any], name: str) -> str:
    return quote(str(given.pop(name)), safe="")


def _query_text(value: Any) -> Any:
    return "true" if value is True else value


def _refusal(name: str, detail: str, errors: Mapping[str, str]) -> Refusal:
    """Return a refusal of the API as the same operation would be refused here."""
    try:
        code = Code[name.upper()]
    except KeyError:
        return Refusal(detail, name, errors)
    text = detail if code.text.endswith((".", "?", "!")) else detail.removesuffix(".")
    text = f"{text[:1].lower()}{text[1:]}" if code.text[0].islower() else text
    return Refusal(_words_of(code, text, detail), code.kind, errors)


def _not_ready(text: str) -> Failure:
    return Failure(text, ExitCode.NOT_READY, code="not_ready")


def remote_server() -> Server | None:
    """Return the server of CRONTY_URL and CRONTY_TOKEN, if there are both, and CRONTY_REMOTE is not off."""
    url = os.environ.get("CRONTY_URL", "").strip()
    switch = os.environ.get("CRONTY_REMOTE", "").strip().lower()
    if switch in ("off", "false", "no", "0"):
        return None
    token = read_secret("CRONTY_TOKEN")
    if switch in ("on", "true", "yes", "1") and not (url and token):
        raise click.UsageError("CRONTY_REMOTE is on: set CRONTY_URL and CRONTY_TOKEN, too.")
    return Server(read_url(url), token) if url and token else None
