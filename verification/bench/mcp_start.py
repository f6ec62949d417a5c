"""Time from the start of `mcp_serve` to its first answers: `python -m verification.bench.mcp_start [STARTS]`.

The greeting is answered from a recording, and the first call by the server itself. Beside it stand the floors, measured
in turn: the smallest server on the SDK, and the set-up of Django alone. Prints `name value unit`.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mcp.processes import MANAGE, PREPARE, ROOT, Site, without_settings

STARTS = 7
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}


CALL = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "get_current_time", "arguments": {}},
}


def first_answer(command: Sequence[str], environment: dict[str, str]) -> float:
    """Start a server, greet it, and return the seconds until its answer."""
    return _until_answered(command, environment, HELLO)


def first_call(command: Sequence[str], environment: dict[str, str]) -> float:
    """Start a server, greet it, call a tool, and return the seconds until the tool has answered."""
    return _until_answered(command, environment, HELLO, CALL)


def _until_answered(command: Sequence[str], environment: dict[str, str], *requests: object) -> float:
    begin = time.perf_counter()
    with subprocess.Popen(
        command,
        env=environment,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin
        assert process.stdout
        for request in requests:
            process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        for _ in requests:
            answer = process.stdout.readline()
            assert b'"result"' in answer, answer
        taken = time.perf_counter() - begin
        process.kill()
    return taken


def whole_run(command: Sequence[str], environment: dict[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, env=environment, cwd=ROOT, check=True)
    return time.perf_counter() - begin


def main() -> None:
    starts = int(sys.argv[1]) if len(sys.argv) > 1 else STARTS
    with tempfile.TemporaryDirectory() as folder:
        environment = Site(Path(folder), "").environment
        prepare = [sys.executable, "-c", PREPARE]
        subprocess.run(prepare, env=environment, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        measures = {
            "mcp_serve_first_answer": (first_answer, [MANAGE, "mcp_serve", "--user", "olga"]),
            "mcp_serve_first_call": (first_call, [MANAGE, "mcp_serve", "--user", "olga"]),
            "bare_sdk_first_answer": (first_answer, ["-m", "verification.bench.mcp_echo"]),
            "django_setup": (
                whole_run,
                ["-c", "from cronty_site.startup import set_up; set_up()"],
            ),
        }
        times: dict[str, list[float]] = {name: [] for name in measures}
        for _ in range(starts):
            for name, (measure, arguments) in measures.items():
                times[name].append(measure([sys.executable, *arguments], without_settings(environment)))
    for name, taken in times.items():
        print(f"{name} {statistics.median(taken):.2f} s")
    print(f"# load {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
