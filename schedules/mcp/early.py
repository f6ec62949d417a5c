"""Early answers over standard input and output, while Django and the SDK are still loading.

Some clients wait about one second for a server and then go on without its tools. So a thread answers `initialize`,
`server/discover` and `tools/list` from a recording (`make contract` writes it) and forwards every other message to
the server, which reads them once it has started. Only the standard library is imported here.
"""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO, Any

RECORDING = Path(__file__).with_name("early_answers.json")
ANSWERED_ID = "answered-early"
"""The id of a request that is already answered when the server receives it; its second answer is dropped."""

_CHUNK = 64 * 1024


def answer_early(arguments: Iterable[str]) -> None:
    """Start answering, unless the command's arguments change the list of tools."""
    if not _are_default(arguments):
        return
    to_server, from_client = os.pipe(), os.dup(0)
    os.dup2(to_server[0], 0)
    os.close(to_server[0])
    client, answers = os.fdopen(from_client, "rb"), os.fdopen(os.dup(1), "wb")
    server = os.fdopen(to_server[1], "wb", buffering=0)
    Thread(target=_converse, args=(client, answers, server), daemon=True).start()


def _are_default(arguments: Iterable[str]) -> bool:
    remaining = iter(arguments)
    for argument in remaining:
        if argument in ("--user", "--name"):
            next(remaining, None)
        elif not argument.startswith(("--user=", "--name=")):
            return False
    return True


def _converse(client: IO[bytes], answers: IO[bytes], server: IO[bytes]) -> None:
    """Answer from the recording until the first other request, then only forward: only one side may write at a time."""
    # An OSError means that the client or the server has ended.
    with suppress(OSError), server:
        recording = Recording(json.loads(RECORDING.read_bytes()))
        while line := client.readline(_CHUNK):
            message = _parse(line)
            if (result := recording.answer(message)) is not None:
                answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
                answers.write(json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
                answers.flush()
                if message["method"] == "tools/list":
                    continue
                line = json.dumps(message | {"id": ANSWERED_ID}).encode() + b"\n"
            _write(server, line)
            if result is None and not str(message.get("method")).startswith("notifications/"):
                break
        while chunk := client.read1(_CHUNK):  # type: ignore[attr-defined]
            _write(server, chunk)


def _write(server: IO[bytes], data: bytes) -> None:
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[server.write(remaining) :]


def _parse(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


class Recording:
    """The recorded results, for clients that initialize a session and for stateless ones."""

    def __init__(self, results: dict[str, Any]) -> None:
        self._results = results
        self._is_initialized = False

    def answer(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Return the result of a request, or None if the server has to answer it."""
        params = message.get("params", {})
        if message.get("jsonrpc") != "2.0" or type(message.get("id")) not in (int, str):
            return None
        if not isinstance(params, dict):
            return None
        meta = params.get("_meta", {})
        match message.get("method"), params:
            case "initialize", {
                "protocolVersion": str(version),
                "capabilities": dict(),
                "clientInfo": {"name": str(), "version": str()},
            } if version in self._results["versions"] and not self._is_initialized:
                self._is_initialized = True
                return {**self._results["initialize"], "protocolVersion": version}
            case ("server/discover" | "tools/list") as method, {**others} if not others.keys() - {"_meta"}:
                if self._is_stateless(meta):
                    return dict(self._results[f"stateless {method}"])
                if method == "tools/list" and self._is_initialized and isinstance(meta, dict):
                    return dict(self._results[method])
        return None

    def _is_stateless(self, meta: Any) -> bool:
        match meta:
            case {
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientInfo": {"name": str(), "version": str()},
                "io.modelcontextprotocol/clientCapabilities": dict(),
            }:
                return bool(version == self._results["stateless version"])
        return False
