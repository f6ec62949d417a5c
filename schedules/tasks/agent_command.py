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
    if ended.is_timeout:
        raise RetryLater(f"The agent command did not finish within {run.timeout:g} s.")
    if ended.code != 0:
        errors = output.errors.decode(errors="replace")
        code = -(ended.signal or 0) if ended.code is None else ended.code
        raise RetryLater(f"The agent command ended with code {code}: {errors}".rstrip(": \n"))
    return limits.shortened(output.kept.decode(errors="replace"), OUTPUT_BYTES)


class _Output:
    """Keeps the start of a command's output and the end of its error output."""

    def __init__(self) -> None:
        self.kept = b""
        self.errors = b""

    def add(self, stream: int, data: bytes) -> None:
        if stream == STANDARD_OUTPUT:
            # One byte more than the limit shows that the output was cut.
            self.kept = (self.kept + data)[: OUTPUT_BYTES + 1]
        else:
            self.errors = (self.errors + data)[-ERROR_OUTPUT_BYTES:]

    def skip(self, stream: int, count: int) -> None:
        """Ignore what is between the two."""
