"""Validation of jobs: which columns a caller may set, to which values, and what agents and prompts may not do."""

from collections.abc import Collection, Mapping
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models

from schedules import engine, limits
from schedules.agents import choice
from schedules.agents.catalog import AGENT_COMMAND
from schedules.models import Channel, Job
from schedules.models.alert_rules import NEVER, OWNERS, read_rules
from schedules.models.job_texts import names_of
from schedules.models.jobs import argument_of
from schedules.result import Code, Err, Ok, Result, invalid, invalid_fields
from schedules.secrets import references
from schedules.services.people.channels import PREFIX, channel_called, place_of, place_text
from schedules.services.permissions import Actor
from schedules.tasks import registry
from schedules.tasks.argument_types import COMMAND_NAME, is_address
from schedules.tasks.asking import with_place
from schedules.tasks.commands.catalog import catalog
from schedules.tasks.grants import grants_problem
from schedules.tasks.placeholders import NOTIFICATION
from schedules.when.durations import HORIZON, HORIZON_IN_WORDS
from schedules.when.skips import MAX_SKIPS, day_of, slot_entry
from schedules.when.zone_names import zone_named
from schedules.when.zones import in_the_past, local_words

EDITABLE = (
    "name",
    "task",
    "args",
    "kwargs",
    *Job.TRIGGER_FIELDS,
    *Job.POLICY_FIELDS,
    "label",
    "tags",
    "grants",
)
_MAY_BE_EMPTY = ("cron", "label", "calendar_unit", "alerts")
_KINDS: "dict[type[models.Field[Any, Any]], tuple[type, str]]" = {
    models.CharField: (str, "Give a text."),
    models.DateTimeField: (datetime, "Give a date and time with its zone: 2026-12-24T18:00+01:00."),
    models.DurationField: (timedelta, "Give a duration."),
    models.IntegerField: (int, "Give a whole number."),
    models.BooleanField: (bool, "Give true or false."),
}
# None for JSON columns, whose values have many types.
_KIND_OF = {
    name: next((kind for field, kind in _KINDS.items() if isinstance(Job._meta.get_field(name), field)), None)
    for name in EDITABLE
}
CALL = frozenset(("task", "args", "kwargs"))
# The columns that the text of a schedule may set besides its trigger, and the word with which it does.
_CLAUSES = {"ends_at": "until", "calendars": "except", "spread": "within"}
_REQUIRED = frozenset(("name", "task", "trigger_type"))
TOO_FAR_AHEAD = f"Choose a time within the next {HORIZON_IN_WORDS}."
_COLUMNS = frozenset(field.name for field in Job._meta.concrete_fields)


