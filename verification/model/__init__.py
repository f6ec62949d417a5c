"""Cronty beside a reference that is too simple to be wrong."""

import pytest

# Its assertions are the point of the test: they should say what differs.
pytest.register_assert_rewrite("verification.model.machine")
