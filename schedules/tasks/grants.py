"""Grants: rules like `Bash(git push:*)` that name the calls of tools which the runs of a job may make."""

import re

from schedules import limits

MOST_GRANTS = 50
LONGEST_GRANT = 200
EXAMPLE = "Write a tool like WebFetch, or a tool with a pattern like Bash(git push:*)."
_RULE = re.compile(r"(?P<tool>[A-Za-z][A-Za-z0-9_.-]*\*?)(?:\((?P<pattern>[^(),]+)\))?")
# What joins commands, or puts another one inside: a rule about the first says nothing about the others.
_JOINS_COMMANDS = re.compile(r"[;&|<>$`\\\n\r]")


def grants_problem(grants: object) -> str | None:
    """Return what is wrong with the grants of a job, or None."""
    if not isinstance(grants, list) or not all(isinstance(grant, str) for grant in grants):
        return 'Give a list of rules, like ["Bash(git push:*)"].'
    if len(grants) > MOST_GRANTS:
        return f"At most {MOST_GRANTS} permissions."
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
    """Return whether what an operator allows to be granted includes this rule."""
    if allowed in ("*", grant):
        return True
    wide, narrow = _RULE.fullmatch(allowed), _RULE.fullmatch(grant)
    if wide is None or narrow is None:
        return False
    if wide["pattern"] is None:
        return _names(wide["tool"], narrow["tool"])
    begin = wide["pattern"].removesuffix(":*")
    if wide["tool"] != narrow["tool"] or not narrow["pattern"] or begin == wide["pattern"]:
        return False
    inner = narrow["pattern"].removesuffix(":*")
    is_within = inner == begin or inner.startswith(f"{begin} ")
    return is_within and not _JOINS_COMMANDS.search(inner)


def _names(allowed: str, tool: str) -> bool:
    if allowed.endswith("*"):
        return tool.startswith(allowed[:-1])
    # The name of a server stands for all its tools.
    return tool == allowed or (allowed.startswith("mcp__") and tool.startswith(f"{allowed}__"))


def grant_of(tool: str, arguments: object) -> str:
    """Return the narrowest rule that allows the same call again, or an empty text if no rule can say it."""
    grant = tool
    if tool == "Bash":
        command = arguments.get("command") if isinstance(arguments, dict) else None
        # A star would allow more than what was shown, and of several commands each needs a rule.
        if not isinstance(command, str) or "*" in command or _JOINS_COMMANDS.search(command):
            return ""
        grant = f"Bash({command})"
    return "" if tool.endswith("*") or grant_problem(grant) else grant