def editable_only(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the caller's values, replace None with empty text, and city names with their time zones.

    Raise TypeError for columns that are not editable.
    """
    if unknown := set(fields) - set(EDITABLE):
        raise TypeError(f"not editable: {', '.join(sorted(unknown))}")
    copied = {
        name: "" if value is None and name in _MAY_BE_EMPTY else value for name, value in fields.items()
    }
    if isinstance(zone := copied.get("timezone"), str):
        copied["timezone"] = zone_named(zone)
    return copied


def with_given(
    fields: Mapping[str, Any], given: Mapping[str, Any], names: Mapping[str, str] | None = None
) -> Result[dict[str, Any]]:
    """Add the columns that are given beside the text of a schedule; refuse what both say.

    `names` is how the caller calls these columns.
    """
    for column, word in _CLAUSES.items():
        if fields.get(column) and given.get(column):
            name = (names or {}).get(column, column)
            return invalid(
                column,
                f'The schedule says this already, after "{word}": leave it out there, or leave out {name}.',
            )
    # An empty value says nothing, like the policy for closed times without the names of calendars.
    said = {name: value for name, value in given.items() if value or name not in fields}
    return Ok({**fields, **said})


def default_of(column: str) -> Any:
    """Return the default value of a column."""
    field: Any = Job._meta.get_field(column)
    return field.get_default()


def type_problems(fields: Mapping[str, Any]) -> dict[str, list[str]]:
    """Find values of a wrong type: the column's own validation would round them, or crash."""
    return {name: [problem] for name, value in fields.items() if (problem := _type_problem(name, value))}


def _type_problem(name: str, value: Any) -> str | None:
    if (kind := _KIND_OF[name]) is None:
        return limits.json_problem(value, max_bytes=settings.CRONTY_MAX_JSON_BYTES)
    expected_type, message = kind
    # A bool is also an int in Python.
    if value is not None and (
        not isinstance(value, expected_type) or isinstance(value, bool) != (expected_type is bool)
    ):
        return message
    return limits.moment_problem(value) if isinstance(value, datetime) else None


def job_problem(actor: Actor, job: Job, now: datetime, *, changed: set[str]) -> Err | None:
    """Return an error if a job is invalid or not allowed for this actor, else None."""
    task = registry.get(job.task)
    if (task and task.system) or not actor.may_use(job.task):
        choices = [usable.name for usable in usable_tasks(actor)]
        return invalid("task", registry.unknown_with_choices(job.task, choices))
    is_call_changed = not changed.isdisjoint(CALL)
    if is_call_changed and job.task == "prompt" and (problem := gate_problem(actor, job)):
        return invalid("kwargs", problem)
    if task and (reason := use_problem(actor, job)):
        return invalid("task", reason)
    if (job.grants or "grants" in changed) and (refusal := _grants_refusal(actor, job, changed)):
        return refusal
    if task and is_call_changed and (problem := _secret_problem(actor, job, task)):
        return invalid("kwargs", problem)
    if is_call_changed and job.task == "notify" and (problem := _place_problem(job)):
        return invalid("kwargs", problem)
    if is_call_changed and job.task == "prompt" and (problem := delivery_problem(job)):
        return invalid("kwargs", problem)
    if job.alerts and "alerts" in changed and (problem := _alerts_problem(job)):
        return invalid("alerts", problem)
    # Untouched columns hold our own defaults, or what was checked when it was stored.
    untouched = _COLUMNS - changed - _REQUIRED
    try:
        job.full_clean(validate_unique=False, validate_constraints=False, exclude=untouched)
    except ValidationError as error:
        # A job whose task was removed, or takes other arguments now, can still be renamed or rescheduled.
        problems = {
            name: reason for name, reason in error.message_dict.items() if is_call_changed or name not in CALL
        }
        if problems:
            return invalid_fields(problems)
    if job.trigger_type == Job.TriggerType.ONCE and job.run_at and "run_at" in changed:
        if job.run_at <= now:
            return invalid("run_at", in_the_past(now, job.timezone))
        if job.run_at > now + HORIZON:
            return invalid("run_at", TOO_FAR_AHEAD)
    if job.anchor_at and job.trigger_type != Job.TriggerType.INTERVAL:
        return invalid("anchor_at", "Leave this empty: only jobs of type interval use it.")
    if job.anchor_at and "anchor_at" in changed and job.anchor_at > now + HORIZON:
        return invalid("anchor_at", TOO_FAR_AHEAD)
    return interval_problem(actor, job.every) if job.every and "every" in changed else None


def _place_problem(job: Job) -> str | None:
    """Return why a notification cannot go where its arguments say, or None."""
    # A query of its own instead of the functions for channels, because this runs for every new notification.
    names = Channel.objects.filter(owner=job.owner_id).values_list("name", flat=True)
    channel_names = {name.lower(): name for name in names}
    topic, channel = job.argument("topic"), job.argument("channel")
    if isinstance(channel, str) and channel and channel not in channel_names.values():
        return f"channel: {channel!r} is not among the owner's channels."
    if isinstance(topic, str) and (name := channel_names.get(topic.lower())):
        # Strangers could read a public topic of this name.
        return f"topic: {name} is a channel: give it as channel."
    ask = engine.asked_by(job) if job.argument("ask") else None
    other = limits.channel_in(ask.then) if ask else ""
    if other and other not in channel_names.values():
        return f"ask: {other!r} is not among the owner's channels."
    return None


def resolve_channels(owner_id: int, columns: Mapping[str, Any], job: Job | None = None) -> dict[str, Any]:
    """Write a channel that a notification names after “then” as `channel:NAME`, so that it is not taken for a topic.

    Alerts to "default" are those of the owner, which is an empty text. `job` has the task if it is not among the columns.
    """
    resolved = dict(columns)
    if str(columns.get("alerts", "")).strip().lower() == OWNERS:
        resolved["alerts"] = ""
    if columns.get("task", job.task if job else "") != NOTIFICATION:
        return resolved
    args, kwargs = columns.get("args"), columns.get("kwargs")
    if isinstance(args, list):
        named = zip(args, names_of(NOTIFICATION, args), strict=True)
        resolved["args"] = [_resolved(owner_id, value) if name == "ask" else value for value, name in named]
    if isinstance(kwargs, dict) and "ask" in kwargs:
        resolved["kwargs"] = {**kwargs, "ask": _resolved(owner_id, kwargs["ask"])}
    return resolved


def _resolved(owner_id: int, ask: Any) -> Any:
    return with_place(ask, partial(place_text, owner_id)) if isinstance(ask, str) else ask


def _alerts_problem(job: Job) -> str | None:
    """Return why alerts cannot go where a job says, or None."""
    try:
        text = read_rules(job.alerts).place
    except ValueError as error:
        return str(error)
    place = place_of(job.owner_id, text)
    if text in ("", NEVER) or "topic" in place:
        return None
    name = place["channel"]
    if not text.startswith(PREFIX):
        return f"{name} is a channel: write {PREFIX}{name}."
    return (
        None
        if text == PREFIX + (channel_called(job.owner_id, name) or "")
        else f"There is no channel {name}."
    )


def usable_tasks(actor: Actor) -> list[registry.Task]:
    """Return the tasks that this person or agent may schedule, sorted by name."""
    return [
        task
        for task in registry.all_tasks()
        if actor.may_use(task.name) and not task.refuses(actor.user, actor.is_agent)
    ]


def use_problem(actor: Actor, job: Job) -> str | None:
    """Return why this person or agent may not schedule or start a job's task, or None."""
    task = registry.get(job.task)
    if job.task == "prompt":
        return _runner_problem(actor, job) or gate_problem(actor, job)
    if task is None or task.refusal is None:
        return None
    reason = task.refuses(actor.user, actor.is_agent)
    # The job runs for its owner, whoever changes it.
    return reason or (task.refuses(job.owner, False) if job.owner_id != actor.user.pk else None)


def _runner_problem(actor: Actor, job: Job) -> str | None:
    """Return why this person or agent may not give a prompt to its runner, or None."""
    runner_name = argument_of(job, "runner")
    if not isinstance(runner_name, str | None) or (runner_name is None and choice.is_always_inbox()):
        return None
    chosen = choice.choose(actor.user, runner_name, is_agent=actor.is_agent)
    if not chosen.problem and job.owner_id != actor.user.pk:
        # The job runs for its owner, whoever changes it.
        chosen = choice.choose(job.owner, runner_name)
    # The agent command predates runners: whether a user may run it is checked when it starts.
    return chosen.problem if chosen.name != AGENT_COMMAND else None


def _grants_refusal(actor: Actor, job: Job, changed: set[str]) -> Err | None:
    """Return why a job cannot have its permissions, or cannot be changed while it has them."""
    if actor.is_agent and not changed.isdisjoint({"grants", *CALL}):
        # An agent could grant itself what no person has permitted.
        hint = f" (here: {', '.join(job.grants)})" if job.grants else ""
        return Err(Code.GRANTS_BY_PEOPLE, job.public_id, hint=hint)
    if job.task != "prompt" or not job.grants or changed.isdisjoint({"grants", *CALL}):
        return None
    if problem := grants_problem(job.grants):
        return invalid("grants", problem)
    runner_name = argument_of(job, "runner")
    chosen = choice.choose(job.owner, runner_name if isinstance(runner_name, str) else None)
    if chosen.problem:
        return None
    if chosen.runner is None:
        return invalid("grants", "Prompts in the inbox have no permissions: choose a runner, or remove them.")
    ungrantable = chosen.runner.ungrantable(job.grants)
    return invalid("grants", f"The runner {chosen.name} {ungrantable}") if ungrantable else None


def _secret_problem(actor: Actor, job: Job, task: registry.Task) -> str | None:
    """Return why the references to secrets in the arguments of a job are not allowed, or None."""
    arguments = [job.args, job.kwargs]
    if problem := references.problem_in(arguments):
        return problem
    if not task.takes_secrets and references.names_in(arguments):
        return "Secrets can be used by webhooks and commands only."
    if job.task == "prompt":
        return secret_problem(job)
    if actor.is_agent and job.task == "webhook" and references.names_in(argument_of(job, "body")):
        # An agent could make the receiver show it.
        return "body: an agent can use secrets in the address and the headers only."
    return None


def interval_problem(actor: Actor, every: timedelta) -> Err | None:
    """Return an error if an interval is too short for an agent."""
    smallest = settings.CRONTY_AGENT_MIN_INTERVAL
    if actor.is_agent and every.total_seconds() < smallest:
        return invalid("every", f"The smallest interval for an agent is {smallest} seconds.")
    return None


def days_problem(days: Collection[date], timezone: str, now: datetime) -> Err | None:
    """Return an error if a job cannot skip its runs on these days."""
    if any(day > (now + HORIZON).date() for day in days):
        return invalid("dates", TOO_FAR_AHEAD)
    if any(day.isoformat() < day_of(slot_entry(now), timezone) for day in days):
        return invalid("dates", "Choose today or a later day.")
    return too_many_skips(days)


def too_many_skips(entries: Collection[Any]) -> Err | None:
    """Return an error if a job cannot skip so many days and slots."""
    if len(entries) <= MAX_SKIPS:
        return None
    return invalid("dates", f"At most {MAX_SKIPS} dates can be skipped.")


def no_runs_left(job: Job, now: datetime) -> Err:
    """Explain why a job would never fire again."""
    if job.run_at and job.run_at <= now:
        return invalid(
            "run_at", f"Its time ({local_words(job.run_at, job.timezone)}) has passed. Choose a later one."
        )
    if job.max_runs is not None and job.slot_count >= job.max_runs:
        return invalid("max_runs", f"It has already run {job.slot_count} times. Choose a higher number.")
    if job.ends_at:
        return invalid("ends_at", "It has no run before this end. Choose a later one.")
    return invalid("trigger_type", "This schedule has no more runs.")


_WITH_SECRETS = ("gate", "gate_arguments", "gate_headers")


def gate_problem(actor: Actor, job: Job) -> str | None:
    """Return why this person or agent may not use the gate command of a prompt, or None."""
    gate = argument_of(job, "gate")
    if not isinstance(gate, str) or is_address(gate) or not COMMAND_NAME.fullmatch(gate):
        return None
    command = catalog.get(gate)
    if command is None:
        return f"gate: unknown command {gate[:100]}. {catalog.short_problem}".strip()
    reason = command.refuses(actor.user, actor.is_agent)
    # The job runs for its owner, whoever changes it.
    reason = reason or (command.refuses(job.owner, False) if job.owner_id != actor.user.pk else None)
    if reason:
        return f"gate: {reason}"
    arguments = argument_of(job, "gate_arguments")
    problems = command.check([], arguments if isinstance(arguments, dict) else {})
    return f"gate_arguments: {problems[0]}" if problems else None


def delivery_problem(job: Job) -> str | None:
    """Return why a prompt's answers cannot be delivered where its arguments say, or None."""
    channel = argument_of(job, "deliver_to")
    if not isinstance(channel, str) or not channel:
        return None
    if Channel.objects.filter(owner=job.owner_id, name=channel).exists():
        return None
    return f"deliver_to: {channel!r} is not among the owner's channels."


def secret_problem(job: Job) -> str | None:
    """Return why the references to secrets in a prompt are not allowed, or None: an agent would reveal them."""
    by_name = [value for name, value in job.kwargs.items() if name not in _WITH_SECRETS]
    by_position = [argument_of(job, name) for name in ("prompt", "runner", "deliver_to")]
    if references.names_in([by_name, by_position]):
        return "Secrets can be used by webhooks and commands only, and in the gate of a prompt."
    return None
