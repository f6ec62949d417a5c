"""Operations on what a person has besides jobs: preferences, calendars, channels, secrets, tokens and alerts."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, cast

from schedules import __version__, clock, engine
from schedules.channels.catalog import KINDS
from schedules.models import Channel, Event, Incident, Token
from schedules.result import Code, Document, Err, RefusedError, expect, invalid, operation
from schedules.services.documents import iso_in
from schedules.services.listing import position_of
from schedules.services.people import (
    access,
    calendars,
    channel_tests,
    channels,
    incidents,
    stored_secrets,
    tokens,
    webhooks,
)
from schedules.services.people.calendars import CalendarSpec
from schedules.services.people.documents import (
    calendar_json,
    channel_json,
    delivery_json,
    incident_json,
    token_json,
)
from schedules.services.people.preferences import Preferences, preferences_of, set_preferences
from schedules.services.people.stored_secrets import ListedSecret
from schedules.services.permissions import Actor
from schedules.services.reading import read_value
from schedules.spec.readers import read_span


@operation
def show_me(actor: Actor, *, own: Token | None = None) -> Document:
    """Say whose token this is, what it allows, where notifications and alerts go, and whether a worker is running.

    A channel goes before the topic.
    """
    profile = actor.read_profile()
    return {
        "user": actor.user.get_username(),
        "token": own.name if own else None,
        "kind": own.kind if own else None,
        "scopes": own.scopes if own else list(tokens.SCOPES),
        "tools": (own.families if own else None) or list(tokens.FAMILIES),
        "expires_at": iso_in(own.expires_at, profile.zone) if own else None,
        "timezone": profile.zone,
        "default_topic": profile.default_topic,
        "default_channel": profile.channel,
        "alert_topic": profile.failure_topic,
        "alert_channel": profile.alert_channel,
        "version": __version__,
        "is_worker_running": engine.is_any_cluster_running(clock.now()),
    }


@operation
def show_preferences(actor: Actor) -> Document:
    """Show the preferences of the token's owner."""
    return preferences_of(actor.read_profile())


@operation
def change_preferences(actor: Actor, **given: Any) -> Document:
    """Change the preferences that are given."""
    if given.get("alert_every") is not None:
        given["alert_every"] = int(read_value(read_span, given["alert_every"], "alert_every").total_seconds())
    return preferences_of(expect(set_preferences(actor, **cast(Preferences, given))))


@operation
def list_calendars(actor: Actor) -> Document:
    """List calendars, with the next days that they mark and the jobs that use them."""
    return {"calendars": [calendar_json(each) for each in calendars.list_calendars(actor)]}


@operation
def set_calendar(actor: Actor, calendar: str, **values: Any) -> Document:
    """Add a calendar, or replace the one of this name; the jobs that use it follow at once."""
    return calendar_json(expect(calendars.set_calendar(actor, _calendar(calendar, values))))


@operation
def preview_calendar(actor: Actor, calendar: str, **values: Any) -> Document:
    """Show a calendar as it would be; nothing is stored."""
    return calendar_json(expect(calendars.preview_calendar(actor, _calendar(calendar, values))))


@operation
def delete_calendar(actor: Actor, calendar: str) -> Document:
    """Delete a calendar that no job uses."""
    return {"deleted": expect(calendars.delete_calendar(actor, calendar))}


def _calendar(name: str, values: Any) -> CalendarSpec:
    others = [each for each in values.pop("categories", ()) if each != "public"]
    return CalendarSpec(name, categories=["public", *others], **values)


@operation
def list_channels(actor: Actor) -> Document:
    """List channels without their secrets. Only a token of the type Program sees them."""
    if actor.is_agent:
        raise RefusedError(Err(Code.CHANNELS_BY_PEOPLE))
    return {"channels": [channel_json(each) for each in channels.list_channels(actor)]}


