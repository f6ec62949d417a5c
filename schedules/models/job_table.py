"""Constraints and indexes of the table of jobs, with the queries that they serve."""

from typing import Any

from django.db import models
from django.db.models import F, Q


class Argument(models.Func):
    """A text argument of a job's task, given by name or by position.

    Reading only the one or two arguments that a list shows is faster than reading all of them.
    """

    # Not the ORM's key transforms: their paths are parameters, for which SQLite does not use an index.
    output_field = models.TextField()

    def __init__(self, name: str, position: int) -> None:
        super().__init__("kwargs", "args", name=name, position=position)

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(
            compiler,
            connection,
            template="COALESCE(JSON_EXTRACT(%(expressions)s, '$[%(position)s]'))",
            arg_joiner=f", '$.{self.extra['name']}'), JSON_EXTRACT(",
            **context,
        )

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(
            compiler,
            connection,
            template="COALESCE(%(expressions)s ->> %(position)s)",
            arg_joiner=f" ->> '{self.extra['name']}', ",
            **context,
        )


class NotificationTopic(Argument):
    """The topic of a notification."""

    def __init__(self) -> None:
        super().__init__("topic", 1)


# Negations, because SQLite uses a partial index for them, but not for a list of values.
IS_UNSENT_NOTIFICATION = (
    ~Q(status="completed") & ~Q(status="failed") & ~Q(status="cancelled") & Q(task="notify", deleted_at=None)
)


def _for_one_and_all(name: str, fields: list[str], condition: Q) -> list[models.Index]:
    """Return an index for the lists of one owner, and the same for those of staff, who see all jobs."""
    return [
        models.Index(name=name, fields=fields, condition=condition),
        models.Index(name=f"{name}_of_owner", fields=["owner", *fields], condition=condition),
    ]


CONSTRAINTS: list[models.BaseConstraint] = [
    models.CheckConstraint(
        name="job_has_only_its_own_trigger",
        condition=(
            Q(trigger_type="once", run_at__isnull=False, every=None, anchor_at=None, cron="")
            | Q(trigger_type="interval", run_at=None, every__isnull=False, anchor_at__isnull=False, cron="")
            | (Q(trigger_type="cron", run_at=None, every=None, anchor_at=None) & ~Q(cron=""))
        ),
    ),
    models.CheckConstraint(
        name="job_is_pending_exactly_when_armed",
        condition=Q(status="pending", next_run_at__isnull=False)
        | (~Q(status="pending") & Q(next_run_at=None)),
    ),
    models.CheckConstraint(
        name="job_waits_while_it_is_proposed",
        condition=Q(proposed_at=None) | (~Q(status="pending") & ~Q(status="running")),
    ),
    # Not `unique` on the column, because PostgreSQL would then need a second index to find ids by prefix.
    models.UniqueConstraint(
        name="job_public_id_is_unique", fields=["public_id"], opclasses=["varchar_pattern_ops"]
    ),
    models.UniqueConstraint(
        name="job_idempotency_key_is_unique_per_owner",
        fields=["owner", "idempotency_key"],
        condition=Q(idempotency_key__isnull=False),
    ),
    models.UniqueConstraint(
        name="job_source_key_is_unique_per_owner",
        fields=["owner", "source", "source_key"],
        condition=~Q(source=""),
    ),
]
INDEXES: list[models.Index] = [
    # For the claim loop, which queries it several times a second.
    models.Index(
        name="job_due", fields=["next_run_at", "-id"], condition=Q(status="pending", deleted_at=None)
    ),
    models.Index(name="job_paused_until", fields=["paused_until"], condition=Q(paused_until__isnull=False)),
    models.Index(name="job_list", fields=["owner", "next_run_at", "-id"], condition=Q(deleted_at=None)),
    # For quotas, which read only this index; without `deleted_at`, SQLite would also read the jobs.
    models.Index(
        name="job_owner_status",
        fields=["owner", "status", "runs_per_minute", "deleted_at"],
        condition=Q(deleted_at=None),
    ),
    models.Index(
        name="job_owner_likeness",
        fields=["owner", "likeness", "run_at"],
        condition=Q(deleted_at=None),
    ),
    # For the parts of long lists, of one owner and of staff. Most jobs are in none of these indexes, so that a firing
    # does not update any.
    *_for_one_and_all(
        "job_stopped",
        ["status", "-id"],
        ~Q(status="pending") & ~Q(status="running") & Q(deleted_at=None),
    ),
    *_for_one_and_all(
        "job_failing",
        ["next_run_at", "-id"],
        Q(status="pending", deleted_at=None, failure_streak__gt=0),
    ),
    # Paused automatically; the condition is that of `standings.is_stopped_failing`.
    *_for_one_and_all(
        "job_stopped_failing",
        ["-id"],
        Q(
            Q(pause_after_failures__gt=0, failure_streak__gte=F("pause_after_failures"))
            | Q(has_unreadable_schedule=True),
            status="paused",
            deleted_at=None,
        ),
    ),
    *_for_one_and_all("job_proposed", ["id"], Q(proposed_at__isnull=False, deleted_at=None)),
    *_for_one_and_all("job_trash", ["-deleted_at", "-id"], Q(deleted_at__isnull=False)),
    # The lists of the tools for prompts and notifications; with the last columns, SQLite counts inside the index.
    models.Index(
        name="job_prompts",
        fields=["owner", "next_run_at", "id", "status", "task", "deleted_at"],
        condition=Q(task="prompt", deleted_at=None),
    ),
    models.Index(
        name="job_notifications",
        fields=["owner", "next_run_at", "-id", "status", "task", "deleted_at"],
        condition=IS_UNSENT_NOTIFICATION,
    ),
    # Without `next_run_at`, which every firing changes: one topic has few enough notifications to sort them.
    models.Index(
        F("owner"),
        NotificationTopic(),
        F("status"),
        name="job_notifications_of_topic",
        condition=Q(task="notify", deleted_at=None),
    ),
    # Without `last_run_at`: if an index had a column that changes at the end of every run, PostgreSQL would have to
    # update all indexes each time.
    models.Index(
        name="job_ended_prompts",
        fields=["owner", "status", "run_at", "id"],
        condition=~Q(status="pending") & ~Q(status="running") & Q(task="prompt", deleted_at=None),
    ),
    # With the name, so that jobs of the same name are left out without reading them. It also finds names by prefix, for
    # which PostgreSQL needs this operator class.
    models.Index(
        name="job_owner_skeleton",
        fields=["owner", "name_skeleton", "name"],
        opclasses=["", "varchar_pattern_ops", ""],
        condition=Q(deleted_at=None),
    ),
    # To find the jobs of a calendar that changes.
    models.Index(name="job_with_calendars", fields=["owner"], condition=~Q(closed_by="")),
    # To find the followers of a job, at the end of every run.
    models.Index(name="job_follows", fields=["follows"], condition=Q(follows__isnull=False)),
    models.Index(name="job_owner_created", fields=["owner", "-created_at", "-id"]),
]
