"""Services of the operator: addresses of Apprise in a file, named once, and sent in a process of its own."""

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
from schedules.channels.kinds import Field as ChannelField
from schedules.channels.kinds import Kind, Values
from schedules.channels.message import HIGH_PRIORITY, Message
from schedules.secrets.masking import Masker
from schedules.tasks.commands.parameters import Line, Table
from schedules.tasks.interface import Final, RetryLater
from schedules.tasks.operator_files.tables import parse_tables, without_nul
from schedules.tasks.operator_files.watching import WatchedFile
from schedules.tasks.processes import Program, StartError, run_program

PROCESS = str(Path(apprise_process.__file__))
SECONDS = 30
MISSING = (
    "Apprise is not installed: the operator runs pip install 'cronty[apprise]' and restarts the cluster."
)
# What the process needs of ours: where programs and packages are, and how to connect.
_PASSED_ON = (
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
_SHORTEST_SECRET = 4


def _address(text: str) -> str:
    if "://" not in text or re.search(r"\s", text):
        raise ValueError('write an address of Apprise, like "mailto://user:password@example.com"')
    return text


Address = Annotated[str, Field(max_length=2000), AfterValidator(without_nul), AfterValidator(_address)]


class Service(Table):
    """One table of the file: the addresses that get each message."""

    description: Line
    urls: Annotated[list[Address], Field(min_length=1, max_length=20)]


class ServiceCatalog(WatchedFile[Service]):
    """The services of the operator's file."""

    setting, noun = "CRONTY_APPRISE_FILE", "service"

    def read(self, text: str) -> dict[str, Service]:
        return parse_tables(text, Service)


catalog = ServiceCatalog()


def _service_problem(name: str) -> str | None:
    services = catalog.content()
    if name in services:
        return None
    return f"Choose one of: {', '.join(services)}." if services else "The operator's file has no services."


APPRISE = Kind(
    "apprise",
    "Apprise",
    (ChannelField("service", "Service", "Its name in the operator's file.", problem=_service_problem),),
    note="For staff: services that the operator has listed, with addresses that nobody sees here.",
    is_for_staff=True,
)


async def send_by_apprise(values: Values, message: Message) -> dict[str, object]:
    """Send a message by a service of the operator; raises Final or RetryLater."""
    name = values["service"]
    service = catalog.get(name)
    if service is None:
        raise Final(f"The operator's file has no service {name} any more.")
    answer = await _ask(service, message)
    if answer.get("error") == apprise_process.MISSING:
        raise Final(MISSING)
    taken: list[bool] = answer.get("taken") or []
    if taken and all(taken):
        return {"server": name}
    said = _without_secrets(str(answer.get("said") or ""), service)
    problem = f"{taken.count(False)} of {len(service.urls)} addresses of {name} did not take the message"
    problem = f"{problem}: {said}" if said else f"{problem}."
    # Who has got it must not get it again.
    raise (Final if any(taken) else RetryLater)(problem)


async def _ask(service: Service, message: Message) -> dict[str, Any]:
    """Run the process, and return what it has printed; raises RetryLater if it could not say anything."""
    asked = {
        "urls": service.urls,
        "title": message.title,
        "body": "\n\n".join(part for part in (message.text, message.listed_links) if part),
        "type": "warning" if message.priority >= HIGH_PRIORITY else "info",
    }
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    output = _Output()
    program = Program(
        # Without its own folder on the path, where modules of ours have the names of others.
        [sys.executable, "-P", PROCESS],
        environment,
        tempfile.gettempdir(),
        input=json.dumps(asked),
        mark=token_hex(16),
    )
    try:
        ended = await run_program(program, SECONDS, output)
    except StartError as error:
        raise RetryLater(f"Apprise cannot be started: {error}.") from error
    try:
        answer: dict[str, Any] = json.loads(output.text.splitlines()[-1])
    except (ValueError, IndexError):
        raise RetryLater(f"{ended.describe('Apprise', SECONDS)}.") from None
    return answer


class _Output:
    """What the process prints on standard output."""

    def __init__(self) -> None:
        self._data = b""

    def add(self, stream: int, data: bytes) -> None:
        if stream == 1:
            self._data += data

    def skip(self, stream: int, count: int) -> None:
        """Ignore what was not kept: the process prints little."""

    @property
    def text(self) -> str:
        return self._data.decode(errors="replace")


def _without_secrets(text: str, service: Service) -> str:
    """Return the last line of what Apprise has logged, without any part of an address."""
    parts = {part for url in service.urls for part in re.split(r"[/:@?&=,]+", url)}
    lines = text.splitlines()
    secrets = [part for part in parts if len(part) >= _SHORTEST_SECRET] + service.urls
    return Masker(secrets).mask(lines[-1]) if lines else ""