@operation
def set_channel(actor: Actor, channel: str, *, kind: str, values: Mapping[str, str]) -> Document:
    """Add a channel, or replace everything about the one of this name; send a test afterwards.

    A new webhook gets a secret to check signatures with, which is in this answer alone.
    """
    fields = KINDS[kind].fields if kind in KINDS else ()
    names = [field.name for field in fields if not field.is_generated] if fields else list(values)
    for name in values:
        if name not in names:
            raise RefusedError(invalid(f"values.{name}", f"unknown field; choose from {', '.join(names)}"))
    return channel_json(expect(channels.set_channel(actor, channel, kind, values)))


@operation
def test_channel(actor: Actor, channel: str) -> Document:
    """Send a test message, or the code to an e-mail address that is not confirmed yet."""
    tested = expect(channel_tests.send_test(actor, channel))
    return {"sent": tested.is_sent, "message": tested.message}


@operation
def confirm_channel(actor: Actor, channel: str, *, code: str) -> Document:
    """Confirm an e-mail address with the code that was sent there."""
    return {"confirmed": expect(channels.confirm_channel(actor, channel, code))}


@operation
def rename_channel(actor: Actor, channel: str, *, name: str) -> Document:
    """Give a channel another name; refused while jobs use it."""
    return {"renamed": expect(channels.rename_channel(actor, channel, name))}


@operation
def delete_channel(actor: Actor, channel: str) -> Document:
    """Delete a channel; refused while jobs use it."""
    return {"deleted": expect(channels.delete_channel(actor, channel))}


@operation
def switch_channel_on(actor: Actor, channel: str) -> Document:
    """Tell a webhook of events again."""
    return _webhook(actor, expect(webhooks.switch_webhook(actor, channel, is_on=True)))


@operation
def switch_channel_off(actor: Actor, channel: str) -> Document:
    """Tell a webhook of no events: until it is on again, none are kept for it."""
    return _webhook(actor, expect(webhooks.switch_webhook(actor, channel, is_on=False)))


@operation
def rotate_channel_secret(actor: Actor, channel: str) -> Document:
    """Give a webhook a new secret; for a day, requests are signed with both."""
    return _webhook(actor, *expect(webhooks.rotate_secret(actor, channel)))


@operation
def list_channel_deliveries(actor: Actor, channel: str) -> Document:
    """List the last 50 events that were sent to a webhook, newest first."""
    row = expect(webhooks.find_webhook(actor, channel))
    return {"deliveries": [delivery_json(each) for each in webhooks.list_deliveries(row)]}


@operation
def send_event_again(actor: Actor, channel: str, delivery: int) -> Document:
    """Send an event again, with the same event id."""
    return delivery_json(expect(webhooks.redeliver(actor, channel, delivery)))


def _webhook(actor: Actor, row: Channel, secret: str | None = None) -> Document:
    return channel_json(channels.listed_channel(actor, row, secret))


@operation
def list_secrets(actor: Actor) -> Document:
    """List secrets without their values. Only a token of the type Program sees them."""
    if actor.is_agent:
        raise RefusedError(Err(Code.SECRETS_HIDDEN_FROM_AGENTS))
    zone = actor.read_profile().zone
    return {"secrets": [_secret_json(each, zone) for each in stored_secrets.list_secrets(actor)]}


@operation
def set_secret(
    actor: Actor,
    secret: str,
    *,
    value: str,
    hosts: Sequence[str] = (),
    commands: Sequence[str] = (),
    expires_at: str | None = None,
    of_installation: bool = False,
) -> Document:
    """Set a secret, with the hosts and commands that it may go to; nothing ever shows its value again.

    Only a token of the type Program may do this.
    """
    stored = stored_secrets.set_secret(
        actor,
        secret,
        value,
        hosts=hosts,
        commands=commands,
        expires=expires_at or "",
        of_installation=of_installation,
    )
    return _secret_json(expect(stored), actor.read_profile().zone)


@operation
def move_secret_expiry(
    actor: Actor, secret: str, *, expires_at: str | None, of_installation: bool = False
) -> Document:
    """Change when a secret expires, without setting its value again.

    Only a token of the type Program may do this.
    """
    moved = stored_secrets.move_expiry(actor, secret, expires_at or "", of_installation=of_installation)
    return _secret_json(expect(moved), actor.read_profile().zone)


