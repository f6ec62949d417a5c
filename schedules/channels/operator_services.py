"""The Apprise channel: services that the operator defines in a file, each with its Apprise addresses."""

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from schedules.channels import apprise_process
from schedules.channels.kinds import ChannelKind, Values
from schedules.channels.kinds import Field as ChannelField
from schedules.channels.message import HIGH_PRIORITY, Message
from schedules.secrets.masking import SHORTEST_SECRET, Masker
from schedules.tasks.commands.parameters import Line, Table
from schedules.tasks.interface import Final, RetryLater
from schedules.tasks.operator_files.tables import parse_tables, without_nul
from schedules.tasks.operator_files.watching import WatchedFile
from schedules.tasks.processes import Program, StartError, run_program
from schedules.tasks.processes.running import STANDARD_OUTPUT

PROCESS = str(Path(apprise_process.__file__))
TIMEOUT_SECONDS = 30
MISSING = "Apprise is not installed: the operator runs pip install apprise and restarts the cluster."
# The environment variables that the process needs: where programs and packages are, and how to connect.
_PASSED_VARIABLES = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)


def _address(text: str) -> str:
    if "://" not in text or re.search(r"\s", text):
        raise ValueError('write an address of Apprise, like "mailto://user:password@example.com"')
    return text


Address = Annotated[str, Field(max_length=2000), AfterValidator(without_nul), AfterValidator(_address)]


class Service(Table):
    """One service, a table of the file: the addresses that each message is sent to."""

    description: Line
    urls: Annotated[list[Address], Field(min_length=1, max_length=20)]


class ServiceCatalog(WatchedFile[Service]):
    """The services in the operator's file."""

    setting, noun = "CRONTY_APPRISE_FILE", "service"

    def read(self, text: str) -> dict[str, Service]:
        return parse_tables(text, Service)


catalog = ServiceCatalog()


def _service_problem(name: str) -> str | None:
    services = catalog.content()
    if name in services:
        return None
    return f"Choose one of: {', '.join(services)}." if services else "The operator's file has no services."


APPRISE = ChannelKind(
    "apprise",
    "Apprise",
    (ChannelField("service", "Service", "Its name in the operator's file.", problem=_service_problem),),
    note="For staff: services that the operator has listed, with addresses that nobody sees here.",
    is_for_staff=True,
)


async def send_by_apprise(values: Values, message: Message) -> dict[str, object]:
    """Send a message by one of the operator's services; raises Final or RetryLater."""
    name = values["service"]
    service = catalog.get(name)
    if service is None:
        raise Final(f"The operator's file has no service {name} any more.")
    answer = await _run_apprise(service, message)
    if answer.get("error") == apprise_process.MISSING:
        raise Final(MISSING)
    accepted: list[bool] = answer.get("accepted") or []
    if accepted and all(accepted):
        return {"server": name}
    log_line = _last_log_line(str(answer.get("log") or ""), service)
    problem = f"{accepted.count(False)} of {len(service.urls)} addresses of {name} did not take the message"
    problem = f"{problem}: {log_line}" if log_line else f"{problem}."
    # A retry would send it again to the addresses that accepted it.
    raise (Final if any(accepted) else RetryLater)(problem)


async def _run_apprise(service: Service, message: Message) -> dict[str, Any]:
    """Run the process, and return its answer; raises RetryLater if it printed none."""
    request = {
        "urls": service.urls,
        "title": message.title,
        "body": "\n\n".join(part for part in (message.text, message.listed_links) if part),
        "type": "warning" if message.priority >= HIGH_PRIORITY else "info",
    }
    environment = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
    output = _Output()
    program = Program(
        # -P keeps the script's folder off the path: its modules have the names of other packages.
        [sys.executable, "-P", PROCESS],
        environment,
        tempfile.gettempdir(),
        input=json.dumps(request),
        mark=token_hex(16),
    )
    try:
        ended = await run_program(program, TIMEOUT_SECONDS, output)
    except StartError as error:
        raise RetryLater(f"Apprise cannot be started: {error}.") from error
    try:
        answer: dict[str, Any] = json.loads(output.text.splitlines()[-1])
    except (ValueError, IndexError):
        raise RetryLater(f"{ended.describe('Apprise', TIMEOUT_SECONDS)}.") from None
    return answer


class _Output:
    """Collects what the process prints on standard output."""

    def __init__(self) -> None:
        self._data = b""

    def add(self, stream: int, data: bytes) -> None:
        if stream == STANDARD_OUTPUT:
            self._data += data

    def skip(self, stream: int, count: int) -> None:
        """Do nothing: the process prints too little for a gap."""

    @property
    def text(self) -> str:
        return self._data.decode(errors="replace")


def _last_log_line(log: str, service: Service) -> str:
    """Return the last line of Apprise's log, with all parts of the addresses masked."""
    parts = {part for url in service.urls for part in re.split(r"[/:@?&=,]+", url)}
    lines = log.splitlines()
    secrets = [part for part in parts if len(part) >= SHORTEST_SECRET] + service.urls
    return Masker(secrets).mask(lines[-1]) if lines else ""
