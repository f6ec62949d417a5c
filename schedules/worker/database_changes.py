"""Whether others have changed the database: on SQLite, the claim loop learns that without a query."""

from django.db import connection


class DatabaseChanges:
    """What the claim loop saw of the database when it last looked."""

    def __init__(self) -> None:
        self._version = -1
        self._connection: object = None

    def may_have_happened(self) -> bool:
        """Return whether others may have changed the database since the last call."""
        if connection.vendor != "sqlite":
            return True
        connection.ensure_connection()
        version = connection.connection.execute("PRAGMA data_version").fetchone()[0]
        # The number belongs to the connection, so it does not show changes before a reconnect.
        is_changed = version != self._version or connection.connection is not self._connection
        self._version, self._connection = version, connection.connection
        return bool(is_changed)