@operation
def delete_secret(actor: Actor, secret: str, *, of_installation: bool = False) -> Document:
    """Delete a secret; runs that refer to it fail from now on."""
    expect(stored_secrets.delete_secret(actor, secret, of_installation=of_installation))
    return {"deleted": secret}


def _secret_json(secret: ListedSecret, zone: str) -> Document:
    return {
        "name": secret.name,
        "hosts": list(secret.hosts),
        "commands": list(secret.commands),
        "of_installation": secret.of_installation,
        "updated_at": iso_in(secret.updated_at, zone),
        "expires_at": iso_in(secret.expires_at, zone),
        "expired": secret.is_expired,
    }


@operation
def list_tokens(actor: Actor) -> Document:
    """List the tokens of the owner, without their texts."""
    zone = actor.read_profile().zone
    return {"tokens": [_listed_token(token, zone) for token in access.own_tokens(actor)]}


@operation
def create_token(
    actor: Actor,
    *,
    name: str,
    scopes: Collection[str],
    tools: Collection[str] = (),
    kind: str,
    confirm: str | None = None,
    expires_in_days: float | None = None,
    own: Token | None = None,
) -> Document:
    """Create a token that may do no more than this one, and ends no later, within 30 days; its text is shown once.

    Only a token of the type Program may do this.
    """
    settings: dict[str, Any] = {"name": name, "scopes": [*scopes], "families": [*tools], "kind": kind}
    expires_in = None if expires_in_days is None else timedelta(days=expires_in_days)
    if own:
        issued = access.issue_lesser_token(
            actor,
            own,
            **settings,
            confirm=confirm or own.confirm,
            expires_in=expires_in or access.LONGEST_LIFE,
        )
    else:
        issued = tokens.issue_token(
            actor.user,
            **settings,
            confirm=confirm or Token.Confirm.NEVER,
            expires_in=expires_in,
            door=Event.Door.TERMINAL,
        )
    made = expect(issued)
    return _listed_token(made.token, actor.read_profile().zone) | {"text": made.text}


@operation
def revoke_token(actor: Actor, token: int, *, own: Token | None = None) -> Document:
    """Revoke a token of the owner at once; only a token of the type Program may revoke others than itself."""
    if own:
        revoked = access.revoke_own_token(actor, own, token)
    else:
        revoked = tokens.revoke_token(actor.user, token, door=Event.Door.TERMINAL)
    return _listed_token(expect(revoked), actor.read_profile().zone)


def _listed_token(token: Token, zone: str) -> Document:
    return {
        "id": token.pk,
        **token_json(token, zone),
        "revoked_at": iso_in(token.revoked_at, zone),
        "is_connected_app": token.oauth_client is not None,
    }


@operation
def list_incidents(
    actor: Actor, *, state: str | None = None, limit: int = incidents.MAX_LISTED, cursor: str = ""
) -> Document:
    """List what went wrong, open incidents first, then those that have ended, both the newest first.

    `description` says since when, how it ended and which alerts were sent; `delivery`, why the last alert has not arrived.
    """
    is_open = None if state is None else state == "open"
    page = incidents.read_incidents(actor, position_of(cursor), limit, is_open=is_open)
    return {"incidents": _incidents_json(actor, page.rows), "next_cursor": page.after or None}


@operation
def show_incident(actor: Actor, incident: int) -> Document:
    """Show an incident, and what was sent about it."""
    return _incidents_json(actor, [expect(incidents.find_incident(actor, incident))])[0]


@operation
def snooze_incident(actor: Actor, incident: int, *, until: str | None = None) -> Document:
    """Send no alert about an open incident until a time, or for a day; its end is still announced.

    Only a token of the type Program may do this.
    """
    expect(incidents.snooze_incident(actor, incident, until or ""))
    return _incidents_json(actor, [expect(incidents.find_incident(actor, incident))])[0]


def _incidents_json(actor: Actor, rows: list[Incident]) -> list[Document]:
    zone = actor.read_profile().zone
    return [incident_json(shown, zone) for shown in incidents.described(rows, zone)]
