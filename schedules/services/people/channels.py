"""Channels of a person: add, confirm, rename and delete them; agents see only their names."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from django.db import transaction
from django.db.models import Q
from django.utils.crypto import constant_time_compare, salted_hmac

from schedules import clock, engine, limits
from schedules.channels.catalog import KINDS
from schedules.channels.kinds import ChannelKind
from schedules.channels.mail import EMAIL
from schedules.channels.operator_services import catalog as operator_services
from schedules.channels.stored import is_staff
from schedules.channels.webhook import WEBHOOK, chosen_events, new_secret
from schedules.models import Channel, Job, Profile
from schedules.models.alert_rules import stored_rules
from schedules.result import Code, Err, Ok, Result, invalid, invalid_fields
from schedules.secrets.encryption import seal
from schedules.services.jobs.references import resolve_job
from schedules.services.people.profiles import profile_of
from schedules.services.people.stored_secrets import current_key
from schedules.services.people.webhooks import end_deliveries, follow_with_job, secrets_of_webhook
from schedules.services.permissions import Actor, record_setting
from schedules.services.quotas import wait_for_turn
from schedules.tasks import outbound, registry

MAX_CHANNELS = 50
PREFIX = limits.CHANNEL_PREFIX


@dataclass(frozen=True)
class ListedChannel:
    """A channel without its secrets."""

    number: int
    name: str
    kind: ChannelKind
    options: Mapping[str, str]
    is_confirmed: bool
    is_default: bool
    is_for_alerts: bool
    last_sent_at: datetime | None
    last_failed_at: datetime | None
    last_error: str
    is_on: bool
    """Whether it is told of events; False for kinds that are told of none."""
    off_reason: str
    old_until: datetime | None
    new_secret: str | None = None
    """The secret of a webhook that was just created, which cannot be read again later."""

    @classmethod
    def of(cls, row: Channel, profile: Profile, new_secret: str | None = None) -> Self:
        # What a webhook was told is in the ledger of its job.
        times = (row.last_sent_at, row.job.last_success_at if row.job else None)
        sent_at = max((at for at in times if at), default=None)
        return cls(
            row.pk,
            row.name,
            KINDS[row.kind],
            row.options,
            row.confirmed_at is not None,
            row.name == profile.channel,
            row.name == profile.alert_channel,
            sent_at,
            row.last_failed_at or (row.job and row.job.last_error and row.job.last_run_at) or None,
            row.last_error or (row.job.last_error if row.job else ""),
            row.is_on,
            row.job.pause_reason if row.job and not row.is_on else "",
            row.old_until,
            new_secret,
        )

    @property
    def shown(self) -> list[tuple[str, str]]:
        """The fields that are no secrets, with their labels."""
        return [
            (field.label, self.options[field.name])
            for field in self.kind.fields
            if self.options.get(field.name) and not field.choices
        ]


def list_channels(actor: Actor) -> list[ListedChannel]:
    """Return the channels of this person; agents get names by `channel_names`."""
    if actor.is_agent:
        return []
    profile = profile_of(actor.user)
    rows = Channel.objects.filter(owner=actor.user.pk, kind__in=KINDS).select_related("job")
    return [ListedChannel.of(row, profile) for row in rows.order_by("name")]


def listed_channel(actor: Actor, row: Channel, new_secret: str | None = None) -> ListedChannel:
    """Return one stored channel of this person as lists show it."""
    return ListedChannel.of(row, profile_of(actor.user), new_secret)


def kinds_for(actor: Actor) -> dict[str, ChannelKind]:
    """Return the kinds that this person can choose, by name."""
    may_use_all = is_staff(actor.user)
    return {
        name: kind
        for name, kind in KINDS.items()
        if not kind.is_for_staff or (may_use_all and operator_services.content())
    }


def channel_names(actor: Actor) -> list[str]:
    """Return the names of the person's channels."""
    rows = Channel.objects.filter(owner=actor.user.pk, kind__in=KINDS)
    return list(rows.order_by("name").values_list("name", flat=True))


def channel_called(owner_id: int, name: str) -> str | None:
    """Return the exact name of the channel with this name in any case, or None."""
    if not limits.CHANNEL_NAME.fullmatch(name):
        return None
    return Channel.objects.filter(owner=owner_id, name__iexact=name).values_list("name", flat=True).first()


def place_of(owner_id: int, text: str) -> dict[str, str]:
    """Return the argument of the task notify for a text: a channel if one has this name, else a topic."""
    name = text.removeprefix(PREFIX).strip()
    if channel := channel_called(owner_id, name):
        return {"channel": channel}
    return {"channel": name} if text.startswith(PREFIX) else {"topic": text}


