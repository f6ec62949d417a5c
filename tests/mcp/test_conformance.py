"""A part of the official conformance suite, if `make conformance` has installed it; that target runs all of it."""

import pytest

from tests.mcp.conformance import SMALL, check_scenarios, node_problem


@pytest.mark.verify
@pytest.mark.timeout(3600)
def test_official_suite_passes_in_both_eras(site):
    if problem := node_problem(offline=True):
        pytest.skip(f"run `make conformance` once: {problem}")

    for name, passed, output in check_scenarios(site, SMALL, offline=True):
        assert passed, f"{name}: {output}"
