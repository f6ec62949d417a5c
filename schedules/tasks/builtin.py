"""The built-in task `webhook`; `notify` is in channels/notify.py, and `prompt` in agents/tasks.py."""

import json
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field, JsonValue

from schedules.secrets.references import escape_for_url, fill_in_secrets, names_in, without_references
from schedules.tasks import outbound
from schedules.tasks.argument_types import SECRET_HEADERS, Headers, Method, Shown, WebAddress
from schedules.tasks.interface import Final, Run
from schedules.tasks.outbound.headers import shape_problem
from schedules.tasks.outbound.signing import headers_of_run
from schedules.tasks.registry import task
from schedules.tasks.replies import beginning, failure, redirect, send_or_retry

WEBHOOK_METHOD: Method = "POST"
MAX_RESULT_CHARACTERS = 2048
MAX_ERROR_CHARACTERS = 200


@task(title="Webhook", attempts=3, takes_secrets=True)
async def webhook(
    url: WebAddress,
    method: Method = WEBHOOK_METHOD,
    headers: Annotated[Headers, SECRET_HEADERS] | None = None,
    body: Annotated[
        JsonValue,
        Field(description="Text is sent as it is, anything else as JSON."),
        Shown(hint="Valid JSON is sent as JSON, anything else as plain text"),
    ] = None,
    *,
    run: Run,
) -> dict[str, Any]:
    """Send an HTTP request, signed, with an Idempotency-Key that stays the same over all attempts."""
    if names := names_in([url, headers, body]):
        url, headers, body = await with_secrets(url, headers, body, names, run)
    content, content_type = _webhook_body(body)
    own_headers = {name.lower(): value for name, value in (headers or {}).items()}
    reply = await send_or_retry(
        method,
        url,
        headers={
            **content_type,
            **own_headers,
            **headers_of_run(run.signing_keys(), run.key, run.execution_id, run.attempt, content or b""),
        },
        content=content,
    )
    if 200 <= reply.status < 300 or reply.status == HTTPStatus.NOT_MODIFIED:
        return {"status": reply.status, "body": beginning(reply, MAX_RESULT_CHARACTERS, run)}
    problem = f"{urlsplit(url).hostname} answered {reply.status}"
    if 300 <= reply.status < 400:
        raise redirect(reply, problem, "use the final address", run)
    raise failure(reply, problem, beginning(reply, MAX_ERROR_CHARACTERS, run))


async def with_secrets(
    url: str, headers: Headers | None, body: JsonValue, names: set[str], run: Run
) -> tuple[str, Headers | None, JsonValue]:
    """Fill in secrets, if they may go to the host of the URL; raises Final otherwise."""
    secrets = await run.secrets(names, host=outbound.Target.parse(without_references(url)).place)
    filled = fill_in_secrets(headers, secrets)
    for name, value in (filled or {}).items():
        if problem := shape_problem(name, value):
            raise Final(f"A secret does not fit: {problem}.")
    return fill_in_secrets(url, secrets, escape_for_url), filled, fill_in_secrets(body, secrets)


def _webhook_body(body: JsonValue) -> tuple[bytes | None, dict[str, str]]:
    if body is None:
        return None, {}
    if isinstance(body, str):
        return body.encode(), {"content-type": "text/plain; charset=utf-8"}
    return json.dumps(body, ensure_ascii=False).encode(), {"content-type": "application/json"}
