"""Fixtures that `verification` shares with `tests`: the same database and the same settings."""

from tests.conftest import (
    cheap_settings,
    django_db_keepdb,
    django_db_modify_db_settings,
    measure,
    quick_flush,
)

__all__ = ["cheap_settings", "django_db_keepdb", "django_db_modify_db_settings", "measure", "quick_flush"]
