"""The operator's agent command, which gets a prompt and is killed with all its children at the end."""

from django.conf import settings

from schedules import limits
from schedules.tasks.agent_boundary import workplace
from schedules.tasks.interface import Final, RetryLater, Run
from schedules.tasks.processes import Program, StartError, run_program
from schedules.tasks.processes.running import STANDARD_OUTPUT

OUTPUT_BYTES = 16_384
ERROR_OUTPUT_BYTES = 2048


async def run_agent_command(prompt: str, run: Run) -> str:
    """Pass a prompt to the command and return its output; a failure or a timeout may be retried."""
    output = _Output()
    async with workplace(run) as place:
        program = Program(
            settings.CRONTY_AGENT_COMMAND,
            place.environment,
            place.folder,
            # An agent would read what a person who checks the prompt cannot see.
            input=limits.strip_unprintable(prompt),
            head=2 * OUTPUT_BYTES,
        )
        try:
            ended = await run_program(program, run.timeout, output)
        except StartError as error:
            raise Final(f"The agent command cannot be started: {error}") from error
    if ended.is_timeout or ended.code != 0:
        words = ended.describe("The agent command", run.timeout)
        # Some agents print their errors to standard output.
        said = _text(output.errors).strip() or _text(output.end).strip()
        raise RetryLater(f"{words}: {said}" if said else f"{words}.")
    return limits.shortened(_text(output.start), OUTPUT_BYTES, is_cut=output.is_cut)


def _text(data: bytes) -> str:
    return limits.clean_output(data.decode(errors="replace"))


class _Output:
    """Keeps the start and the end of a command's output, and the end of its error output."""

    def __init__(self) -> None:
        self.start = self.end = self.errors = b""
        self.is_cut = False

    def add(self, stream: int, data: bytes) -> None:
        if stream == STANDARD_OUTPUT:
            # What comes after a gap does not belong to the start.
            if not self.is_cut:
                self.is_cut = len(self.start) + len(data) > OUTPUT_BYTES
                self.start = (self.start + data)[:OUTPUT_BYTES]
            self.end = (self.end + data)[-ERROR_OUTPUT_BYTES:]
        else:
            self.errors = (self.errors + data)[-ERROR_OUTPUT_BYTES:]

    def skip(self, stream: int, count: int) -> None:
        """Note that something of the output was left out."""
        self.is_cut = self.is_cut or stream == STANDARD_OUTPUT
