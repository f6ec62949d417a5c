"""server.json, which describes Cronty to the MCP registry: the rules of its schema, and the truth of what it says."""

import json
import re
from pathlib import Path

from jsonschema import Draft7Validator

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


def test_version_is_that_of_the_product_and_no_unpublished_package_is_named():
    assert SERVER["version"] == __version__
    assert "packages" not in SERVER


def test_address_uses_its_variables():
    [remote] = SERVER["remotes"]

    assert re.findall(r"\{(\w+)\}", remote["url"]) == list(remote["variables"])
