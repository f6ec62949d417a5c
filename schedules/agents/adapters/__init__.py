"""Adapters for the agent programs that Cronty supports: how each is started, and how its output is read."""

from schedules.agents.adapters.base import Adapter
from schedules.agents.adapters.claude import Claude
from schedules.agents.adapters.codex import Codex
from schedules.agents.adapters.gemini import Gemini
from schedules.agents.adapters.opencode import Opencode

ADAPTERS: dict[str, Adapter] = {
    "claude": Claude(),
    "codex": Codex(),
    "gemini": Gemini(),
    "opencode": Opencode(),
}


def version_note(kind: str, version: str) -> str:
    """Return a warning if a program's version is not the one that its adapter was written for."""
    adapter = ADAPTERS.get(kind)
    if adapter is None or not adapter.tested_version or not version:
        return ""
    if f"{version}.".startswith(f"{adapter.tested_version}."):
        return ""
    return (
        f"This is {adapter.program} {version}, and Cronty knows {adapter.tested_version}: it may read the end of a"
        " run wrongly."
    )
