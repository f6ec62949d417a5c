import datetime
import uuid

import django.core.validators
from django.conf import settings
from django.db import migrations, models

import schedules.models.job_table
import schedules.models.people

# The primary key of most tables.
KEY = ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"))


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Calendar",
            fields=[
                KEY,
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.CASCADE,
                        related_name="cronty_calendars",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("name", models.CharField(max_length=64)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("holidays", "Public holidays"),
                            ("dates", "Own dates"),
                            ("hours", "Weekly hours"),
                            ("ics", "ICS calendar"),
                        ],
                        max_length=8,
                    ),
                ),
                ("closes", models.BooleanField(default=True)),
                ("timezone", models.CharField(blank=True, max_length=64)),
                ("rule", models.JSONField(default=dict)),
                ("words", models.CharField(editable=False, max_length=200)),
                ("compiled", models.TextField(editable=False)),
                ("digest", models.CharField(editable=False, max_length=16)),
                ("until", models.DateField(editable=False, null=True)),
                ("created_at", models.DateTimeField(editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
                ("sealed", models.TextField(blank=True, default="", editable=False)),
                ("source", models.TextField(blank=True, default="", editable=False)),
                ("source_digest", models.CharField(blank=True, default="", editable=False, max_length=32)),
                ("unread", models.PositiveIntegerField(default=0, editable=False)),
                ("tried_at", models.DateTimeField(editable=False, null=True)),
                ("read_at", models.DateTimeField(editable=False, null=True)),
                ("last_error", models.TextField(blank=True, default="", editable=False)),
            ],
            options={
                "ordering": ["name"],
                "constraints": [
                    models.UniqueConstraint(fields=("owner", "name"), name="calendar_of_owner_has_its_name")
                ],
            },
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                KEY,
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="cronty_jobs",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("public_id", models.CharField(editable=False, max_length=64)),
                ("name", models.CharField(max_length=200)),
                ("name_skeleton", models.CharField(default="", editable=False, max_length=200)),
                ("likeness", models.CharField(default="", editable=False, max_length=32)),
                ("task", models.CharField(max_length=100)),
                ("args", models.JSONField(blank=True, default=list)),
                ("kwargs", models.JSONField(blank=True, default=dict)),
                (
                    "trigger_type",
                    models.CharField(
                        choices=[("once", "Once"), ("interval", "Interval"), ("cron", "Cron")], max_length=10
                    ),
                ),
                ("run_at", models.DateTimeField(blank=True, null=True)),
                ("every", models.DurationField(blank=True, null=True)),
                (
                    "calendar_unit",
                    models.CharField(
                        blank=True, choices=[("days", "Days"), ("months", "Months")], default="", max_length=6
                    ),
                ),
                ("anchor_at", models.DateTimeField(blank=True, null=True)),
                ("cron", models.CharField(blank=True, max_length=100)),
                ("timezone", models.CharField(default="UTC", max_length=64)),
                ("spread", models.DurationField(default=datetime.timedelta(0))),
                ("ends_at", models.DateTimeField(blank=True, null=True)),
                (
                    "max_runs",
                    models.PositiveIntegerField(
                        blank=True, null=True, validators=[django.core.validators.MinValueValidator(1)]
                    ),
                ),
                ("skips", models.TextField(blank=True, default="", editable=False)),
                ("calendars", models.JSONField(blank=True, default=list)),
                (
                    "on_closed",
                    models.CharField(
                        choices=[
                            ("skip", "Skip the run"),
                            ("next", "Run at the next open time"),
                            ("previous", "Run at the last open time before"),
                        ],
                        default="skip",
                        max_length=8,
                    ),
                ),
                ("closed_by", models.TextField(blank=True, default="", editable=False)),
                (
                    "follows",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        editable=False,
                        null=True,
                        on_delete=models.SET_NULL,
                        related_name="followers",
                        to="schedules.job",
                    ),
                ),
                ("runs_per_minute", models.FloatField(default=0.0, editable=False)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("running", "Running"),
                            ("paused", "Paused"),
                            ("completed", "Completed"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="pending",
                        editable=False,
                        max_length=10,
                    ),
                ),
                ("next_run_at", models.DateTimeField(editable=False, null=True)),
                ("last_run_at", models.DateTimeField(editable=False, null=True)),
                ("last_success_at", models.DateTimeField(editable=False, null=True)),
                ("last_duration", models.DurationField(editable=False, null=True)),
                ("run_count", models.PositiveIntegerField(default=0, editable=False)),
                ("slot_count", models.PositiveIntegerField(default=0, editable=False)),
                ("failure_streak", models.PositiveIntegerField(default=0, editable=False)),
                ("last_error", models.TextField(blank=True, editable=False)),
                ("recent", models.CharField(blank=True, editable=False, max_length=30)),
                (
                    "attempts",
                    models.PositiveSmallIntegerField(
                        default=1,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(10),
                        ],
                    ),
                ),
                ("backoff", models.DurationField(default=datetime.timedelta(seconds=10))),
                ("fixed_backoff", models.BooleanField(default=False)),
                ("timeout", models.DurationField(default=datetime.timedelta(seconds=60))),
                (
                    "overlap",
                    models.CharField(
                        choices=[
                            ("skip", "Skip the new run"),
                            ("queue", "Queue the new run"),
                            ("allow", "Run in parallel"),
                        ],
                        default="skip",
                        max_length=5,
                    ),
                ),
                (
                    "catch_up",
                    models.CharField(
                        choices=[
                            ("once", "Run once to catch up"),
                            ("all", "Run every missed run"),
                            ("none", "Skip missed runs"),
                        ],
                        default="once",
                        max_length=4,
                    ),
                ),
                ("pause_after_failures", models.PositiveSmallIntegerField(default=10)),
                ("at_most_once", models.BooleanField(default=False)),
                ("urgent", models.BooleanField(default=False)),
                ("alerts", models.CharField(blank=True, default="", max_length=200)),
                ("grants", models.JSONField(blank=True, default=list)),
                ("paused_until", models.DateTimeField(editable=False, null=True)),
                ("paused_at", models.DateTimeField(editable=False, null=True)),
                ("pause_reason", models.CharField(blank=True, editable=False, max_length=200)),
                ("has_unreadable_schedule", models.BooleanField(default=False, editable=False)),
                ("proposed_at", models.DateTimeField(editable=False, null=True)),
                ("proposed_by", models.CharField(blank=True, default="", editable=False, max_length=150)),
                ("label", models.CharField(blank=True, max_length=200)),
                ("tags", models.JSONField(blank=True, default=list)),
                ("made_by", models.CharField(blank=True, editable=False, max_length=150)),
                ("source", models.CharField(blank=True, default="", editable=False, max_length=200)),
                ("source_key", models.CharField(blank=True, default="", editable=False, max_length=200)),
                ("source_digest", models.CharField(blank=True, default="", editable=False, max_length=32)),
                ("idempotency_key", models.CharField(editable=False, max_length=200, null=True)),
                ("request_digest", models.CharField(blank=True, editable=False, max_length=64)),
                ("signing_version", models.PositiveIntegerField(default=1, editable=False)),
                ("signing_changed_at", models.DateTimeField(editable=False, null=True)),
                ("revision", models.PositiveIntegerField(default=1, editable=False)),
                ("created_at", models.DateTimeField(editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
                ("deleted_at", models.DateTimeField(editable=False, null=True)),
                ("search_text", models.TextField(blank=True, default="", editable=False)),
            ],
            options={
                "ordering": [models.OrderBy(models.F("next_run_at"), nulls_last=True), "-pk"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("deleted_at", None), ("status", "pending")),
                        fields=["next_run_at", "-id"],
                        name="job_due",
                    ),
                    models.Index(
                        condition=models.Q(("paused_until__isnull", False)),
                        fields=["paused_until"],
                        name="job_paused_until",
                    ),
                    models.Index(
                        condition=models.Q(("deleted_at", None)),
                        fields=["owner", "next_run_at", "-id"],
                        name="job_list",
                    ),
                    models.Index(
                        condition=models.Q(("deleted_at", None)),
                        fields=["owner", "status", "runs_per_minute", "deleted_at"],
                        name="job_owner_status",
                    ),
                    models.Index(
                        condition=models.Q(("deleted_at", None)),
                        fields=["owner", "likeness", "run_at"],
                        name="job_owner_likeness",
                    ),
                    models.Index(
                        condition=models.Q(
                            models.Q(("status", "pending"), _negated=True),
                            models.Q(("status", "running"), _negated=True),
                            ("deleted_at", None),
                        ),
                        fields=["status", "-id"],
                        name="job_stopped",
                    ),
                    models.Index(
                        condition=models.Q(
                            models.Q(("status", "pending"), _negated=True),
                            models.Q(("status", "running"), _negated=True),
                            ("deleted_at", None),
                        ),
                        fields=["owner", "status", "-id"],
                        name="job_stopped_of_owner",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("deleted_at", None), ("failure_streak__gt", 0), ("status", "pending")
                        ),
                        fields=["next_run_at", "-id"],
                        name="job_failing",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("deleted_at", None), ("failure_streak__gt", 0), ("status", "pending")
                        ),
                        fields=["owner", "next_run_at", "-id"],
                        name="job_failing_of_owner",
                    ),
                    models.Index(
                        condition=models.Q(
                            models.Q(
                                models.Q(
                                    ("failure_streak__gte", models.F("pause_after_failures")),
                                    ("pause_after_failures__gt", 0),
                                ),
                                ("has_unreadable_schedule", True),
                                _connector="OR",
                            ),
                            ("deleted_at", None),
                            ("status", "paused"),
                        ),
                        fields=["-id"],
                        name="job_stopped_failing",
                    ),
                    models.Index(
                        condition=models.Q(
                            models.Q(
                                models.Q(
                                    ("failure_streak__gte", models.F("pause_after_failures")),
                                    ("pause_after_failures__gt", 0),
                                ),
                                ("has_unreadable_schedule", True),
                                _connector="OR",
                            ),
                            ("deleted_at", None),
                            ("status", "paused"),
                        ),
                        fields=["owner", "-id"],
                        name="job_stopped_failing_of_owner",
                    ),
                    models.Index(
                        condition=models.Q(("deleted_at", None), ("proposed_at__isnull", False)),
                        fields=["id"],
                        name="job_proposed",
                    ),
                    models.Index(
                        condition=models.Q(("deleted_at", None), ("proposed_at__isnull", False)),
                        fields=["owner", "id"],
                        name="job_proposed_of_owner",
                    ),
                    models.Index(
                        condition=models.Q(("deleted_at__isnull", False)),
                        fields=["-deleted_at", "-id"],
                        name="job_trash",
                    ),
                    models.Index(
                        condition=models.Q(("deleted_at__isnull", False)),
                        fields=["owner", "-deleted_at", "-id"],
                        name="job_trash_of_owner",
                    ),
                    models.Index(
                        condition=models.Q(("deleted_at", None), ("task", "prompt")),
                        fields=["owner", "next_run_at", "id", "status", "task", "deleted_at"],
                        name="job_prompts",
                    ),
                    models.Index(
                        condition=models.Q(
                            models.Q(("status", "completed"), _negated=True),
                            models.Q(("status", "failed"), _negated=True),
                            models.Q(("status", "cancelled"), _negated=True),
                            ("deleted_at", None),
                            ("task", "notify"),
                        ),
                        fields=["owner", "next_run_at", "-id", "status", "task", "deleted_at"],
                        name="job_notifications",
                    ),
                    models.Index(
                        models.F("owner"),
                        schedules.models.job_table.NotificationTopic(),
                        models.F("status"),
                        condition=models.Q(("deleted_at", None), ("task", "notify")),
                        name="job_notifications_of_topic",
                    ),
                    models.Index(
                        condition=models.Q(
                            models.Q(("status", "pending"), _negated=True),
                            models.Q(("status", "running"), _negated=True),
                            ("deleted_at", None),
                            ("task", "prompt"),
                        ),
                        fields=["owner", "status", "run_at", "id"],
                        name="job_ended_prompts",
                    ),
                    models.Index(
                        condition=models.Q(("deleted_at", None)),
                        fields=["owner", "name_skeleton", "name"],
                        name="job_owner_skeleton",
                        opclasses=["", "varchar_pattern_ops", ""],
                    ),
                    models.Index(
                        condition=models.Q(("closed_by", ""), _negated=True),
                        fields=["owner"],
                        name="job_with_calendars",
                    ),
                    models.Index(
                        condition=models.Q(("follows__isnull", False)), fields=["follows"], name="job_follows"
                    ),
                    models.Index(fields=["owner", "-created_at", "-id"], name="job_owner_created"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("anchor_at", None),
                                ("cron", ""),
                                ("every", None),
                                ("run_at__isnull", False),
                                ("trigger_type", "once"),
                            ),
                            models.Q(
                                ("anchor_at__isnull", False),
                                ("cron", ""),
                                ("every__isnull", False),
                                ("run_at", None),
                                ("trigger_type", "interval"),
                            ),
                            models.Q(
                                ("anchor_at", None),
                                ("every", None),
                                ("run_at", None),
                                ("trigger_type", "cron"),
                                models.Q(("cron", ""), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="job_has_only_its_own_trigger",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("next_run_at__isnull", False), ("status", "pending")),
                            models.Q(models.Q(("status", "pending"), _negated=True), ("next_run_at", None)),
                            _connector="OR",
                        ),
                        name="job_is_pending_exactly_when_armed",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("proposed_at", None),
                            models.Q(
                                models.Q(("status", "pending"), _negated=True),
                                models.Q(("status", "running"), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="job_waits_while_it_is_proposed",
                    ),
                    models.UniqueConstraint(
                        fields=("public_id",),
                        name="job_public_id_is_unique",
                        opclasses=["varchar_pattern_ops"],
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("idempotency_key__isnull", False)),
                        fields=("owner", "idempotency_key"),
                        name="job_idempotency_key_is_unique_per_owner",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("source", ""), _negated=True),
                        fields=("owner", "source", "source_key"),
                        name="job_source_key_is_unique_per_owner",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Cluster",
            fields=[
                KEY,
                ("host", models.CharField(max_length=255)),
                ("pid", models.PositiveIntegerField()),
                ("started_at", models.DateTimeField()),
                ("last_seen_at", models.DateTimeField()),
                ("probe_returned_at", models.DateTimeField()),
                ("watched_at", models.DateTimeField(null=True)),
                ("blocked_since", models.DateTimeField(null=True)),
                ("stopped_at", models.DateTimeField(null=True)),
                ("claimed_count", models.PositiveBigIntegerField(default=0)),
                ("clock_ahead", models.FloatField(default=0)),
                ("zone_data", models.CharField(blank=True, default="", max_length=20)),
                ("secret_keys", models.JSONField(default=list)),
                ("interruptions", models.JSONField(null=True)),
                ("note", models.CharField(blank=True, max_length=200)),
            ],
            options={
                "ordering": ["-last_seen_at"],
            },
        ),
        migrations.CreateModel(
            name="Execution",
            fields=[
                KEY,
                (
                    "job",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=models.SET_NULL,
                        related_name="executions",
                        to="schedules.job",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="cronty_executions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("job_name", models.CharField(max_length=200)),
                ("task", models.CharField(max_length=100)),
                ("scheduled_for", models.DateTimeField()),
                (
                    "cause",
                    models.CharField(
                        choices=[
                            ("schedule", "Schedule"),
                            ("manual", "Manual"),
                            ("catch_up", "Catch Up"),
                            ("reminder", "Reminder"),
                            ("after", "After"),
                            ("trigger", "Trigger"),
                            ("event", "Event"),
                        ],
                        default="schedule",
                        max_length=8,
                    ),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("claimed", "Claimed"),
                            ("running", "Running"),
                            ("waiting", "Waiting"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("skipped", "Skipped"),
                            ("missed", "Missed"),
                            ("cancelled", "Cancelled"),
                            ("lost", "Lost"),
                        ],
                        default="queued",
                        max_length=9,
                    ),
                ),
                ("reason", models.CharField(blank=True, max_length=300)),
                ("attempt", models.PositiveSmallIntegerField(default=0)),
                ("available_at", models.DateTimeField(null=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=models.SET_NULL,
                        related_name="executions",
                        to="schedules.cluster",
                    ),
                ),
                ("claimed_at", models.DateTimeField(null=True)),
                ("lease_until", models.DateTimeField(null=True)),
                ("leased_to", models.CharField(blank=True, max_length=150)),
                ("lease_key", models.CharField(blank=True, default="", max_length=32)),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("lateness", models.DurationField(null=True)),
                ("result", models.JSONField(null=True)),
                ("error", models.TextField(blank=True)),
                ("traceback", models.TextField(blank=True)),
                ("earlier_attempts", models.JSONField(null=True)),
                ("last_slot", models.DateTimeField(null=True)),
                ("slots", models.PositiveIntegerField(default=1)),
                ("origin", models.PositiveBigIntegerField(null=True)),
                ("given", models.JSONField(null=True)),
            ],
            options={
                "ordering": ["-scheduled_for", "-pk"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("status", "queued")),
                        fields=["available_at"],
                        name="execution_ready",
                    ),
                    models.Index(
                        condition=models.Q(("lease_until__isnull", False)),
                        fields=["lease_until"],
                        name="execution_held",
                    ),
                    models.Index(
                        condition=models.Q(("finished_at", None)), fields=["job"], name="execution_live_job"
                    ),
                    models.Index(
                        condition=models.Q(("status", "waiting")),
                        fields=["scheduled_for", "id"],
                        name="execution_waiting",
                    ),
                    models.Index(
                        condition=models.Q(("status", "waiting")),
                        fields=["owner", "scheduled_for", "id"],
                        name="execution_waiting_of_owner",
                    ),
                    models.Index(fields=["owner", "-scheduled_for", "-id"], name="execution_owner_history"),
                    models.Index(fields=["-scheduled_for", "-id"], name="execution_history"),
                    models.Index(
                        condition=models.Q(
                            models.Q(("status", "succeeded"), _negated=True), ("finished_at__isnull", False)
                        ),
                        fields=["status", "-scheduled_for", "-id"],
                        name="execution_unsuccessful",
                    ),
                    models.Index(
                        condition=models.Q(
                            models.Q(("status", "succeeded"), _negated=True), ("finished_at__isnull", False)
                        ),
                        fields=["owner", "status", "-scheduled_for", "-id"],
                        name="execution_unsuccessful_owner",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        models.F("job"),
                        models.F("scheduled_for"),
                        models.Case(
                            models.When(
                                models.Q(("cause__in", ["schedule", "catch_up"])), then=models.Value(1)
                            )
                        ),
                        name="execution_is_the_only_one_of_its_slot",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("slots", 1),
                            models.Q(("last_slot__isnull", False), ("slots__gt", 1)),
                            _connector="OR",
                        ),
                        name="execution_gap_has_a_last_slot",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AgentRun",
            fields=[
                KEY,
                (
                    "execution",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=models.DO_NOTHING,
                        related_name="agent_runs",
                        to="schedules.execution",
                    ),
                ),
                ("attempt", models.PositiveSmallIntegerField()),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=models.DO_NOTHING,
                        related_name="+",
                        to="schedules.job",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=models.DO_NOTHING,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("runner", models.CharField(max_length=100)),
                ("kind", models.CharField(max_length=20)),
                (
                    "verdict",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("done", "Done"),
                            ("nothing_to_do", "Nothing to do"),
                            ("needs_you", "Needs you"),
                            ("refused", "Refused"),
                            ("over_budget", "Over budget"),
                            ("timed_out", "Timed out"),
                            ("failed", "Failed"),
                            ("unknown", "Unknown"),
                        ],
                        max_length=13,
                    ),
                ),
                ("started_at", models.DateTimeField()),
                ("is_waiting", models.BooleanField(default=False)),
                ("ended_at", models.DateTimeField(null=True)),
                ("program_version", models.CharField(blank=True, max_length=40)),
                ("session_id", models.CharField(blank=True, max_length=200)),
                ("turns", models.PositiveIntegerField(default=0)),
                ("tokens_in", models.PositiveBigIntegerField(default=0)),
                ("tokens_out", models.PositiveBigIntegerField(default=0)),
                ("cost", models.DecimalField(decimal_places=6, max_digits=12, null=True)),
                ("session_cost", models.DecimalField(decimal_places=6, max_digits=12, null=True)),
                ("session_tokens", models.PositiveBigIntegerField(null=True)),
                ("tool_calls", models.PositiveIntegerField(default=0)),
                ("tools", models.JSONField(default=list)),
                ("denials", models.JSONField(default=list)),
                ("answer", models.TextField(blank=True)),
                ("words", models.TextField(blank=True)),
                ("cap", models.CharField(blank=True, max_length=200)),
            ],
            options={
                "ordering": ["-started_at", "-pk"],
                "indexes": [
                    models.Index(fields=["runner", "-started_at", "-id"], name="agent_run_of_runner"),
                    models.Index(fields=["owner", "-started_at", "-id"], name="agent_run_of_owner"),
                    models.Index(fields=["job", "-started_at", "-id"], name="agent_run_of_job"),
                    models.Index(
                        condition=models.Q(("ended_at", None)), fields=["runner", "id"], name="agent_run_live"
                    ),
                    models.Index(
                        condition=models.Q(("cap", ""), _negated=True),
                        fields=["cap"],
                        name="agent_run_capped",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("execution", "attempt"), name="agent_run_is_the_only_one_of_its_attempt"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="AgentStop",
            fields=[
                ("scope", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
                ("by", models.CharField(max_length=150)),
            ],
            options={
                "ordering": ["scope"],
            },
        ),
        migrations.CreateModel(
            name="Approval",
            fields=[
                KEY,
                (
                    "execution",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=models.DO_NOTHING,
                        related_name="approvals",
                        to="schedules.execution",
                    ),
                ),
                ("attempt", models.PositiveSmallIntegerField()),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=models.DO_NOTHING,
                        related_name="+",
                        to="schedules.job",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=models.DO_NOTHING,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("allowed", "Allowed"),
                            ("used", "Used"),
                            ("denied", "Denied"),
                            ("expired", "Expired"),
                            ("withdrawn", "Withdrawn"),
                        ],
                        default="waiting",
                        max_length=9,
                    ),
                ),
                ("runner", models.CharField(max_length=100)),
                ("session_id", models.CharField(max_length=200)),
                ("folder", models.TextField()),
                ("call_id", models.CharField(max_length=200)),
                ("call_digest", models.CharField(max_length=64)),
                ("tool", models.CharField(max_length=200)),
                ("arguments", models.JSONField()),
                ("why", models.TextField(blank=True)),
                ("grant", models.CharField(blank=True, max_length=200)),
                ("digest", models.CharField(max_length=64)),
                ("asked_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("answered_at", models.DateTimeField(null=True)),
                ("answered_by", models.CharField(blank=True, max_length=150)),
                ("is_always", models.BooleanField(default=False)),
                ("reply", models.TextField(blank=True, default="")),
                ("used_at", models.DateTimeField(null=True)),
                ("in_run", models.BooleanField(default=False)),
            ],
            options={
                "ordering": ["-pk"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("status", "waiting")),
                        fields=["expires_at"],
                        name="approval_expires",
                    ),
                    models.Index(
                        condition=models.Q(("status", "waiting")),
                        fields=["owner", "id"],
                        name="approval_of_owner",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("execution", "attempt", "call_id"),
                        name="approval_is_asked_once_in_an_attempt",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Profile",
            fields=[
                KEY,
                (
                    "user",
                    models.OneToOneField(
                        on_delete=models.CASCADE, related_name="cronty_profile", to=settings.AUTH_USER_MODEL
                    ),
                ),
                ("timezone", models.CharField(blank=True, max_length=64)),
                ("topic", models.CharField(blank=True, default="", max_length=64)),
                ("failure_topic", models.CharField(blank=True, max_length=64)),
                ("runner", models.CharField(blank=True, default="", max_length=100)),
                ("channel", models.CharField(blank=True, default="", max_length=40)),
                ("alert_channel", models.CharField(blank=True, default="", max_length=40)),
                ("alert_rules", models.CharField(blank=True, default="", max_length=200)),
                ("quiet_hours", models.CharField(blank=True, default="", max_length=11)),
                ("alert_every", models.DurationField(default=datetime.timedelta(days=1))),
                (
                    "clock_hours",
                    models.PositiveSmallIntegerField(
                        choices=[(24, "24-hour (17:30)"), (12, "12-hour (5:30 PM)")], default=24
                    ),
                ),
                (
                    "week_start",
                    models.PositiveSmallIntegerField(
                        choices=[(0, "Monday"), (6, "Sunday"), (5, "Saturday")], default=0
                    ),
                ),
                ("signing_key", models.CharField(default=schedules.models.people._random_key, max_length=64)),
                (
                    "calendar_key",
                    models.CharField(default=schedules.models.people._random_key, max_length=64, unique=True),
                ),
                ("ping_key", models.CharField(editable=False, max_length=64, null=True, unique=True)),
                ("prompts_asked_at", models.DateTimeField(editable=False, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Channel",
            fields=[
                KEY,
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.CASCADE,
                        related_name="cronty_channels",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("name", models.CharField(max_length=40)),
                ("kind", models.CharField(max_length=20)),
                ("options", models.JSONField(default=dict)),
                ("sealed", models.TextField(blank=True)),
                ("confirmed_at", models.DateTimeField(null=True)),
                ("last_sent_at", models.DateTimeField(null=True)),
                ("last_failed_at", models.DateTimeField(null=True)),
                ("last_error", models.TextField(blank=True, default="")),
                (
                    "job",
                    models.OneToOneField(
                        null=True, on_delete=models.SET_NULL, related_name="webhook", to="schedules.job"
                    ),
                ),
                ("old_until", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
            ],
            options={
                "ordering": ["name"],
                "constraints": [
                    models.UniqueConstraint(fields=("owner", "name"), name="channel_of_owner_has_its_name")
                ],
            },
        ),
        migrations.CreateModel(
            name="MachineStart",
            fields=[
                KEY,
                ("boot_id", models.CharField(max_length=64, unique=True)),
                ("host", models.CharField(max_length=255)),
                ("noticed_at", models.DateTimeField()),
            ],
            options={
                "ordering": ["-pk"],
            },
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                KEY,
                ("at", models.DateTimeField()),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="cronty_events",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("actor", models.CharField(max_length=150)),
                (
                    "door",
                    models.CharField(
                        choices=[
                            ("web", "Web"),
                            ("admin", "Admin"),
                            ("mcp", "Mcp"),
                            ("api", "Api"),
                            ("command", "Command"),
                            ("terminal", "Terminal"),
                            ("ping", "Ping"),
                            ("code", "Code"),
                            ("engine", "Engine"),
                            ("trigger", "Trigger"),
                            ("link", "Link"),
                        ],
                        max_length=8,
                    ),
                ),
                ("verb", models.CharField(max_length=20)),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=models.SET_NULL,
                        related_name="events",
                        to="schedules.job",
                    ),
                ),
                ("subject", models.CharField(max_length=200)),
                ("undoes", models.PositiveBigIntegerField(editable=False, null=True)),
                ("before", models.JSONField(default=dict)),
                ("after", models.JSONField(default=dict)),
            ],
            options={
                "ordering": ["-pk"],
                "indexes": [
                    models.Index(fields=["owner", "-id"], name="event_owner"),
                    models.Index(fields=["job", "-id"], name="event_job"),
                    models.Index(
                        condition=models.Q(("undoes__isnull", False)), fields=["undoes"], name="event_undoes"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Heartbeat",
            fields=[
                KEY,
                (
                    "job",
                    models.OneToOneField(
                        on_delete=models.CASCADE, related_name="heartbeat", to="schedules.job"
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.CASCADE,
                        related_name="cronty_heartbeats",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("ping_id", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("slug", models.CharField(blank=True, max_length=100)),
                ("pings", models.PositiveBigIntegerField(default=0)),
                ("last_ping_at", models.DateTimeField(null=True)),
                ("last_kind", models.CharField(blank=True, max_length=7)),
                ("last_rid", models.UUIDField(null=True)),
                ("last_success_at", models.DateTimeField(null=True)),
                ("last_duration", models.DurationField(null=True)),
                ("started_rid", models.UUIDField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["owner", "slug"], name="heartbeat_slug")],
            },
        ),
        migrations.CreateModel(
            name="Ping",
            fields=[
                KEY,
                (
                    "heartbeat",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.CASCADE,
                        related_name="received",
                        to="schedules.heartbeat",
                    ),
                ),
                ("number", models.PositiveBigIntegerField()),
                ("at", models.DateTimeField()),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("success", "Success"),
                            ("start", "Start"),
                            ("fail", "Fail"),
                            ("log", "Log"),
                        ],
                        max_length=7,
                    ),
                ),
                ("rid", models.UUIDField(null=True)),
                ("exit_status", models.PositiveSmallIntegerField(null=True)),
                ("late_by", models.DurationField(null=True)),
                ("sender", models.CharField(blank=True, max_length=45)),
                (
                    "execution",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=models.DO_NOTHING,
                        related_name="+",
                        to="schedules.execution",
                    ),
                ),
                ("body", models.TextField(blank=True)),
            ],
            options={
                "ordering": ["-number"],
                "constraints": [
                    models.UniqueConstraint(fields=("heartbeat", "number"), name="ping_has_its_number")
                ],
            },
        ),
        migrations.CreateModel(
            name="IdempotencyKey",
            fields=[
                KEY,
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.CASCADE,
                        related_name="cronty_idempotency_keys",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("key", models.CharField(max_length=200)),
                ("digest", models.CharField(max_length=64)),
                ("answer", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["owner", "created_at"], name="idempotency_owner")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("owner", "key"), name="idempotency_key_is_unique_per_owner"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Incident",
            fields=[
                KEY,
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.CASCADE,
                        related_name="cronty_incidents",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=models.SET_NULL,
                        related_name="incidents",
                        to="schedules.job",
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("failing", "Failing"),
                            ("paused", "Paused"),
                            ("late", "Late"),
                            ("missed", "Missed"),
                            ("no-worker", "no worker"),
                            ("prompt", "Prompt"),
                            ("expiring", "Expiring"),
                            ("needs-you", "needs you"),
                            ("over-limit", "over limit"),
                        ],
                        max_length=12,
                    ),
                ),
                ("subject", models.CharField(max_length=200)),
                ("name", models.CharField(max_length=200)),
                ("details", models.TextField(blank=True, default="")),
                ("opened_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                ("ending", models.CharField(blank=True, default="", max_length=200)),
                ("due_at", models.DateTimeField(null=True)),
                ("told", models.PositiveSmallIntegerField(default=0)),
                ("told_at", models.DateTimeField(null=True)),
                ("sent", models.JSONField(default=list)),
                ("snoozed_until", models.DateTimeField(null=True)),
                ("snoozed_by", models.CharField(blank=True, default="", max_length=150)),
                (
                    "notice",
                    models.ForeignKey(
                        null=True, on_delete=models.SET_NULL, related_name="reported", to="schedules.job"
                    ),
                ),
            ],
            options={
                "ordering": ["-pk"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="incident_due"
                    ),
                    models.Index(
                        condition=models.Q(("ended_at", None)), fields=["kind", "job"], name="incident_open"
                    ),
                    models.Index(fields=["owner", "-id"], name="incident_of_owner"),
                    models.Index(fields=["job", "-id"], name="incident_of_job"),
                    models.Index(
                        condition=models.Q(("ended_at__isnull", False)),
                        fields=["ended_at"],
                        name="incident_ended",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at", None)),
                        fields=("owner", "kind", "subject"),
                        name="incident_is_open_once",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Installation",
            fields=[
                KEY,
                ("secret_fingerprint", models.CharField(blank=True, max_length=64)),
                ("replaced_fingerprint", models.CharField(blank=True, default="", max_length=64)),
                ("zone_data", models.CharField(blank=True, max_length=20)),
                ("pruned_runs", models.PositiveBigIntegerField(default=0)),
                ("pruned_events", models.PositiveBigIntegerField(default=0)),
                ("pruned_to", models.CharField(blank=True, default="", max_length=100)),
                ("watch_pinged_at", models.DateTimeField(null=True)),
                ("watch_answered_at", models.DateTimeField(null=True)),
                ("watch_error", models.CharField(blank=True, default="", max_length=200)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("pk", 1)), name="installation_has_one_row")
                ],
            },
        ),
        migrations.CreateModel(
            name="RunOutput",
            fields=[
                KEY,
                (
                    "execution",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=models.DO_NOTHING,
                        related_name="outputs",
                        to="schedules.execution",
                    ),
                ),
                ("attempt", models.PositiveSmallIntegerField()),
                ("head", models.TextField(blank=True)),
                ("tail", models.TextField(blank=True)),
                ("position", models.PositiveBigIntegerField()),
                ("colours", models.JSONField(blank=True, default=list)),
                ("updated_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("execution", "attempt"), name="output_is_the_only_one_of_its_attempt"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="PromptGate",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="schedules.job",
                    ),
                ),
                ("digest", models.CharField(max_length=64)),
                ("changed_at", models.DateTimeField()),
            ],
            options={
                "ordering": ["pk"],
            },
        ),
        migrations.CreateModel(
            name="Question",
            fields=[
                (
                    "execution",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=models.DO_NOTHING,
                        primary_key=True,
                        related_name="question",
                        serialize=False,
                        to="schedules.execution",
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=models.SET_NULL,
                        related_name="questions",
                        to="schedules.job",
                    ),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("open", "Open"),
                            ("snoozed", "Snoozed"),
                            ("done", "Done"),
                            ("skipped", "Skipped"),
                            ("closed", "Closed"),
                        ],
                        default="open",
                        max_length=7,
                    ),
                ),
                ("reason", models.CharField(blank=True, max_length=200)),
                ("asked_at", models.DateTimeField()),
                ("due_at", models.DateTimeField(null=True)),
                ("reminders", models.PositiveSmallIntegerField(default=0)),
                ("answered_at", models.DateTimeField(null=True)),
                ("answered_by", models.CharField(blank=True, max_length=150)),
                ("answers", models.JSONField(default=list)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="question_due"
                    ),
                    models.Index(fields=["job", "-execution"], name="question_job"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Reminder",
            fields=[
                (
                    "execution",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=models.DO_NOTHING,
                        primary_key=True,
                        related_name="reminder",
                        serialize=False,
                        to="schedules.execution",
                    ),
                ),
                (
                    "question",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=models.DO_NOTHING,
                        related_name="sent",
                        to="schedules.question",
                    ),
                ),
                ("number", models.PositiveSmallIntegerField()),
                ("most", models.PositiveSmallIntegerField()),
                ("topic", models.CharField(blank=True, max_length=64)),
            ],
            options={
                "ordering": ["pk"],
            },
        ),
        migrations.CreateModel(
            name="Secret",
            fields=[
                KEY,
                (
                    "owner",
                    models.ForeignKey(
                        null=True,
                        on_delete=models.CASCADE,
                        related_name="cronty_secrets",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("name", models.CharField(max_length=64)),
                ("sealed", models.TextField()),
                ("hosts", models.JSONField(default=list)),
                ("commands", models.JSONField(default=list)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ["name"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("expires_at__isnull", False)),
                        fields=["expires_at"],
                        name="secret_expires",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("owner", "name"), name="secret_of_owner_has_its_name"),
                    models.UniqueConstraint(
                        condition=models.Q(("owner", None)),
                        fields=("name",),
                        name="secret_of_installation_has_its_name",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="UserSession",
            fields=[
                (
                    "session_key",
                    models.CharField(
                        max_length=40, primary_key=True, serialize=False, verbose_name="session key"
                    ),
                ),
                ("session_data", models.TextField(verbose_name="session data")),
                ("expire_date", models.DateTimeField(db_index=True, verbose_name="expire date")),
                ("user_key", models.CharField(blank=True, db_index=True, max_length=64)),
            ],
            options={
                "verbose_name": "session",
                "verbose_name_plural": "sessions",
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Token",
            fields=[
                KEY,
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=models.CASCADE, related_name="cronty_tokens", to=settings.AUTH_USER_MODEL
                    ),
                ),
                ("name", models.CharField(max_length=100)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("conversation", "Interactive (chat)"),
                            ("heartbeat", "Autonomous (runs on its own)"),
                            ("program", "Program (HTTP API, terminal)"),
                        ],
                        default="conversation",
                        max_length=12,
                    ),
                ),
                ("prefix", models.CharField(max_length=16, unique=True)),
                ("digest", models.CharField(max_length=64)),
                ("scopes", models.JSONField(default=list)),
                ("families", models.JSONField(default=list)),
                (
                    "confirm",
                    models.CharField(
                        choices=[
                            ("never", "Never"),
                            ("prompts", "Prompts and commands"),
                            ("always", "All jobs"),
                        ],
                        default="never",
                        max_length=7,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(null=True)),
                ("last_used_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
                ("oauth_client", models.PositiveBigIntegerField(null=True)),
                ("call_count", models.PositiveBigIntegerField(default=0)),
            ],
            options={
                "ordering": ["-created_at"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("revoked_at", None)),
                        fields=("owner", "name"),
                        name="token_name_is_unique_per_owner",
                        violation_error_message="name: another live token of this owner has this name.",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="TriggerAddress",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
                        primary_key=True,
                        related_name="trigger_address",
                        serialize=False,
                        to="schedules.job",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("old_digest", models.CharField(max_length=64, null=True, unique=True)),
                ("old_until", models.DateTimeField(null=True)),
                (
                    "scheme",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", "The address is secret"),
                            ("github", "Signed by GitHub"),
                            ("stripe", "Signed by Stripe"),
                            ("standard", "Signed by Standard Webhooks"),
                            ("cronty", "Signed by Cronty"),
                        ],
                        max_length=8,
                    ),
                ),
                ("secret_name", models.CharField(blank=True, max_length=64)),
                ("created_at", models.DateTimeField()),
                ("rotated_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="TriggerCall",
            fields=[
                KEY,
                (
                    "address",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.CASCADE,
                        related_name="calls",
                        to="schedules.triggeraddress",
                    ),
                ),
                ("message_id", models.CharField(max_length=64)),
                ("signature", models.CharField(max_length=64)),
                ("received_at", models.DateTimeField()),
                (
                    "execution",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=models.DO_NOTHING,
                        related_name="+",
                        to="schedules.execution",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["received_at"], name="trigger_call_received")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("address", "message_id"), name="trigger_call_is_received_once"
                    )
                ],
            },
        ),
    ]
