"""The sizes in which a proof runs: a small one in `make test`, a larger one in `make verify`."""

import os
from typing import Any

import pytest


def sizes(small: int, large: int, variable: str = "") -> list[Any]:
    """Return both sizes as parameters of a test, or the only one that the environment names, for targets like `make fuzz`."""
    if chosen := os.environ.get(variable):
        return [pytest.param(int(chosen), id=chosen)]
    return [pytest.param(small, id="small"), pytest.param(large, id="large", marks=pytest.mark.verify)]
