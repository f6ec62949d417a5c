"""A fast parser for PostgreSQL timestamps: Django's takes ten times as long, and a claim reads thousands."""

from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from psycopg.adapt import Loader


class UtcLoader(Loader):
    """Parses the text of a moment in UTC."""

    # Django compares this attribute with the zone of the connection.
    timezone = UTC

    def load(self, data: Any) -> datetime:
        return datetime.fromisoformat(str(data, "ascii"))


def read_moments_faster(connection: Any) -> None:
    """Register the parser for a new connection."""
    # In any other zone, Django would replace the parser for every cursor.
    if settings.USE_TZ and connection.timezone_name == "UTC":
        connection.connection.adapters.register_loader("timestamptz", UtcLoader)
