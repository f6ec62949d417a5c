"""The choice of a runner for a prompt: whether its owner may use it, and whether agents are stopped."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth import get_user_model

from schedules.agents.catalog import AGENT_COMMAND, catalog
from schedules.agents.definitions import Runner
from schedules.models import AgentStop, Profile

EVERYBODY = "*"
INBOX = "inbox"


class Choice(NamedTuple):
    """A runner and its name; without a runner, the prompt waits in the inbox, or there is a problem."""

    name: str = INBOX
    runner: Runner | None = None
    problem: str = ""


def choose(owner: Any, runner_name: str | None, *, is_agent: bool = False) -> Choice:
    """Choose the runner that a prompt names, else its owner's or the file's default, else the inbox."""
    name = runner_name or default_of(owner)
    if not name or (name == INBOX and catalog.get(INBOX) is None):
        return Choice()
    runner = catalog.get(name)
    if runner is None:
        return Choice(name, problem=_unknown(owner, name, is_agent))
    if problem := _refusal(owner, name, runner, is_agent):
        return Choice(name, problem=problem)
    return Choice(name, None if runner.kind == "inbox" else runner)


def choose_for_all(prompts: Mapping[int, tuple[int, Any]]) -> dict[int, Choice]:
    """Choose a runner for many prompts at once; each value is the id of its owner and the runner that it names."""
    owner_ids = {owner_id for owner_id, _ in prompts.values()}
    owners = get_user_model()._default_manager.in_bulk(list(owner_ids))
    defaults = dict(Profile.objects.filter(user__in=owner_ids).values_list("user", "runner"))
    choices: dict[int, Choice] = {}
    for key, (owner_id, runner_name) in prompts.items():
        name = runner_name or defaults.get(owner_id) or catalog.default()
        choices[key] = choose(owners[owner_id], name) if name and isinstance(name, str) else Choice()
    return choices


def default_of(owner: Any) -> str:
    """Return the name of the runner for this user's prompts that name none, or an empty text."""
    preferred = Profile.objects.filter(user=owner.pk).values_list("runner", flat=True).first()
    return preferred or catalog.default()


def usable(user: Any, *, is_agent: bool = False) -> dict[str, Runner]:
    """Return the runners that a user, or their agent, may use."""
    runners = catalog.runners().items()
    return {name: runner for name, runner in runners if not _refusal(user, name, runner, is_agent)}


def is_always_inbox() -> bool:
    """Return whether every prompt that names no runner waits in the inbox, because there are no runners."""
    return not catalog.runners()


def owner_of(owner_id: int) -> Any:
    return get_user_model()._default_manager.filter(pk=owner_id).first()


def stop_in_force(owner_id: Any) -> AgentStop | None:
    """Return the stop that keeps agents from working for a person, or None; a stop for everybody comes first."""
    return AgentStop.objects.filter(scope__in=[AgentStop.EVERYBODY, str(owner_id)]).order_by("scope").first()


def stops_in_force(owner_ids: Collection[Any]) -> dict[Any, AgentStop]:
    """Return the stops that keep agents from working for these people, by owner."""
    scopes = [AgentStop.EVERYBODY, *map(str, owner_ids)]
    by_scope = {stop.scope: stop for stop in AgentStop.objects.filter(scope__in=scopes)}
    stops = {owner: by_scope.get(AgentStop.EVERYBODY) or by_scope.get(str(owner)) for owner in owner_ids}
    return {owner: stop for owner, stop in stops.items() if stop}


def _refusal(user: Any, name: str, runner: Runner, is_agent: bool) -> str | None:
    if name != AGENT_COMMAND:
        return runner.refusal(user, is_agent, name)
    logins = settings.CRONTY_AGENT_USERS
    if not logins:
        is_allowed = getattr(user, "is_superuser", False)
    else:
        is_allowed = EVERYBODY in logins or user.get_username() in logins
    if is_allowed:
        return None
    return "The agent command does not run for this user: the operator can add them to CRONTY_AGENT_USERS."


def _unknown(user: Any, name: str, is_agent: bool) -> str:
    if catalog.short_problem:
        return f"Unknown runner: {name[:100]}. {catalog.short_problem}"
    options = [
        f"{each} ({limits})" if (limits := runner.limits_in_words()) else each
        for each, runner in usable(user, is_agent=is_agent).items()
    ]
    return f"Unknown runner: {name[:100]}. Choose one of: {', '.join(options) or INBOX}."
