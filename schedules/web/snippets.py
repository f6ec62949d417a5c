"""Snippets to paste: configuration of agent programs, with the address and a token, and pings of jobs that run elsewhere."""

import base64
import json
from typing import Any, NamedTuple
from urllib.parse import quote

from django.urls import reverse

from schedules.services.installation.local_server import local_server, omitted_variable_note
from schedules.services.people.connected_apps import mcp_address


class Snippet(NamedTuple):
    """Instructions for one program, the text to copy, and a link that does the same."""

    key: str
    client: str
    note: str
    text: str
    link: str = ""
    link_label: str = ""


def snippets(token: str, username: str) -> list[Snippet]:
    """Return the configuration of each program, ready to paste."""
    url, bearer = mcp_address(), f"Bearer {token}"
    header = f'--header "Authorization: {bearer}"'
    remote = {"url": url, "headers": {"Authorization": bearer}}
    config = base64.b64encode(json.dumps(remote).encode()).decode()
    vscode_link = f"vscode:mcp/install?{quote(json.dumps({'name': 'cronty', 'type': 'http', **remote}))}"
    return [
        Snippet(
            "code",
            "Claude Code",
            "Run this in a terminal. It is then known in every folder.",
            f"claude mcp add --scope user --transport http cronty {url} {header}",
        ),
        Snippet(
            "codex",
            "Codex",
            "Run this in a terminal, and set the variable wherever you start Codex. It starts its first turn after about a second, so over"
            " HTTP Cronty is there in time; for a local server, add required = true to its section in ~/.codex/config.toml.",
            f"export CRONTY_TOKEN={token}\ncodex mcp add cronty --url {url} --bearer-token-env-var CRONTY_TOKEN",
        ),
        Snippet(
            "desktop",
            "Claude Desktop",
            "Open cronty.mcpb with it, and paste the token. On the machine that runs Cronty you can do without a token: paste this into"
            " claude_desktop_config.json. With --tools core it offers the everyday tools, without it all of them."
            f" {omitted_variable_note()}",
            json.dumps({"mcpServers": {"cronty": local_server(username, tools="core")}}, indent=2),
            reverse("schedules:bundle"),
            "Download cronty.mcpb",
        ),
        Snippet(
            "cursor",
            "Cursor",
            "Paste this into ~/.cursor/mcp.json.",
            _as_json(mcpServers={"cronty": remote}),
            f"cursor://anysphere.cursor-deeplink/mcp/install?name=cronty&config={config}",
            "Let Cursor do it",
        ),
        Snippet(
            "vscode",
            "VS Code",
            "Paste this into .vscode/mcp.json, which asks for the token once.",
            _vscode(url),
            vscode_link,
            "Let VS Code do it",
        ),
        Snippet(
            "gemini",
            "Gemini CLI",
            "Run this in a terminal. --scope user makes it known in every folder and keeps the token out of your project; --trust lets"
            " Gemini call the tools without asking, which it needs when it runs with -p.",
            f"gemini mcp add --scope user --trust --transport http cronty {url} {header}",
        ),
        Snippet(
            "opencode",
            "opencode",
            "Paste this into ~/.config/opencode/opencode.json.",
            _as_json(mcp={"cronty": {"type": "remote", **remote}}),
        ),
        Snippet(
            "qwen",
            "Qwen Code",
            "Run this in a terminal.",
            f"qwen mcp add --scope user --transport http cronty {url} {header}",
        ),
        Snippet(
            "continue",
            "Continue",
            "Paste this into ~/.continue/config.yaml.",
            f"mcpServers:\n  - name: cronty\n    type: streamable-http\n    url: {url}\n    requestOptions:\n      headers:\n"
            f"        Authorization: {bearer}",
        ),
        Snippet(
            "cline",
            "Cline",
            "Run this in a terminal.",
            f"cline mcp add cronty {url} --transport http {header} --yes",
        ),
        Snippet("http", "Anything else", "Call it over HTTP:", _curl(url, bearer)),
    ]


def _as_json(**config: Any) -> str:
    return json.dumps(config, indent=2)


