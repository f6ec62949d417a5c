"""server.json, which describes Cronty to the MCP registry: the rules of its schema, and the truth of what it says."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from cronty_site.terminal.group import COMMANDS
from schedules import __version__

ROOT = Path(__file__).resolve().parents[2]
SERVER = json.loads((ROOT / "server.json").read_text())
# Published at the address in `$schema`, by the Model Context Protocol project under the licence beside
# it; without the examples of package registries.
SCHEMA = json.loads((Path(__file__).parent / "mcp_registry.schema.json").read_text())


def test_file_keeps_the_rules_of_the_registry():
    assert SERVER["$schema"] == SCHEMA["$id"]
    problems = [problem.message for problem in Draft7Validator(SCHEMA).iter_errors(SERVER)]

    assert problems == []


@pytest.mark.parametrize(
    "change",
    [
        {"description": "x" * 101},
        {"name": "cronty"},
        {"packages": [{**SERVER["packages"][0], "version": "latest"}]},
        {"packages": [{**SERVER["packages"][0], "transport": {"type": "streamable-http"}}]},
        {"remotes": [{"type": "websocket", "url": "https://cronty.example/mcp"}]},
    ],
)
def test_rules_refuse_what_the_registry_refuses(change):
    assert list(Draft7Validator(SCHEMA).iter_errors({**SERVER, **change}))


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
