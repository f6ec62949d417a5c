"""Gates: ask a command or an address whether anything has changed, before a prompt wakes an agent."""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from schedules import limits
from schedules.models import PromptGate
from schedules.secrets.references import names_in, without_references
from schedules.tasks.argument_types import is_address
from schedules.tasks.builtin import with_secrets
from schedules.tasks.commands.catalog import catalog
from schedules.tasks.commands.output import KeptOutput
from schedules.tasks.database_threads import in_thread
from schedules.tasks.interface import Final, RetryLater, Run
from schedules.tasks.placeholders import LONGEST_PART
from schedules.tasks.processes.running import STANDARD_OUTPUT
from schedules.tasks.replies import beginning, failure, redirect, send_or_retry

# The exit code by which a command says that nothing has changed.
UNCHANGED = 1
MAX_QUOTED_CHARACTERS = 200


class GateAnswer(NamedTuple):
    """What a gate answered."""

    is_changed: bool
    summary: str
    body: str
    digest: str = ""
    """Of an address's reply, to recognise it next time."""

    def as_json(self) -> dict[str, Any]:
        return {"body": self.body, "words": self.summary, "digest": self.digest}


async def ask_gate(
    gate: str, arguments: Mapping[str, Any] | None, headers: Mapping[str, str] | None, run: Run
) -> GateAnswer:
    """Ask a gate whether anything has changed; raises Final or RetryLater if it cannot tell."""
    try:
        if is_address(gate):
            return await _ask_address(gate, headers, run)
        return await _ask_command(gate, arguments or {}, run)
    except (Final, RetryLater) as error:
        error.args = (f"The gate failed: {error}", *error.args[1:])
        raise


async def _ask_address(address: str, headers: Mapping[str, str] | None, run: Run) -> GateAnswer:
    """Compare the reply of an address with the one that last woke an agent."""
    host = urlsplit(without_references(address)).hostname
    own_headers: dict[str, str] | None = dict(headers) if headers else None
    if names := names_in([address, own_headers]):
        address, own_headers, _ = await with_secrets(address, own_headers, None, names, run)
    reply = await send_or_retry("GET", address, headers=own_headers)
    problem = f"{host} answered {reply.status}"
    if 300 <= reply.status < 400:
        raise redirect(reply, problem, "use the final address", run)
    if not 200 <= reply.status < 300:
        raise failure(reply, problem, beginning(reply, MAX_QUOTED_CHARACTERS, run))
    digest = hashlib.sha256(reply.text.encode("utf-8", "replace")).hexdigest()
    is_changed = digest != await in_thread(_last_digest, run.job_id)
    # With a line break, the masker does not mistake the last word for the beginning of a secret.
    body = run.mask_cut(limits.clean_output(reply.text[:LONGEST_PART]) + "\n").strip()
    await _save_as_output(body, run)
    summary = f"{host} has changed." if is_changed else f"Nothing changed at {host}."
    return GateAnswer(is_changed, summary, body, digest)


async def _ask_command(name: str, arguments: Mapping[str, Any], run: Run) -> GateAnswer:
    """Run a command: exit code 0 means that something changed, 1 that nothing did, any other that it failed."""
    task = catalog.get(name)
    if task is None:
        raise Final(f"Unknown command: {name[:100]}. {catalog.short_problem}".strip())
    try:
        result = await task.call(run, [], arguments)
    except RetryLater as error:
        result = error.result
        if not isinstance(result, Mapping) or result.get("exit_code") != UNCHANGED:
            raise
    body = str(result["output"]).strip()
    last_line = f": {body.splitlines()[-1]}" if body else "."
    if result["exit_code"] == UNCHANGED:
        return GateAnswer(False, f"Nothing changed: {name} ended with code 1{last_line}", body)
    return GateAnswer(True, f"{name} ended with code 0{last_line}", body)


async def _save_as_output(text: str, run: Run) -> None:
    """Show the reply of an address as the output of the run, until the agent writes its own."""
    output = KeptOutput(LONGEST_PART * 4)
    output.add(STANDARD_OUTPUT, text.encode("utf-8", "replace"))
    output.finish()
    await run.save_output(output.text)


def _last_digest(job_id: str) -> str:
    rows = PromptGate.objects.filter(job__public_id=job_id)
    return rows.values_list("digest", flat=True).first() or ""
