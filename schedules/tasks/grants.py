"""Grants: rules like `Bash(git push:*)`, which allow a job's runs to call tools without asking."""

import re

from schedules import limits

MAX_GRANTS = 50
LONGEST_GRANT = 200
EXAMPLE = "Write a tool like WebFetch, or a tool with a pattern like Bash(git push:*)."
_RULE = re.compile(r"(?P<tool>[A-Za-z][A-Za-z0-9_.-]*\*?)(?:\((?P<pattern>[^(),]+)\))?")
# Characters that join or nest shell commands: a rule about the first command must not allow the others.
_JOINS_COMMANDS = re.compile(r"[;&|<>$`\\\n\r]")


def grants_problem(grants: object) -> str | None:
    """Return what is wrong with the grants of a job, or None."""
    if not isinstance(grants, list) or not all(isinstance(grant, str) for grant in grants):
        return 'Give a list of rules, like ["Bash(git push:*)"].'
    if len(grants) > MAX_GRANTS:
        return f"At most {MAX_GRANTS} permissions."
    if len(set(grants)) < len(grants):
        return "Name each permission once."
    return next(filter(None, map(grant_problem, grants)), None)


def grant_problem(grant: str) -> str | None:
    """Return what is wrong with one rule, or None."""
    if len(grant) > LONGEST_GRANT:
        return f"{grant[:50]}…: at most {LONGEST_GRANT} characters."
    if problem := limits.line_problem(grant):
        return f"{limits.strip_unprintable(grant)[:50]}: {problem}"
    return None if _RULE.fullmatch(grant) else f"{grant[:50]}: this is no rule. {EXAMPLE}"


def covers(allowed: str, grant: str) -> bool:
    """Return whether a rule that the operator makes grantable includes this grant."""
    if allowed in ("*", grant):
        return True
    wide, narrow = _RULE.fullmatch(allowed), _RULE.fullmatch(grant)
    if wide is None or narrow is None:
        return False
    if wide["pattern"] is None:
        return _covers_tool(wide["tool"], narrow["tool"])
    prefix = wide["pattern"].removesuffix(":*")
    if wide["tool"] != narrow["tool"] or not narrow["pattern"] or prefix == wide["pattern"]:
        return False
    command = narrow["pattern"].removesuffix(":*")
    is_within = command == prefix or command.startswith(f"{prefix} ")
    return is_within and not _JOINS_COMMANDS.search(command)


def _covers_tool(allowed: str, tool: str) -> bool:
    if allowed.endswith("*"):
        return tool.startswith(allowed[:-1])
    # The name of a server stands for all its tools.
    return tool == allowed or (allowed.startswith("mcp__") and tool.startswith(f"{allowed}__"))


def grant_of(tool: str, arguments: object) -> str:
    """Return the narrowest rule that allows the same call again, or an empty text if no rule can express that."""
    grant = tool
    if tool == "Bash":
        command = arguments.get("command") if isinstance(arguments, dict) else None
        # A star would allow more than the person has seen, and each of several commands needs its own rule.
        if not isinstance(command, str) or "*" in command or _JOINS_COMMANDS.search(command):
            return ""
        grant = f"Bash({command})"
    return "" if tool.endswith("*") or grant_problem(grant) else grant