def _vscode(url: str) -> str:
    hidden: dict[str, Any] = {"type": "promptString", "id": "cronty", "description": "Cronty token"}
    server = {"type": "http", "url": url, "headers": {"Authorization": "Bearer ${input:cronty}"}}
    hidden |= {"password": True}  # nosec B105  # whether the client hides what is typed
    return _as_json(inputs=[hidden], servers={"cronty": server})


def _curl(url: str, bearer: str) -> str:
    ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    return (
        f"curl -s {url} -H 'Authorization: {bearer}' -H 'Content-Type: application/json' \\\n"
        f"  -H 'Accept: application/json, text/event-stream' -d '{ping}'"
    )


def ping_snippets(url: str, named_url: str) -> list[Snippet]:
    """Return a snippet for each kind of scheduler or program that can send pings."""
    return [
        Snippet(
            "crontab",
            "crontab",
            "Add this to the end of the line. The exit code says whether it succeeded.",
            f"17 3 * * * /usr/local/bin/backup; curl -fsS -m 10 --retry 5 -o /dev/null {url}/$?",
        ),
        Snippet(
            "cronty",
            "cronty exec",
            "Wraps a command on any machine with the package: start, end, exit code and output, also after an outage.",
            f"CRONTY_URL={url.partition('/ping/')[0]} cronty exec --job {url.rpartition('/')[2]} -- /usr/local/bin/backup",
        ),
        Snippet("shell", "Shell script", "With the time it takes and its output.", _shell(url)),
        Snippet(
            "systemd",
            "systemd",
            "Add this to the [Service] section of the unit that the timer starts.",
            f"ExecStartPre=-/usr/bin/curl -fsS -m 10 --retry 5 -o /dev/null {url}/start\n"
            # For a program that was killed, EXIT_STATUS is the name of a signal.
            "ExecStopPost=-/bin/sh -c 'curl -fsS -m 10 --retry 5 -o /dev/null "
            f'{url}/$$([ "$$EXIT_CODE" = exited ] && echo $$EXIT_STATUS || echo fail)\'',
        ),
        Snippet(
            "windows",
            "Windows",
            "Add this after the program in the PowerShell script that the Task Scheduler runs.",
            # Windows exit codes can exceed the range that pings accept.
            f'curl.exe -fsS -m 10 --retry 5 -o NUL "{url}/$([int][bool]$LASTEXITCODE)"',
        ),
        Snippet("github", "GitHub Actions", "Add these steps to the end of the job.", _github(url)),
        Snippet(
            "borgmatic",
            "borgmatic",
            "Add this to its configuration file.",
            f"healthchecks:\n    ping_url: {url}\n    send_logs: true",
        ),
        Snippet(
            "runitor",
            "runitor",
            "Wraps a command: sends its start, its end and its output.",
            f"runitor -api-url {url.rpartition('/')[0]} -uuid {url.rpartition('/')[2]} -- /usr/local/bin/backup",
        ),
        Snippet(
            "python",
            "Python",
            "Add this where the work is done.",
            f'from urllib.request import urlopen\n\nurlopen("{named_url or url}", timeout=10)',
        ),
    ]


def _shell(url: str) -> str:
    return (
        "#!/bin/sh\n"
        "rid=$(cat /proc/sys/kernel/random/uuid)\n"
        f'curl -fsS -m 10 --retry 5 -o /dev/null "{url}/start?rid=$rid"\n'
        "output=$(/usr/local/bin/backup 2>&1); code=$?\n"
        'printf %s "$output" | tail -c 100000 |\n'
        f'  curl -fsS -m 10 --retry 5 -o /dev/null --data-binary @- "{url}/$code?rid=$rid"\n'
        "exit $code"
    )


def _github(url: str) -> str:
    return (
        "- name: Report success\n"
        f"  run: curl -fsS -m 10 --retry 5 -o /dev/null {url}\n"
        "- name: Report failure\n"
        "  if: failure()\n"
        f"  run: curl -fsS -m 10 --retry 5 -o /dev/null {url}/fail"
    )
