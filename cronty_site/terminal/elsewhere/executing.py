"""The subcommand `exec`: wrap a command on any machine, and report its start, its end and its last output."""

import os
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import click

from cronty_site.terminal.elsewhere.child import CommandResult, die_by, run
from cronty_site.terminal.elsewhere.reports import UUID, Outcome, Report, Spool
from cronty_site.terminal.elsewhere.server import Server, read_secret, read_url

PAUSES = (1.0, 2.0, 4.0, 8.0)


class Reporter:
    """Keeps reports on disk until they are sent, in order."""

    def __init__(self, server: Server, folder: Path, timeout: float, retry_for: float) -> None:
        self._server, self._timeout, self._retry_for = server, timeout, retry_for
        self._spool = Spool(folder, server)
        self._kept: dict[Path, Report] = {}
        # Reports that could not be written, with the reason.
        self._unkept: list[tuple[Report, str]] = []

    def keep(self, report: Report) -> None:
        """Write a report to the disk, so that nothing that happens to this process loses it."""
        try:
            self._kept[self._spool.add(report)] = report
        except OSError as error:
            self._unkept.append((report, str(error.strerror)))

    def send(self) -> None:
        """Try once to send what was kept."""
        self._try()

    def send_end(self) -> None:
        """Send everything; go on for a while if the server is unavailable."""
        deadline = time.monotonic() + self._retry_for
        pause = threading.Event()
        why = ""
        for seconds in (*PAUSES, *[PAUSES[-1]] * 1000):
            why = self._try()
            if not (why or self._is_left()) or time.monotonic() + seconds > deadline:
                break
            pause.wait(seconds)
        for report, problem in self._unkept:
            say(f"The report about {report.job} is lost: {why}, and it cannot be kept ({problem}).")
        if self._is_left():
            say(f"{self._server.url} is not reached ({why}): the report is kept, and sent with the next one.")
            if dropped := self._spool.make_room():
                say(f"{dropped} older reports were deleted to make room.")

    def send_spooled(self) -> bool:
        """Send the spooled reports; return whether the server was reachable."""
        try:
            return self._spool.send(self._timeout, say)[0] != Outcome.AWAY
        except OSError as error:
            say(f"Reports that were kept cannot be read ({error.strerror}).")
            return False

    def _try(self) -> str:
        """Send once; return why the server is unavailable, or an empty text."""
        try:
            # In order: an end must not arrive before its start.
            outcome, why = self._spool.send(self._timeout, say, self._kept)
            if outcome == Outcome.AWAY:
                return why or "it does not answer"
        except OSError as error:
            say(f"Reports that were kept cannot be read ({error.strerror}).")
        while self._unkept:
            report, _ = self._unkept[0]
            outcome, why = report.send(self._server, self._timeout)
            if outcome == Outcome.AWAY:
                return why
            if outcome == Outcome.REFUSED:
                say(f"The server refuses the report about {report.job}: {why}.")
            self._unkept.pop(0)
        return ""

    def _is_left(self) -> bool:
        return any(file.exists() for file in self._kept)


@click.command(
    "exec",
    context_settings={"allow_interspersed_args": False},
    epilog="""\b
Examples:
  cronty exec --job backup-of-db1 -- /usr/local/bin/backup --all
  cronty exec --job 3b2f0c9e-… -- restic backup /home
  cronty exec --send""",
)
@click.option(
    "--job", help="The name of the job in ping addresses, or its UUID; with a token, any name or id."
)
@click.option("--create", is_flag=True, help="Create the job with the first report; needs a ping key.")
@click.option("--url", envvar="CRONTY_URL", metavar="URL", help="The address of Cronty.  [CRONTY_URL]")
@click.option("--no-output", is_flag=True, help="Report no output, and leave the command its own streams.")
@click.option(
    "--timeout", type=click.FloatRange(0.1, 300), default=10, show_default=True, help="Per request."
)
@click.option(
    "--retry-for",
    type=click.FloatRange(0, 3600),
    default=30,
    show_default=True,
    help="How many seconds to go on trying at the end, before the report is kept for later.",
)
@click.option(
    "--spool",
    envvar="CRONTY_SPOOL",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where reports are kept while Cronty is away.  [default: ~/.local/state/cronty/spool]",
)
@click.option("--send", "only_send", is_flag=True, help="Only send the reports that were kept.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def exec_command(
    job: str | None,
    create: bool,
    url: str | None,
    no_output: bool,
    timeout: float,
    retry_for: float,
    spool: Path | None,
    only_send: bool,
    command: Sequence[str],
) -> int:
    """Run a COMMAND here, and report it to Cronty: its start, its end, its exit code and its last output.

    No shell is involved, and the exit code is that of the command, or the signal that ended it. Needs CRONTY_URL and
    a key: CRONTY_PING_KEY from the page Settings, or CRONTY_TOKEN; both can be in files (CRONTY_PING_KEY_FILE). While
    Cronty is away, reports are kept on disk, and are sent later, marked as late.
    """
    server = _server(url, job or "", needs_job=not only_send)
    reporter = Reporter(server, spool or _default_spool(), timeout, retry_for)
    if only_send:
        if command or job:
            raise click.UsageError("--send takes no job and no command.")
        return 0 if reporter.send_spooled() else 1
    if not command:
        raise click.UsageError("Which command? Write it after --: cronty exec --job NAME -- COMMAND …")
    if create and not server.ping_key:
        raise click.UsageError("--create needs a ping key: CRONTY_PING_KEY.")
    rid, name = str(uuid.uuid4()), str(job)
    starting: list[threading.Thread] = []

    def on_start() -> None:
        reporter.keep(Report(name, rid, time.time(), create=create))
        # The command does not wait for the network, nor its end for the start.
        starting.append(threading.Thread(target=reporter.send, daemon=True))
        starting[0].start()

    def on_end(result: CommandResult) -> None:
        reporter.keep(Report(name, rid, time.time(), result.code, result.output, create))

    def afterwards() -> None:
        starting[0].join()
        reporter.send_end()

    result = run(command, keeps_output=not no_output, on_start=on_start, on_end=on_end, afterwards=afterwards)
    if result.signal:
        die_by(result.signal)
    return result.code


def say(text: str) -> None:
    click.echo(f"cronty exec: {text}", err=True)


def _server(url: str | None, job: str, *, needs_job: bool) -> Server:
    if needs_job and not job.strip():
        raise click.UsageError("Which job? Name it with --job.")
    if not url:
        raise click.UsageError("Where is Cronty? Set CRONTY_URL, or use --url.")
    ping_key, token = read_secret("CRONTY_PING_KEY"), read_secret("CRONTY_TOKEN")
    if needs_job and not ping_key and not token and not UUID.fullmatch(job):
        raise click.UsageError(
            "Set CRONTY_PING_KEY or CRONTY_TOKEN, or give the UUID of the ping address as --job."
        )
    return Server(read_url(url), "" if ping_key else token, ping_key)


def _default_spool() -> Path:
    state = os.environ.get("XDG_STATE_HOME", "")
    return Path(state or Path("~").expanduser() / ".local" / "state") / "cronty" / "spool"
