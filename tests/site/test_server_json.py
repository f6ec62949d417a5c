"""server.json, which describes Cronty to the MCP registry: the rules of its schema, and the truth of what it says.

The schema is published at the address in `$schema`; tests need no network, so its rules for what we use stand here.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from cronty_site.terminal.group import COMMANDS
from schedules import __version__

ROOT = Path(__file__).resolve().parents[2]
SERVER = json.loads((ROOT / "server.json").read_text())
TEXT = {"type": "string", "minLength": 1}


def fields(required: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": required.split(),
        "properties": properties,
        "additionalProperties": False,
    }


INPUT: dict[str, Any] = {
    "description": TEXT,
    "isRequired": {"type": "boolean"},
    "isSecret": {"type": "boolean"},
    "format": {"enum": ["string", "number", "boolean", "filepath"]},
    "value": TEXT,
    "default": TEXT,
    "placeholder": TEXT,
}
ARGUMENT = {
    "oneOf": [
        fields("type value", type={"const": "positional"}, **INPUT),
        fields("type name", type={"const": "named"}, name=TEXT, **INPUT),
    ]
}
NAMED_INPUTS = {"type": "array", "items": fields("name", name=TEXT, **INPUT)}
VERSION = {"type": "string", "maxLength": 255, "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+([-.a-z0-9]*)$"}
PACKAGE = fields(
    "registryType identifier version transport",
    registryType={"const": "pypi"},
    registryBaseUrl={"const": "https://pypi.org"},
    identifier=TEXT,
    version=VERSION,
    runtimeHint={"enum": ["uvx"]},
    transport=fields("type", type={"const": "stdio"}),
    packageArguments={"type": "array", "items": ARGUMENT},
    environmentVariables=NAMED_INPUTS,
)
REMOTE = fields(
    "type url",
    type={"const": "streamable-http"},
    url={"type": "string", "pattern": r"^https?://[^\s]+$"},
    headers=NAMED_INPUTS,
    variables={"type": "object", "additionalProperties": fields("description", **INPUT)},
)
SCHEMA = fields(
    "$schema name description version",
    name={"type": "string", "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$", "maxLength": 200},
    title={"type": "string", "minLength": 1, "maxLength": 100},
    description={"type": "string", "minLength": 1, "maxLength": 100},
    version=VERSION,
    packages={"type": "array", "items": PACKAGE},
    remotes={"type": "array", "items": REMOTE},
)
SCHEMA["properties"]["$schema"] = {
    "const": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
}


def test_file_keeps_the_rules_of_the_registry():
    problems = [problem.message for problem in Draft202012Validator(SCHEMA).iter_errors(SERVER)]

    assert problems == []


@pytest.mark.parametrize(
    "change",
    [
        {"description": "x" * 101},
        {"name": "cronty"},
        {"version": "latest"},
        {"status": "active"},
        {"packages": [{**SERVER["packages"][0], "version": "^1.0"}]},
    ],
)
def test_rules_refuse_what_the_registry_refuses(change):
    assert list(Draft202012Validator(SCHEMA).iter_errors({**SERVER, **change}))


def test_package_is_the_one_that_is_built():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [package] = SERVER["packages"]

    assert (package["identifier"], package["version"], SERVER["version"]) == (
        project["name"],
        __version__,
        __version__,
    )
    # The registry finds the owner of a package by this line of its description.
    assert f"mcp-name: {SERVER['name']}" in (ROOT / project["readme"]).read_text()


def test_arguments_are_those_of_a_subcommand():
    [command, *options] = SERVER["packages"][0]["packageArguments"]

    assert command["value"] in COMMANDS
    assert [option["name"] for option in options] == ["--user"]


def test_address_uses_its_variables():
    [remote] = SERVER["remotes"]

    assert re.findall(r"\{(\w+)\}", remote["url"]) == list(remote["variables"])