def place_text(owner_id: int, text: str) -> str:
    """Return the same place as `channel:NAME` if it is a channel, else the topic."""
    place = place_of(owner_id, text)
    return f"{PREFIX}{place['channel']}" if "channel" in place else place["topic"]


def set_channel(actor: Actor, name: str, kind_name: str, values: Mapping[str, str]) -> Result[ListedChannel]:
    """Add a channel, or replace all settings of the one with this name."""
    if actor.is_agent:
        return Err(Code.CHANNELS_BY_PEOPLE)
    offered, name = kinds_for(actor), name.strip()
    kind = offered.get(kind_name)
    if kind is None:
        return invalid("kind", f"Choose one of: {', '.join(offered)}.")
    if problem := name_problem(name):
        return invalid("name", problem)
    settings = {field.name: (values.get(field.name) or "").strip() or field.default for field in kind.fields}
    if problems := _value_problems(kind, settings):
        return invalid_fields(problems)
    if kind is WEBHOOK:
        filtered = _filter_of(actor, settings)
        if isinstance(filtered, Err):
            return filtered
        settings = filtered.value
    secret_names = {field.name for field in kind.fields if field.is_secret}
    now = clock.now()
    with transaction.atomic():
        profile = profile_of(actor.user)
        wait_for_turn(profile)
        mine = Channel.objects.filter(owner=actor.user.pk).select_related("job", "owner")
        row = mine.filter(name__iexact=name).first()
        if row is None and mine.count() >= MAX_CHANNELS:
            return Err(Code.TOO_MANY_CHANNELS, limit=MAX_CHANNELS)
        before = facts_of(row) if row else {}
        secrets = {key: value for key, value in settings.items() if value and key in secret_names}
        made_secret: str | None = None
        if kind is WEBHOOK:
            opened = secrets_of_webhook(row) if row and row.kind == kind.name else Ok({})
            if isinstance(opened, Err):
                return opened
            secrets = opened.value
            if not secrets:
                made_secret = new_secret()
                secrets = {"secret": made_secret}
        key = current_key() if secrets else ""
        if key is None:
            return Err(Code.SECRET_KEY_CHANGED)
        row = row or Channel(owner_id=actor.user.pk, name=name, created_at=now)
        row.kind, row.updated_at = kind.name, now
        row.options = {key: value for key, value in settings.items() if value and key not in secret_names}
        row.sealed = seal(json.dumps(secrets), row.place, key) if secrets else ""
        row.confirmed_at = _confirmed_at(actor, row, before, now)
        row.last_sent_at = row.last_failed_at = None
        row.last_error = ""
        if refusal := follow_with_job(actor, row, now):
            return refusal
        row.save()
        record_setting(actor, "set channel", row.name, now, before=before, after=facts_of(row))
        if not profile.channel and not profile.default_topic and row.confirmed_at and kind is not WEBHOOK:
            # Notifications go to the first channel, unless a topic is set.
            Profile.objects.filter(pk=profile.pk).update(channel=row.name)
    return Ok(ListedChannel.of(row, profile_of(actor.user), made_secret))


def _filter_of(actor: Actor, settings: Mapping[str, str]) -> Result[dict[str, str]]:
    """Return the settings of a webhook with its events in order and the id of the job that it is limited to."""
    reference, job_id = settings["job"], ""
    if reference:
        match = resolve_job(Job.objects.owned_by(actor.user.pk).kept(), reference)
        if isinstance(match, Err):
            return match
        if match.value is None:
            return invalid("job", f"There is no job {reference[:100]}.")
        job_id = match.value.public_id
    return Ok({**settings, "events": chosen_events(settings["events"]), "job": job_id})


def facts_of(row: Channel) -> dict[str, str]:
    """Return what an event about a change records: of a webhook's address only the host, because it may contain a key."""
    options = dict(row.options)
    if row.kind == WEBHOOK.name:
        options["url"] = outbound.Target.parse(options["url"]).place
    return {"kind": row.kind, **options}


def rename_channel(actor: Actor, name: str, new_name: str) -> Result[str]:
    """Give a channel another name; refused while jobs refer to it."""
    new_name = new_name.strip()
    if problem := name_problem(new_name):
        return invalid("name", problem)
    with transaction.atomic():
        channel = _unused(actor, name)
        if isinstance(channel, Err):
            return channel
        others = Channel.objects.filter(owner=actor.user.pk, name__iexact=new_name).exclude(
            pk=channel.value.pk
        )
        if others.exists():
            return invalid("name", f"There is already a channel {new_name}.")
        row, now = channel.value, clock.now()
        row.name, row.updated_at = new_name, now
        row.save(update_fields=["name", "updated_at"])
        if refusal := follow_with_job(actor, row, now):
            return refusal
        _update_defaults(actor, name, new_name)
        record_setting(
            actor, "rename channel", name, clock.now(), before={"name": name}, after={"name": new_name}
        )
    return Ok(new_name)


