"""The size of the database."""

from pathlib import Path

from django.db import connection


def database_size() -> int:
    """Return the bytes of the database: the SQLite file with its log, or what PostgreSQL reports."""
    if connection.vendor == "sqlite":
        path = Path(str(connection.settings_dict["NAME"]))
        return sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*") if each.is_file())
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        return int(cursor.fetchone()[0])
