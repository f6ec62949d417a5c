"""Argument templates: texts with {parameters} and ${secret:NAME}, filled in without a shell.

No value can become an option: `template_problem` checks the file, and `option_problem` checks values.
"""

import re
from collections.abc import Mapping

from schedules.secrets.references import NAME_PATTERN

PARAMETER_PATTERN = r"[a-z][a-z0-9_]{0,49}"
END_OF_OPTIONS = "--"

# {{name}} stands for the literal text {name}; braces around anything else are ordinary characters.
_PART = re.compile(
    rf"\$\{{secret:(?P<secret>{NAME_PATTERN})\}}"
    rf"|\{{\{{(?P<literal>{PARAMETER_PATTERN})\}}\}}"
    rf"|\{{(?P<parameter>{PARAMETER_PATTERN})\}}"
)


def parameters_in(template: str) -> set[str]:
    return {part["parameter"] for part in _PART.finditer(template) if part["parameter"]}


def secrets_in(template: str) -> set[str]:
    return {part["secret"] for part in _PART.finditer(template) if part["secret"]}


def fill_in(template: str, values: Mapping[str, str], secrets: Mapping[str, str]) -> str:
    """Fill in a template in one pass, so that values are never read as templates themselves."""

    def part(match: re.Match[str]) -> str:
        if match["secret"]:
            return secrets[match["secret"]]
        if match["literal"]:
            return f"{{{match['literal']}}}"
        return values[match["parameter"]]

    return _PART.sub(part, template)


def template_problem(template: str) -> str | None:
    """Return why a value could become an option in this argument, or None."""
    first = next((part for part in _PART.finditer(template) if not part["literal"]), None)
    if first and template.startswith("-") and "=" not in template[: first.start()]:
        return (
            f"a value in {template!r} could become an option: write --option={{name}},"
            ' or two arguments, "--option" and "{name}"'
        )
    return None


def option_problem(template: str, argument: str) -> str | None:
    """Return why a filled-in argument must not stand before `--`, or None."""
    if argument.startswith("-") and not template.startswith("-"):
        return "must not begin with -, because the program would read it as an option"
    return None
