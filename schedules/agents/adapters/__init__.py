"""The agent programs that Cronty knows: how they are started, and how what they print is read."""

from schedules.agents.adapters.base import Adapter
from schedules.agents.adapters.claude import Claude
from schedules.agents.adapters.codex import Codex
from schedules.agents.adapters.gemini import Gemini
from schedules.agents.adapters.goose import Goose
from schedules.agents.adapters.opencode import Opencode

ADAPTERS: dict[str, Adapter] = {
    "claude": Claude(),
    "codex": Codex(),
    "gemini": Gemini(),
    "goose": Goose(),
    "opencode": Opencode(),
}
