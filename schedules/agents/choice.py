"""Which runner a prompt is given to, and whether its owner may use it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth import get_user_model

from schedules.agents.catalog import AGENT_COMMAND, catalog
from schedules.agents.definitions import Runner
from schedules.models import Profile

EVERYBODY = "*"
INBOX = "inbox"


class Choice(NamedTuple):
    """A runner by its name; none for the inbox."""

    name: str = INBOX
    runner: Runner | None = None
    problem: str = ""


def choose(owner: Any, named: str | None, *, is_agent: bool = False) -> Choice:
    """Return the runner that a prompt names, else its owner's or the file's default, else the inbox."""
    name = named or default_of(owner)
    if not name or (name == INBOX and catalog.get(INBOX) is None):
        return Choice()
    runner = catalog.get(name)
    if runner is None:
        return Choice(name, problem=_unknown(owner, name, is_agent))
    if problem := _refusal(owner, name, runner, is_agent):
        return Choice(name, problem=problem)
    return Choice(name, None if runner.kind == "inbox" else runner)


def choose_for_all(prompts: Mapping[int, tuple[int, Any]]) -> dict[int, Choice]:
    """Choose a runner for many prompts at once; each is given as its owner and the runner that it names."""
    owner_ids = {owner_id for owner_id, _ in prompts.values()}
    owners = get_user_model()._default_manager.in_bulk(list(owner_ids))
    defaults = dict(Profile.objects.filter(user__in=owner_ids).values_list("user", "runner"))
    chosen: dict[int, Choice] = {}
    for key, (owner_id, named) in prompts.items():
        name = named or defaults.get(owner_id) or catalog.default()
        chosen[key] = choose(owners[owner_id], name) if name and isinstance(name, str) else Choice()
    return chosen


def default_of(owner: Any) -> str:
    """Return the name of the runner for prompts of this user that name none, or an empty text."""
    chosen = Profile.objects.filter(user=owner.pk).values_list("runner", flat=True).first()
    return chosen or catalog.default()


def usable(user: Any, *, is_agent: bool = False) -> dict[str, Runner]:
    """Return the runners that a user, or their agent, may use."""
    runners = catalog.runners().items()
    return {name: runner for name, runner in runners if not _refusal(user, name, runner, is_agent)}


def is_always_inbox() -> bool:
    """Return whether every prompt that names no runner waits in the inbox, whoever owns it."""
    return not catalog.runners()


def owner_of(owner_id: int) -> Any:
    return get_user_model()._default_manager.filter(pk=owner_id).first()


def _refusal(user: Any, name: str, runner: Runner, is_agent: bool) -> str | None:
    if name != AGENT_COMMAND:
        return runner.refusal(user, is_agent, name)
    chosen = settings.CRONTY_AGENT_USERS
    login = user.get_username()
    is_chosen = EVERYBODY in chosen or login in chosen if chosen else getattr(user, "is_superuser", False)
    if is_chosen:
        return None
    return "The agent command does not run for this user: the operator can add them to CRONTY_AGENT_USERS."


def _unknown(user: Any, name: str, is_agent: bool) -> str:
    if catalog.short_problem:
        return f"Unknown runner: {name[:100]}. {catalog.short_problem}"
    known = [
        f"{each} ({limits})" if (limits := runner.limits_in_words()) else each
        for each, runner in usable(user, is_agent=is_agent).items()
    ]
    return f"Unknown runner: {name[:100]}. Choose one of: {', '.join(known) or INBOX}."
