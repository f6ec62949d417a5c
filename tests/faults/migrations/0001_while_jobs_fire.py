"""A migration that locks the tables the engine works on; the campaign takes it back and forth."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("schedules", "0001_initial")]
    operations = [
        migrations.RunSQL(
            "ALTER TABLE schedules_execution ADD COLUMN faults_extra integer NULL",
            "ALTER TABLE schedules_execution DROP COLUMN faults_extra",
        ),
        migrations.RunSQL(
            "CREATE INDEX faults_job_name ON schedules_job (name)", "DROP INDEX faults_job_name"
        ),
    ]
