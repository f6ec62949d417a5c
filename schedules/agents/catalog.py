"""The catalog of runners: those of the operator's file, which is read again when it changes, and the agent command."""

from django.conf import settings

from schedules.agents.definitions import Runner, parse
from schedules.tasks.operator_files.watching import WatchedFile

AGENT_COMMAND = "agent-command"


class RunnerCatalog(WatchedFile[Runner]):
    """The runners of the operator's file and the agent command of the settings."""

    setting, noun = "CRONTY_RUNNERS_FILE", "runner"

    def read(self, text: str) -> dict[str, Runner]:
        return parse(text)

    def runners(self) -> dict[str, Runner]:
        """Return all runners by name, the agent command of the settings last."""
        return {**self.content(), **_agent_command()}

    def get(self, name: str) -> Runner | None:
        return super().get(name) or _agent_command().get(name)

    def default(self) -> str:
        """Return the name of the runner for prompts that name none, or an empty text for the inbox."""
        default = next((name for name, runner in self.content().items() if runner.default), "")
        return default or (AGENT_COMMAND if settings.CRONTY_AGENT_COMMAND else "")


def _agent_command() -> dict[str, Runner]:
    if not settings.CRONTY_AGENT_COMMAND:
        return {}
    program, *arguments = settings.CRONTY_AGENT_COMMAND
    return {
        # Without validation: the settings were validated, and their texts are not templates.
        AGENT_COMMAND: Runner.model_construct(
            description="The agent command of the settings.",
            kind="command",
            program=program,
            arguments=arguments,
            preamble=False,
            at_once=100,
            allow=["everyone", "agents"],
        )
    }


catalog = RunnerCatalog()