def delete_channel(actor: Actor, name: str) -> Result[str]:
    """Delete a channel; refused while jobs refer to it."""
    with transaction.atomic():
        channel = _unused(actor, name)
        if isinstance(channel, Err):
            return channel
        end_deliveries(channel.value, clock.now())
        channel.value.delete()
        _update_defaults(actor, name, "")
        record_setting(actor, "delete channel", name, clock.now())
    return Ok(name)


def confirm_channel(actor: Actor, name: str, code: str) -> Result[str]:
    """Confirm an e-mail address with the code that was sent there."""
    if actor.is_agent:
        return Err(Code.CHANNELS_BY_PEOPLE)
    row = Channel.objects.filter(owner=actor.user.pk, name=name).first()
    if row is None:
        return Err(Code.CHANNEL_NOT_FOUND, name)
    if not constant_time_compare(code.strip().upper(), code_of(row)):
        return Err(Code.CHANNEL_CODE_WRONG, name)
    with transaction.atomic():
        Channel.objects.filter(pk=row.pk, confirmed_at=None).update(confirmed_at=clock.now())
        record_setting(actor, "confirm channel", name, clock.now())
    return Ok(name)


def code_of(row: Channel) -> str:
    """Return the code that confirms exactly this address."""
    return salted_hmac("schedules.channels.confirm", f"{row.pk} {row.place}").hexdigest()[:8].upper()


def name_problem(name: str) -> str | None:
    """Return why a channel cannot have this name, or None."""
    if not limits.CHANNEL_NAME.fullmatch(name):
        return "Use 1 to 40 letters, digits, spaces, - and _, a letter or digit first."
    return (
        f"{name} has another meaning: choose another name." if name.lower() in ("never", "default") else None
    )


def jobs_using(owner_id: int, name: str) -> list[str]:
    """Return the ids of unfinished jobs that refer to a channel."""
    place = f"{PREFIX}{name}"
    notify = registry.get("notify")
    assert notify is not None
    arguments = list(notify.signature.parameters)
    in_notification = Q(kwargs__channel=name) | Q(kwargs__ask__endswith=place)
    in_notification |= Q(**{f"args__{arguments.index('channel')}": name})
    in_notification |= Q(**{f"args__{arguments.index('ask')}__endswith": place})
    by_name = (Q(task="notify") & in_notification) | Q(alerts__contains=place)
    by_name |= Q(task="prompt", kwargs__deliver_to=name)
    jobs = Job.objects.kept().filter(by_name, owner=owner_id, status__in=(*Job.ACTIVE, Job.Status.PAUSED))
    rows = jobs.order_by("-pk").only("public_id", "task", "args", "kwargs", "alerts")
    # Compare exactly, because the name of another channel may begin or end with this one.
    return [job.public_id for job in rows if _refers_to(job, name)][:100]


def _refers_to(job: Job, name: str) -> bool:
    place = f"{PREFIX}{name}"
    ask = engine.asked_by(job)
    return (
        name in (job.argument("channel"), job.argument("deliver_to"))
        or place == stored_rules(job.alerts).place
        or (ask is not None and place == ask.then)
    )


def _value_problems(kind: ChannelKind, settings: Mapping[str, str]) -> dict[str, list[str]]:
    problems = {field.name: field.problem_with(settings[field.name]) for field in kind.fields}
    return {name: [problem] for name, problem in problems.items() if problem}


def _confirmed_at(actor: Actor, row: Channel, before: Mapping[str, str], now: datetime) -> datetime | None:
    """Return when the address was confirmed: only e-mail to somebody else's address needs a confirmation."""
    if row.kind != EMAIL.name:
        return now
    address = row.options["address"]
    if before.get("address") == address:
        return row.confirmed_at
    own = str(getattr(actor.user, "email", "") or "")
    return now if own and own.lower() == address.lower() else None


def _unused(actor: Actor, name: str) -> Result[Channel]:
    if actor.is_agent:
        return Err(Code.CHANNELS_BY_PEOPLE)
    wait_for_turn(profile_of(actor.user))
    row = Channel.objects.filter(owner=actor.user.pk, name=name).select_related("job", "owner").first()
    if row is None:
        return Err(Code.CHANNEL_NOT_FOUND, name)
    if jobs := jobs_using(actor.user.pk, name):
        return Err(Code.CHANNEL_IN_USE, name, limit=len(jobs), matches=tuple(jobs[:3]))
    return Ok(row)


def _update_defaults(actor: Actor, name: str, new_name: str) -> None:
    """Update the person's default channels after one was renamed or deleted."""
    for column in ("channel", "alert_channel"):
        Profile.objects.filter(user=actor.user.pk, **{column: name}).update(**{column: new_name})
