"""Heartbeats: where pings go, which were received, and pings with a token instead of a ping address."""

from datetime import timedelta
from typing import Any

from django.http import HttpRequest
from ninja import Router

from schedules.api.auth import actor_of
from schedules.api.endpoints import changes, reads, route
from schedules.api.problems import problem_of
from schedules.api.schemas.common import Paged
from schedules.api.schemas.heartbeats import (
    HeartbeatsOut,
    PingedOut,
    PingIn,
    WholeHeartbeatOut,
)
from schedules.models import Ping
from schedules.result import Code, Err, expect
from schedules.services import pings
from schedules.services.documents import heartbeat_json, ping_json
from schedules.services.jobs.addresses import newest_pings, ping_addresses_of
from schedules.services.listing import list_heartbeats
from schedules.services.people.hourly_limits import network_of
from schedules.services.permissions import read_activity
from schedules.services.reading import known_job_of

router = Router(tags=["heartbeats"])


route(router, "GET ", list_heartbeats, HeartbeatsOut, query=Paged)


@reads(router, "/{job}", WholeHeartbeatOut)
def show_heartbeat(request: HttpRequest, job: str) -> Any:
    """Show a job that runs elsewhere, with its last pings."""
    actor = actor_of(request)
    target = known_job_of(actor, job)
    address = ping_addresses_of([target]).get(target.pk)
    if address is None:
        raise problem_of(Err(Code.PING_NOT_FOUND))
    read_activity(target)
    return heartbeat_json(actor, target, address) | {
        "received": [ping_json(each, target.timezone) for each in newest_pings(address.heartbeat)]
    }


@changes(router, "POST", "/{job}/ping", {200: PingedOut}, repeatable=False)
def ping_heartbeat(request: HttpRequest, job: str, body: PingIn) -> Any:
    """Report the start or the end of a job that runs elsewhere, like a request to its ping address.

    The report is stored before the answer is sent. One that is repeated with the same `run_id` within 30 seconds, or
    with `late_by`, is stored once.
    """
    actor = actor_of(request)
    kinds = {"start": Ping.Kind.START, "log": Ping.Kind.LOG}
    end_kind = Ping.Kind.FAIL if body.exit_code else Ping.Kind.SUCCESS
    expect(
        pings.report(
            actor,
            known_job_of(actor, job),
            kinds.get(body.kind, end_kind),
            rid=body.run_id,
            exit_status=body.exit_code if body.kind == "end" else None,
            body=body.output,
            sender=network_of(request.META.get("REMOTE_ADDR", "")) or "",
            late_by=timedelta(seconds=body.late_by),
        )
    )
    return {"stored": True}
