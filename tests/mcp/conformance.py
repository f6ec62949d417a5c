"""The official conformance suite and the inspector against our server: `python -m tests.mcp.conformance`.

Both are Node programs; npm installs them and a recent Node. Prints one line per check; exits 1 if any failed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.mcp.inspector_login import check_login
from tests.mcp.processes import MANAGE, ROOT, Site, free_port, prepared, serving, wait_for_port

SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
SCENARIOS = [
    *(
        ("2025-11-25", name)
        for name in (
            "server-initialize",
            "ping",
            "tools-list",
            "resources-list",
            "prompts-list",
            "dns-rebinding-protection",
        )
    ),
    *(
        ("2026-07-28", name)
        for name in (
            "tools-list",
            "resources-list",
            "prompts-list",
            "dns-rebinding-protection",
            "caching",
            "sep-2164-resource-not-found",
            "http-header-validation",
            "server-sse-multiple-streams",
        )
    ),
]
SMALL = [("2025-11-25", "tools-list"), ("2026-07-28", "tools-list")]
MINUTES = 15


def node_problem(*, offline: bool = False) -> str | None:
    """Return why the suite cannot run here, or None; offline it must be in npm's cache."""
    if not shutil.which("npx"):
        return "npx is not installed: the conformance suite needs Node and npm"
    probe = run_node("node --version", package=SUITE, offline=offline)
    return None if probe.returncode == 0 else f"npm cannot bring {SUITE}: {probe.stderr.strip()[-200:]}"


def run_node(command: str, *, package: str, offline: bool = False) -> "subprocess.CompletedProcess[str]":
    environment = {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
    if offline:
        environment["npm_config_offline"] = "true"
    return subprocess.run(
        ["npx", "-y", "-p", "node@22", "-p", package, "-c", command],
        capture_output=True,
        text=True,
        timeout=60 * MINUTES,
        env={**os.environ, **environment},
        cwd=tempfile.gettempdir(),
        check=False,
    )


@contextmanager
def open_server(site: Site) -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.mcp.open_server", str(port)],
        env=site.environment,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        wait_for_port(process, port)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.communicate()


def check_scenarios(
    site: Site, scenarios: list[tuple[str, str]], *, offline: bool = False
) -> Iterator[tuple[str, bool, str]]:
    """Run scenarios of the suite; yield their name, whether they passed, and the output."""
    with open_server(site) as address:
        for version, name in scenarios:
            command = f"conformance server --scenario {name} --spec-version {version} --url {address}"
            done = run_node(command, package=SUITE, offline=offline)
            yield f"{version} {name}", done.returncode == 0, done.stdout + done.stderr


def check_inspector(site: Site) -> Iterator[tuple[str, bool, str]]:
    """Run commands of the inspector, and compare their exit status with the expected one."""
    with serving(site) as (_, address):
        http = f'{address} --header "Authorization: Bearer {site.token}"'
        call = "--method tools/call --tool-name"
        stdio = f"-e CRONTY_DATA={site.folder} {sys.executable} {MANAGE} mcp_serve --user olga"
        for title, command, status in (
            ("tools/list, strict", f"{http} --method tools/list --strict -q", 0),
            ("list_jobs, modern", f"{http} --protocol-era modern {call} list_jobs --format json -q", 0),
            ("list_jobs, legacy", f"{http} --protocol-era legacy {call} list_jobs --format json -q", 0),
            ("missing argument", f"{http} {call} job_status -q", 5),
            ("without a token", f"{address} --stored-auth-only --method tools/list -q", 3),
            ("tools/list over stdio", f"{stdio} --method tools/list -q", 0),
        ):
            done = run_node(f"mcp-inspector --cli {command}", package=INSPECTOR)
            yield (
                f"inspector: {title}",
                done.returncode == status,
                f"{done.returncode} {done.stdout}{done.stderr}",
            )


def main() -> None:
    if problem := node_problem():
        sys.exit(problem)
    failures = 0
    with tempfile.TemporaryDirectory() as folder, prepared(Path(folder)) as site:
        for checks in (check_scenarios(site, SCENARIOS), check_inspector(site), check_login(INSPECTOR)):
            for name, passed, output in checks:
                failures += not passed
                sys.stdout.write(f"{'pass' if passed else 'FAIL'}  {name}\n{'' if passed else output}")
                sys.stdout.flush()
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
