"""The endpoint of trigger addresses, which starts a run."""

import asyncio
import json
from http import HTTPStatus
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt

from schedules.limits import TRIGGER_BODY_BYTES
from schedules.models import Execution
from schedules.result import Err
from schedules.services.jobs.addresses import digest_of
from schedules.services.long_answers import give_up_place, read_while_waiting
from schedules.services.people.hourly_limits import network_of
from schedules.services.runs.triggering import TriggerRequest, TriggerResult, run_of_trigger, trigger
from schedules.web.messages import message_of, status_of
from schedules.web.pings.limits import PingLimits

MAX_WAIT_SECONDS = 60
POLL_SECONDS = 0.25
# Beyond this many waiting senders, others get the address of the run at once.
MAX_WAITING = 20
limits = PingLimits("CRONTY_TRIGGERS_PER_MINUTE")
_waiting: set[int] = set()


@csrf_exempt
@login_not_required
async def called(request: HttpRequest, key: str) -> HttpResponse:
    """Start a run of the job with this key, and return its address: at once, or with `?wait=30`, when it has ended."""
    if request.method != "POST":
        return _problem(405, "Send a POST request.", {"Allow": "POST"})
    client = network_of(request.META.get("REMOTE_ADDR", "")) or ""
    digest = digest_of(key)
    if not limits.allow(digest, client):
        return _problem(429, "Too many requests: try again in a minute.", {"Retry-After": "60"})
    wait = _wait_seconds(request)
    if wait is None:
        return _problem(422, f"wait: give 0 to {MAX_WAIT_SECONDS} seconds.")
    body = request.read(TRIGGER_BODY_BYTES + 1)
    if len(body) > TRIGGER_BODY_BYTES:
        return _problem(413, f"The body may have at most {TRIGGER_BODY_BYTES:,} bytes.")
    headers = {name.lower(): value for name, value in request.headers.items()}
    result = await sync_to_async(trigger)(TriggerRequest(key, body, headers))
    if isinstance(result, Err):
        status = status_of(result)
        limits.note(digest, client, status)
        retry = {"Retry-After": str(max(1, result.seconds))} if result.retry_after is not None else {}
        return _problem(status, message_of(result), retry)
    limits.note(digest, client, HTTPStatus.OK)
    return _answer(await _wait_for_end(request, result.value, wait))


def _wait_seconds(request: HttpRequest) -> int | None:
    """Return how long the sender wants to wait, or None if that is invalid."""
    text = request.GET.get("wait", "0")
    is_number = text.isascii() and text.isdecimal() and len(text) < 4
    return int(text) if is_number and int(text) <= MAX_WAIT_SECONDS else None


async def _wait_for_end(request: HttpRequest, triggered: TriggerResult, wait: int) -> TriggerResult:
    """Wait until the run has ended, but no longer than the sender wants."""
    run = triggered.run
    if run is None or not wait or len(_waiting) >= MAX_WAITING:
        return triggered
    ticket = id(triggered)
    _waiting.add(ticket)
    try:
        await give_up_place(request)
        for _ in range(int(wait / POLL_SECONDS)):
            if run.finished_at:
                break
            await asyncio.sleep(POLL_SECONDS)
            run = await read_while_waiting(run_of_trigger)(run.pk) or run
    finally:
        _waiting.discard(ticket)
    return triggered._replace(run=run)


def _answer(result: TriggerResult) -> HttpResponse:
    run = result.run
    if run is None:
        return JsonResponse({"run": None})
    address = reverse("schedules:run", args=[run.pk])
    content: dict[str, Any] = {
        "run": run.pk,
        "status": run.status,
        "url": f"{settings.CRONTY_URL.rstrip('/')}{address}",
        "repeated": result.is_repeated,
    }
    is_over = run.status in Execution.FINAL
    response = JsonResponse(content, status=200 if is_over or result.is_repeated else 202)
    response["Location"] = address
    response["Cache-Control"] = "no-store"
    return response


def _problem(status: int, detail: str, headers: dict[str, str] | None = None) -> HttpResponse:
    content = {"title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return HttpResponse(
        json.dumps(content), status=status, content_type="application/problem+json", headers=headers
    )
