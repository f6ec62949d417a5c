"""A migration that locks the tables of the engine; the campaign applies and reverts it."""

from importlib.util import find_spec
from pathlib import Path

from django.db import migrations


def _newest() -> str:
    """Return the newest migration: on SQLite a later one would recreate the table without our column."""
    spec = find_spec("schedules.migrations")
    assert spec is not None
    assert spec.submodule_search_locations
    return max(path.stem for path in Path(spec.submodule_search_locations[0]).glob("0*.py"))


ADD = "ALTER TABLE schedules_execution ADD COLUMN faults_extra integer NULL"
DROP = "ALTER TABLE schedules_execution DROP COLUMN faults_extra"


class Migration(migrations.Migration):
    dependencies = [("schedules", _newest())]
    operations = [
        # The product refuses to start on tables with other columns than its own, so none stays.
        migrations.RunSQL(ADD, DROP),
        migrations.RunSQL(DROP, ADD),
        migrations.RunSQL(
            "CREATE INDEX faults_job_name ON schedules_job (name)", "DROP INDEX faults_job_name"
        ),
    ]
