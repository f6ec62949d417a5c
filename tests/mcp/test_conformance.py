"""The official conformance suite in small form, once `make conformance` has brought it; the whole is that target."""

import pytest

from tests.mcp.conformance import SMALL, check_scenarios, node_problem


@pytest.mark.timeout(300)
def test_the_official_suite_passes_in_both_eras(site):
    if problem := node_problem(offline=True):
        pytest.skip(f"run `make conformance` once: {problem}")

    for name, passed, output in check_scenarios(site, SMALL, offline=True):
        assert passed, f"{name}: {output}"
