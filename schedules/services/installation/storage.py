"""The size of the database."""

from pathlib import Path

from django.db import connection


def database_size() -> int:
    """Return the size of the database in bytes: of the SQLite file with its log, or as PostgreSQL reports it."""
    if connection.vendor == "sqlite":
        path = Path(str(connection.settings_dict["NAME"]))
        return sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*") if each.is_file())
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        return int(cursor.fetchone()[0])
