"""The inspector's login by OAuth, with a person who consents in a browser, for `tests.mcp.conformance`."""

import os
import pty
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx2

from tests.mcp.processes import free_port
from tests.web.oauth_server import Server, serving_oauth

SECONDS = 60
# The inspector shows the address as a link of the terminal, which ends with a control character.
LINK = re.compile(r"http://[^\s\x07\x1b]+/oauth/authorize/[^\s\x07\x1b]+")


def check_login(package: str) -> Iterator[tuple[str, bool, str]]:
    """Yield each check with whether it passed and the inspector's output."""
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory() as home,
        serving_oauth(Path(folder)) as server,
    ):
        kept = "--stored-auth-only --protocol-era modern --method tools/call --tool-name list_jobs"
        for title, command, words in (
            ("login by OAuth", "--method tools/list", '"schedule_job"'),
            ("stored login, modern", kept, '"jobs"'),
            ("second login, which revokes the first", "--relogin --method tools/list", '"why"'),
        ):
            code, output = inspect(package, server, home, command)
            yield f"inspector: {title}", code == 0 and words in output, f"{code} {output}"
        for address in server.apps():
            server.browser.post(address, data=_form_of(server))
        code, output = inspect(package, server, home, kept)
        yield "inspector: disconnected by the person", code == 3, f"{code} {output}"


def inspect(package: str, server: Server, home: str, command: str) -> tuple[int | None, str]:
    """Run the inspector on a terminal, because it does not ask for a login elsewhere; consent if it asks."""
    terminal, its_end = pty.openpty()
    callback = f"http://127.0.0.1:{free_port()}/oauth/callback"
    process = subprocess.Popen(
        [
            *("npx", "-y", "-p", "node@22", "-p", package, "-c"),
            f"mcp-inspector --cli {server.address}/mcp --callback-url {callback} {command} --format json",
        ],
        stdout=its_end,
        stderr=its_end,
        stdin=subprocess.DEVNULL,
        env={
            **os.environ,
            "HOME": home,
            "BROWSER": "/bin/false",
            "MCP_INSPECTOR_SECRET_STORE": "file",
            "NO_PROXY": "127.0.0.1,localhost",
            # npm itself keeps its settings and its cache.
            "NPM_CONFIG_USERCONFIG": str(Path.home() / ".npmrc"),
            "NPM_CONFIG_CACHE": os.environ.get("NPM_CONFIG_CACHE", str(Path.home() / ".npm")),
        },
        cwd=home,
        start_new_session=True,
    )
    os.close(its_end)
    lines = []
    # On Linux, reading from a terminal whose other end is closed is an error.
    with os.fdopen(terminal, encoding="utf-8", errors="replace") as screen, suppress(OSError):
        for line in screen:
            lines.append(line)
            if link := LINK.search(line):
                answer = server.decide(server.browser.get(link[0]))
                httpx2.get(answer.headers["location"], timeout=SECONDS)
    try:
        return process.wait(SECONDS), "".join(lines)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.wait(), "".join(lines)


def _form_of(server: Server) -> dict[str, str]:
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', server.browser.get("/connect/").text)
    return {"csrfmiddlewaretoken": found[1] if found else ""}
