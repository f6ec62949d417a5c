"""Validation of prompts: who may use the gate, where the answer goes, and where secrets may be used."""

from schedules.models import Channel, Job
from schedules.models.jobs import argument_of
from schedules.secrets import references
from schedules.services.permissions import Actor
from schedules.tasks.argument_types import COMMAND_NAME, is_address
from schedules.tasks.commands.catalog import catalog

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
