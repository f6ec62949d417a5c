"""Hosted agents: send a prompt to an address, and read the answer from the reply."""

import json
from collections.abc import Mapping

from schedules.agents.recording import Recorder
from schedules.agents.reports import LONGEST_ANSWER, mapping_of, number_of, text_of
from schedules.tasks import outbound
from schedules.tasks.interface import Run
from schedules.tasks.outbound.signing import headers_of_run
from schedules.tasks.processes.running import STANDARD_OUTPUT


async def ask(
    url: str,
    headers: Mapping[str, str],
    prompt: str,
    run: Run,
    recorder: Recorder,
    timeout: float,
    *,
    key: str,
) -> None:
    """Send a prompt, signed like a webhook, and add the reply to the report; the operator chose the address.

    `key` is the idempotency key: the agent works only once on prompts with the same key.
    """
    report = recorder.report
    content = json.dumps(
        {"prompt": prompt, "job": run.job_id, "run": run.execution_id, "attempt": run.attempt},
        ensure_ascii=False,
    ).encode()
    own_headers = {
        "Content-Type": "application/json",
        **headers_of_run(run.signing_keys(), key, run.execution_id, run.attempt, content),
    }
    try:
        reply = await outbound.send(
            "POST", url, headers={**headers, **own_headers}, content=content, trusted=True, timeout=timeout
        )
    except outbound.OutboundError as error:
        report.problem = str(error)
        return
    recorder.output.add(STANDARD_OUTPUT, reply.text.encode("utf-8", "replace"))
    report.has_ended = not reply.truncated
    if not 200 <= reply.status < 300:
        report.problem = (
            f"{outbound.Target.parse(url).host} answered {reply.status}: {reply.text[:300].strip()}"
        )
        return
    report.answer = reply.text[:LONGEST_ANSWER]
    try:
        fields = mapping_of(json.loads(reply.text))
    except (ValueError, RecursionError):
        return
    if isinstance(fields.get("answer"), str):
        report.answer = text_of(fields["answer"])[:LONGEST_ANSWER]
        report.problem = text_of(fields.get("error"))[:1000]
        report.session_id = text_of(fields.get("session_id"))
        report.raise_tokens(number_of(fields.get("input_tokens")), number_of(fields.get("output_tokens")))
