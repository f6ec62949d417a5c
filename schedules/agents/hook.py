"""The hook that Claude Code runs before each call of a tool: it lets a call pass, allows it, or asks a person.

It runs as a script, without the rest of Cronty, because every call waits for it.
"""

import fnmatch
import hashlib
import json
import os
import re
import socket
import sys
from typing import Any

# Harmless tools: the hook lets them pass, and Claude Code itself still refuses calls outside the workspace.
FREE = frozenset(
    [
        "Agent",
        "Task",
        "Read",
        "Glob",
        "Grep",
        "LS",
        "NotebookRead",
        "TodoWrite",
        "TodoRead",
        "TaskCreate",
        "TaskUpdate",
        "TaskGet",
        "TaskList",
        "TaskOutput",
        "TaskStop",
        "BashOutput",
        "KillShell",
        "ToolSearch",
        "ListMcpResourcesTool",
        "ReadMcpResourceTool",
        "WaitForMcpServers",
        "EnterPlanMode",
        "ExitPlanMode",
    ]
)
EDITING = frozenset(("Edit", "Write", "MultiEdit", "NotebookEdit"))
_REASONS = {
    "allow": "A person has allowed this.",
    "defer": "A person has to allow this.",
    "deny": "Nobody has allowed this.",
}
_JOINS_COMMANDS = re.compile(r"[;&|<>$`\\\n\r]")


def digest_of_call(tool: str, arguments: Any) -> str:
    """Return a digest of a call, the same for equal calls."""
    text = json.dumps([tool, arguments], sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def is_granted(rules: list[str], tool: str, arguments: Any) -> bool:
    """Return whether a rule is about this call; the program itself then decides whether the rule allows it."""
    return any(_is_about(rule, tool, arguments) for rule in rules)


def decide(request: dict[str, Any], rules: dict[str, Any]) -> str:
    """Return allow, defer, deny, or an empty text to let the program decide by its own rules."""
    tool, arguments = request.get("tool_name"), request.get("tool_input")
    if not isinstance(tool, str):
        return ""
    approved = rules.get("approved") or {}
    is_approved = bool(approved) and (
        approved.get("call_id") == request.get("tool_use_id")
        and approved.get("digest") == digest_of_call(tool, arguments)
        and approved.get("session_id") == request.get("session_id")
    )
    if is_approved and _use_up(rules["used"]):
        return "allow"
    is_free = tool in FREE or (tool in EDITING and rules.get("may_edit") is True)
    if is_free or is_granted(rules["granted"], tool, arguments):
        return ""
    return _ask(rules["socket"], request) if rules.get("socket") else "defer"


def _ask(path: str, request: dict[str, Any]) -> str:
    """Ask the run, which waits for a person's answer; deny the call if anything goes wrong."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(path)
            connection.sendall(json.dumps(request).encode() + b"\n")
            return "allow" if connection.makefile().readline().strip() == "allow" else "deny"
    except OSError:
        return "deny"


def _is_about(rule: str, tool: str, arguments: Any) -> bool:
    name, _, pattern = rule.rstrip(")").partition("(") if rule.endswith(")") else (rule, "", "")
    if name == "Edit" and tool in EDITING:
        return True
    if name.endswith("*"):
        return tool.startswith(name[:-1])
    if tool != name:
        return name.startswith("mcp__") and tool.startswith(f"{name}__")
    if tool != "Bash" or not pattern:
        return True
    command = arguments.get("command") if isinstance(arguments, dict) else None
    return isinstance(command, str) and _is_like(pattern, command)


def _is_like(pattern: str, command: str) -> bool:
    if command == pattern:
        return True
    if _JOINS_COMMANDS.search(command):
        return False
    prefix = pattern.removesuffix(":*") if pattern.endswith(":*") else pattern.removesuffix(" *")
    if prefix != pattern:
        return command == prefix or command.startswith(f"{prefix} ")
    return "*" in pattern and fnmatch.fnmatchcase(command, pattern)


def _use_up(path: str) -> bool:
    """Mark the approval as used; return False if it was used before."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    return True


def main() -> None:
    # If this fails, the program itself refuses every call that it was not granted.
    with open(sys.argv[1], encoding="utf-8") as file:
        rules = json.load(file)
    decision = decide(json.load(sys.stdin), rules)
    if decision:
        answer = {"hookEventName": "PreToolUse", "permissionDecision": decision}
        answer["permissionDecisionReason"] = _REASONS[decision]
        sys.stdout.write(json.dumps({"hookSpecificOutput": answer}))


if __name__ == "__main__":
    main()
