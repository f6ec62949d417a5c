"""The marker `faults` for tests that run a whole campaign: `-m faults` selects them."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "faults: runs the real product and breaks it; takes a minute or more.")
