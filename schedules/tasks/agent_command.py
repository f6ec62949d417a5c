"""The operator's agent command, which gets a prompt and is killed with all its children at the end."""

import asyncio
import os
import signal
from contextlib import suppress
from typing import cast

from django.conf import settings

from schedules import limits
from schedules.tasks.agent_boundary import Workplace, workplace
from schedules.tasks.registry import Final, RetryLater, Run

OUTPUT_BYTES = 16_384
ERROR_OUTPUT_BYTES = 2048
STANDARD_OUTPUT = 1


async def run_agent_command(prompt: str, run: Run) -> str:
    """Pass a prompt to the command and return its output; a failure or a timeout may be retried."""
    async with workplace(run) as place:
        return await _run_in(place, prompt, run)


async def _run_in(place: Workplace, prompt: str, run: Run) -> str:
    transport, output = await _start(place, prompt)
    try:
        async with asyncio.timeout(run.timeout):
            await output.exited.wait()
    except TimeoutError as error:
        raise RetryLater(f"The agent command did not finish within {run.timeout:g} s.") from error
    finally:
        await _end(transport, output)
    if code := transport.get_returncode():
        errors = output.errors.decode(errors="replace")
        raise RetryLater(f"The agent command ended with code {code}: {errors}".rstrip(": \n"))
    return limits.shortened(output.kept.decode(errors="replace"), OUTPUT_BYTES)


class _Output(asyncio.SubprocessProtocol):
    """Read everything a command prints; keep the start of its output and the end of its error output."""

    def __init__(self) -> None:
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()
        self.kept = b""
        self.errors = b""

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == STANDARD_OUTPUT:
            # One byte more than the limit shows that the output was cut.
            self.kept = (self.kept + data)[: OUTPUT_BYTES + 1]
        else:
            self.errors = (self.errors + data)[-ERROR_OUTPUT_BYTES:]

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()


async def _start(place: Workplace, prompt: str) -> tuple[asyncio.SubprocessTransport, _Output]:
    starting = asyncio.ensure_future(
        asyncio.get_running_loop().subprocess_exec(
            _Output,
            *settings.CRONTY_AGENT_COMMAND,
            cwd=place.folder,
            env=place.environment,
            start_new_session=True,
        )
    )
    try:
        transport, output = await asyncio.shield(starting)
    except OSError as error:
        raise Final(f"The agent command cannot be started: {error.strerror}") from error
    except asyncio.CancelledError:
        # Cancelling a start halfway can hang for ever: let it finish, then kill the process.
        await _end(*await starting)
        raise
    standard_input = cast(asyncio.WriteTransport, transport.get_pipe_transport(0))
    # An agent would read what a person who checks the prompt cannot see.
    standard_input.write(limits.strip_unprintable(prompt).encode())
    standard_input.write_eof()
    return transport, output


async def _end(transport: asyncio.SubprocessTransport, output: _Output) -> None:
    # Kill the whole process group, also after success: no process that an agent started may outlive its run.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(transport.get_pid(), signal.SIGKILL)
    # Killed processes close their pipes at once; do not wait long for one that left the group.
    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            await output.closed.wait()
    transport.close()
