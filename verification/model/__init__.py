"""Cronty compared with a simple reference model."""

import pytest

# Rewrite the assertions of this module, so that failures show the difference.
pytest.register_assert_rewrite("verification.model.machine")
