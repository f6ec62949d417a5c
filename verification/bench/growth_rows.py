"""Rows for the growth benchmark: jobs, runs and events in realistic proportions, copied inside the database."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.management.color import no_style
from django.db import connection
from django.db.models import Max, Model

from schedules.models import Cluster, Event, Execution, Job, Profile
from schedules.models.job_texts import searchable_text

FEW = 100
OTHER_USERS = 300
MONTH = 30 * 86_400
SKELETON = "replace(replace(replace(lower({0}), 'i', 'l'), '1', 'l'), '0', 'o')"
WORDS = ("Backup", "Report", "Reminder", "Ping", "Sync", "Invoice", "Digest", "Cleanup")


class Filling:
    """One database that grows: the owner of nearly everything, an owner of a hundred jobs, and staff without any."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.owner = _person("all")
        self.few = _person("few")
        self.staff = _person("staff", is_staff=True, is_superuser=True)
        if not User.objects.filter(username="other0").exists():
            User.objects.bulk_create([User(username=f"other{number}") for number in range(OTHER_USERS)])
            Cluster.objects.create(
                host="growth", pid=1, started_at=now, last_seen_at=now, probe_returned_at=now
            )

    @property
    def size(self) -> int:
        return int(
            (Job.objects.filter(public_id__startswith="grown_").aggregate(last=Max("pk")))["last"] or 0
        )

    def grow_to(self, size: int) -> None:
        """Add jobs, and a run and an event for each of them, until there are that many."""
        begin = self.size + 1
        if begin > size:
            return
        templates = self._templates(size)
        self._copy_jobs(begin, size, templates)
        Job.objects.filter(pk__in=templates).delete()
        self._copy_runs(begin, size)
        self._copy_events(begin, size)
        if begin == 1:
            self._add_live_runs()
        self._continue_keys()
        self.analyze()

    def analyze(self) -> None:
        """Let the database count its rows, as it does by itself after a while."""
        with connection.cursor() as cursor:
            # PostgreSQL vacuums new rows sooner or later, too, but not within a transaction.
            can_vacuum = connection.vendor != "sqlite" and not connection.in_atomic_block
            cursor.execute("VACUUM ANALYZE" if can_vacuum else "ANALYZE")

    def _continue_keys(self) -> None:
        """Let the next job get a key after those of the copies."""
        statements = connection.ops.sequence_reset_sql(no_style(), [Job])
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def _templates(self, size: int) -> list[int]:
        """Create one job of each kind, with keys that are never used by copies."""
        kinds: list[dict[str, Any]] = [
            {"task": "webhook", "kwargs": {"url": "https://example.org/"}, "trigger_type": "cron"},
            {"task": "notify", "kwargs": {"topic": "home", "message": "Hello"}, "trigger_type": "cron"},
            {"task": "prompt", "kwargs": {"prompt": "Summarise my unread mail."}, "trigger_type": "once"},
        ]
        keys = []
        for place, kind in enumerate(kinds):
            when = {"run_at": self.now} if kind["trigger_type"] == "once" else {"cron": "30 8 * * 1-5"}
            job = Job(
                pk=10**9 + size + place,
                owner=self.owner,
                public_id=f"template_{place}",
                name="template",
                next_run_at=self.now,
                created_at=self.now,
                updated_at=self.now,
                recent="SSSSSSSSSFSSSS",
                **when,
                **kind,
            )
            job.search_text = searchable_text(job)
            job.save(force_insert=True)
            keys.append(job.pk)
        return keys

    def _copy_jobs(self, begin: int, end: int, templates: list[int]) -> None:
        name = f"{_choice(WORDS)} || ' ' || i"
        state = "(i * 104729 % 100)"
        is_pending = f"{state} < 80"
        next_run = f"CASE WHEN i % 1000 = 7 THEN {self._ago('600 + i % 60')} ELSE {self._ahead('i * 7907 % ' + str(MONTH))} END"
        values = {
            "id": "i",
            "public_id": "'grown_' || i",
            "owner_id": f"CASE WHEN i <= 1000 AND i % 10 = 0 THEN {self.few.pk} ELSE {self.owner.pk} END",
            "name": name,
            "name_skeleton": SKELETON.format(name),
            "likeness": "'grown_' || i",
            "status": f"CASE WHEN {is_pending} THEN 'pending' WHEN {state} < 83 THEN 'paused'"
            f" WHEN {state} < 93 THEN 'completed' WHEN {state} < 96 THEN 'failed' ELSE 'cancelled' END",
            "next_run_at": f"CASE WHEN {is_pending} THEN {next_run} END",
            "last_run_at": f"CASE WHEN i % 10 < 8 THEN {self._ago('i * 7907 % ' + str(MONTH))} END",
            "failure_streak": "CASE WHEN i % 100 = 1 THEN 2 ELSE 0 END",
            "tags": "CASE WHEN i % 20 = 0 THEN '[\"home\"]' ELSE '[]' END" + _json(),
            "made_by": "CASE WHEN i % 3 = 0 THEN 'laptop' ELSE 'all' END",
            "created_at": self._ago("(1000000000 - i * 7) % 31536000"),
            "search_text": f"lower({name}) || {_line_end()} || t.search_text"
            f" || CASE WHEN i % 20 = 0 THEN '\thome' || {_line_end()} ELSE '' END",
            "deleted_at": f"CASE WHEN i % 100 = 9 THEN {self._ago('i * 7907 % 864000')} END",
        }
        kind = f"CASE WHEN i % 10 < 7 THEN {templates[0]} WHEN i % 10 < 9 THEN {templates[1]} ELSE {templates[2]} END"
        self._copy(Job, values, begin, end, f"JOIN {Job._meta.db_table} t ON t.id = {kind}")

    def _copy_runs(self, begin: int, end: int) -> None:
        state = "(i * 104729 % 1000)"
        values = {
            "job_id": "t.id",
            "owner_id": "t.owner_id",
            "job_name": "t.name",
            "task": "t.task",
            "scheduled_for": self._ago("i * 7907 % " + str(MONTH)),
            "cause": "CASE WHEN i % 50 = 0 THEN 'manual' ELSE 'schedule' END",
            "status": f"CASE WHEN {state} < 900 THEN 'succeeded' WHEN {state} < 940 THEN 'failed'"
            f" WHEN {state} < 970 THEN 'skipped' WHEN {state} < 985 THEN 'missed' WHEN {state} < 999 THEN 'cancelled'"
            " ELSE 'lost' END",
            "reason": "''",
            "attempt": "1",
            "leased_to": "''",
            "lease_key": "''",
            "started_at": self._ago("i * 7907 % " + str(MONTH)),
            "finished_at": self._ago("i * 7907 % " + str(MONTH)),
            "lateness": "20000" if connection.vendor == "sqlite" else "interval '20 milliseconds'",
            "error": "''",
            "traceback": "''",
            "slots": "1",
        }
        self._copy(Execution, values, begin, end, f"JOIN {Job._meta.db_table} t ON t.id = i")

    def _copy_events(self, begin: int, end: int) -> None:
        values = {
            "at": self._ago("i * 7907 % " + str(MONTH)),
            "owner_id": "t.owner_id",
            "actor": "CASE WHEN i % 3 = 0 THEN 'laptop' ELSE 'all' END",
            "door": "CASE WHEN i % 3 = 0 THEN 'mcp' ELSE 'web' END",
            "verb": _choice(("create", "edit", "pause", "resume")),
            "job_id": "t.id",
            "subject": "t.name",
            "before": "'{}'" + _json(),
            "after": '\'{"name": "new"}\'' + _json(),
        }
        self._copy(Event, values, begin, end, f"JOIN {Job._meta.db_table} t ON t.id = i")

    def _add_live_runs(self) -> None:
        for place, job in enumerate(Job.objects.armed().order_by("pk")[:60]):
            status = "waiting" if place % 3 == 0 else "running"
            moment = self.now - timedelta(seconds=place)
            Execution.objects.create(
                **{name: getattr(job, name) for name in ("owner_id", "task")},
                job=job,
                job_name=job.name,
                scheduled_for=moment,
                status=status,
                attempt=1,
                started_at=moment,
                lease_until=self.now + timedelta(days=1) if status == "running" else None,
            )

    def _copy(self, model: type[Model], values: dict[str, str], begin: int, end: int, source: str) -> None:
        table, columns = model._meta.db_table, [field.column for field in model._meta.concrete_fields]
        # A copy of a job takes the other columns from its template; runs and events have null or a default there.
        chosen = (
            {name: values.get(name, f"t.{name}") for name in columns} if "public_id" in values else values
        )
        numbers = f"WITH RECURSIVE n(i) AS (SELECT CAST({begin} AS bigint) UNION ALL SELECT i + 1 FROM n WHERE i < {end}) "
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {table} ({', '.join(chosen)}) {numbers} SELECT {', '.join(chosen.values())} FROM n {source}"
            )

    def _ago(self, seconds: str) -> str:
        return self._moment(f"-({seconds})")

    def _ahead(self, seconds: str) -> str:
        return self._moment(f"60 + {seconds}")

    def _moment(self, seconds: str) -> str:
        base = f"{self.now:%Y-%m-%d %H:%M:%S}"
        if connection.vendor == "sqlite":
            return f"strftime('%Y-%m-%d %H:%M:%S', '{base}', ({seconds}) || ' seconds')"
        return f"(timestamptz '{base}+00' + ({seconds}) * interval '1 second')"


def _person(name: str, **rights: bool) -> User:
    user, _ = User.objects.get_or_create(username=name, defaults=rights)
    Profile.objects.get_or_create(user=user, defaults={"timezone": "Europe/Berlin"})
    return user


def _choice(words: tuple[str, ...]) -> str:
    cases = " ".join(f"WHEN {place} THEN '{word}'" for place, word in enumerate(words))
    return f"CASE i % {len(words)} {cases} END"


def _json() -> str:
    return "" if connection.vendor == "sqlite" else "::text::jsonb"


def _line_end() -> str:
    return "char(10)" if connection.vendor == "sqlite" else "chr(10)"
