"""JSON documents of what people have besides jobs: calendars, channels, incidents, events, tokens and pings."""

from typing import Any

from schedules.channels.webhook import WEBHOOK
from schedules.models import (
    Event,
    Execution,
    Job,
    Ping,
    Token,
)
from schedules.secrets import masking
from schedules.services.activity import changes_of_event
from schedules.services.documents import iso_in, next_run_of
from schedules.services.jobs.addresses import PingAddress
from schedules.services.jobs.forecasts import words_of
from schedules.services.people.calendars import ShownCalendar
from schedules.services.people.channels import ListedChannel
from schedules.services.people.incidents import ShownIncident
from schedules.services.permissions import Actor
from schedules.tasks.heartbeat import grace_of
from schedules.when import durations


def event_json(event: Event, zone: str) -> dict[str, Any]:
    """Return an event with its changes in words; its stored values are already masked."""
    return {
        "id": event.pk,
        "at": iso_in(event.at, zone),
        "actor": event.actor,
        "door": event.door,
        "verb": event.verb,
        "job_id": event.job.public_id if event.job else None,
        "subject": event.subject,
        "undoes": event.undoes,
        "changes": [change.text for change in changes_of_event(event, zone)],
        "before": event.before,
        "after": event.after,
    }


def calendar_json(calendar: ShownCalendar) -> dict[str, Any]:
    return {
        "name": calendar.name,
        "kind": calendar.kind,
        "closes": calendar.closes,
        "timezone": calendar.timezone or None,
        "description": calendar.words,
        "place": calendar.place or None,
        "categories": list(calendar.categories),
        "lines": list(calendar.lines),
        "days": [{"day": day.isoformat(), "title": title} for day, title in calendar.days],
        "source": calendar.source or None,
        "read_at": calendar.read_at.isoformat() if calendar.read_at else None,
        "error": calendar.last_error or None,
        "until": calendar.until.isoformat() if calendar.until else None,
        "jobs": list(calendar.jobs),
    }


def channel_json(channel: ListedChannel) -> dict[str, Any]:
    """Return a channel without its secrets."""
    return {
        "name": channel.name,
        "kind": channel.kind.name,
        "options": dict(channel.options),
        "confirmed": channel.is_confirmed,
        "default": channel.is_default,
        "alerts": channel.is_for_alerts,
        "last_sent_at": channel.last_sent_at.isoformat() if channel.last_sent_at else None,
        "last_error": channel.last_error or None,
        "on": channel.is_on if channel.kind is WEBHOOK else None,
        "off_reason": channel.off_reason or None,
    } | ({"secret": channel.new_secret} if channel.new_secret else {})


def delivery_json(row: Execution) -> dict[str, Any]:
    """Return one delivery of an event."""
    event = (row.given or {}).get("event") or {}
    is_retried = row.available_at is not None and row.finished_at is None
    return {
        "id": row.pk,
        "event_id": event.get("id"),
        "type": event.get("type"),
        "status": row.status,
        "attempts": row.attempt,
        "at": row.scheduled_for.isoformat(),
        "finished_at": row.finished_at.isoformat() if row.finished_at else None,
        "next_attempt_at": row.available_at.isoformat() if row.available_at and is_retried else None,
        "answer": row.result if isinstance(row.result, dict) else None,
        "error": row.error or row.reason or None,
    }


def heartbeat_json(actor: Actor, job: Job, address: PingAddress) -> dict[str, Any]:
    """Return a job that runs elsewhere; agents do not see the address with the ping key, which works for all jobs."""
    heartbeat, zone = address.heartbeat, job.timezone
    took = heartbeat.last_duration
    return {
        "id": job.public_id,
        "name": job.name,
        "status": job.state,
        "schedule": words_of(job),
        "timezone": zone,
        "next_run": iso_in(next_run_of(job), zone),
        "grace": durations.typed(grace_of(job.args, job.kwargs)),
        "ping_url": address.url,
        "ping_url_by_name": None if actor.is_agent else address.named_url or None,
        "pings": heartbeat.pings,
        "last_ping_at": iso_in(heartbeat.last_ping_at, zone),
        "last_ping": heartbeat.last_kind or None,
        "last_success_at": iso_in(heartbeat.last_success_at, zone),
        "last_seconds": took.total_seconds() if took is not None else None,
    }


def ping_json(ping: Ping, zone: str) -> dict[str, Any]:
    return {
        "at": iso_in(ping.at, zone),
        "kind": ping.kind,
        "run_id": str(ping.rid) if ping.rid else None,
        "exit_code": ping.exit_status,
        "late_by": ping.late_by.total_seconds() if ping.late_by else None,
        "sender": ping.sender or None,
        "run": ping.execution_id,
    }


def incident_json(shown: ShownIncident, zone: str) -> dict[str, Any]:
    """Return an incident with its description, its newest alerts, and why the last one has not arrived."""
    incident = shown.incident
    return {
        "id": incident.pk,
        "kind": incident.kind,
        "name": incident.name,
        "job_id": incident.job.public_id if incident.job else None,
        "is_open": incident.is_open,
        "opened_at": iso_in(incident.opened_at, zone),
        "ended_at": iso_in(incident.ended_at, zone),
        "ending": incident.ending or None,
        "details": masking.masked(incident.details) or None,
        "alerts": incident.told,
        "last_alert_at": iso_in(incident.told_at, zone),
        "next_alert_at": iso_in(incident.due_at, zone),
        "snoozed_until": iso_in(incident.snoozed_until, zone),
        "snoozed_by": incident.snoozed_by or None,
        "description": shown.words,
        "delivery": shown.delivery_with_error or None,
        "plan": shown.plan or None,
        "sent": [
            {"at": iso_in(each.at, zone), "title": each.title, "text": each.text, "place": each.place}
            for each in shown.sent
        ],
    }


def token_json(token: Token, zone: str) -> dict[str, Any]:
    """Return a token without its text."""
    return {
        "name": token.name,
        "kind": token.kind,
        "scopes": token.scopes,
        "tools": token.families,
        "confirm": token.confirm,
        "created_at": iso_in(token.created_at, zone),
        "expires_at": iso_in(token.expires_at, zone),
        "last_used_at": iso_in(token.last_used_at, zone),
    }
