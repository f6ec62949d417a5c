"""What is checked of prompts beyond their arguments: the gate, where the answer goes, and where secrets may stand."""

from schedules.models import Channel, Job
from schedules.models.jobs import argument_of
from schedules.secrets import references
from schedules.services.permissions import Actor
from schedules.tasks.argument_types import COMMAND_NAME, is_address
from schedules.tasks.commands.catalog import catalog

_WITH_SECRETS = ("gate", "gate_arguments", "gate_headers")


def gate_problem(actor: Actor, job: Job) -> str | None:
    """Return why this person or agent may not use the command that is the gate of a prompt, or None."""
    gate = argument_of(job, "gate")
    if not isinstance(gate, str) or is_address(gate) or not COMMAND_NAME.fullmatch(gate):
        return None
    command = catalog.get(gate)
    if command is None:
        return f"gate: unknown command {gate[:100]}. {catalog.short_problem}".strip()
    reason = command.refuses(actor.user, actor.is_agent)
    # It runs for its owner, whoever changes it.
    reason = reason or (command.refuses(job.owner, False) if job.owner_id != actor.user.pk else None)
    if reason:
        return f"gate: {reason}"
    arguments = argument_of(job, "gate_arguments")
    problems = command.check([], arguments if isinstance(arguments, dict) else {})
    return f"gate_arguments: {problems[0]}" if problems else None


def delivery_problem(job: Job) -> str | None:
    """Return why the answers of a prompt cannot be sent where its arguments say, or None."""
    channel = argument_of(job, "deliver_to")
    if not isinstance(channel, str) or not channel:
        return None
    if Channel.objects.filter(owner=job.owner_id, name=channel).exists():
        return None
    return f"deliver_to: {channel!r} is not among the owner's channels."


def secret_problem(job: Job) -> str | None:
    """Return why the references to secrets in a prompt are not allowed, or None: an agent would show them."""
    named = {name: value for name, value in job.kwargs.items() if name not in _WITH_SECRETS}
    by_position = {name: argument_of(job, name) for name in ("prompt", "runner", "deliver_to")}
    if references.names_in([list(named.values()), list(by_position.values())]):
        return "Secrets can be used by webhooks and commands only, and in the gate of a prompt."
    return None
