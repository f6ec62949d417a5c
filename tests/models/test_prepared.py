"""A statement that was written once says and does what Django would."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connection, models, transaction
from django.forms import model_to_dict

from schedules import clock
from schedules.models import Execution, Job, Token
from schedules.models.prepared import PLANNED_AFTER, Given, Prepared, counted, insert
from tests.factories import ExecutionFactory, JobFactory, TokenFactory, UserFactory

pytestmark = pytest.mark.django_db
on_postgresql = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="SQLite's driver keeps plans itself"
)


@pytest.fixture
def jobs():
    return JobFactory.create_batch(3, interval=True, last_error="no", tags=["home"], kwargs={"a": [1, None]})


SHAPES = {
    "instances": lambda jobs: jobs,
    "instances with some columns": lambda jobs: jobs.only("name", "kwargs"),
    "instances with what belongs to them": lambda jobs: jobs.select_related("owner"),
    "instances with what is known about them": lambda jobs: jobs.with_activity(),
    "tuples": lambda jobs: jobs.values_list("pk", "tags", "every", "next_run_at"),
    "named tuples": lambda jobs: jobs.values_list("pk", "kwargs", "created_at", named=True),
    "single values": lambda jobs: jobs.values_list("created_at", flat=True),
    "slices": lambda jobs: jobs.values_list("pk", flat=True)[1:2],
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_rows_are_what_the_queryset_yields(jobs, shape):
    ExecutionFactory(job=jobs[0], status="running")
    ask = Prepared(lambda: shape(Job.objects.filter(status=Given("status")).order_by("pk")))

    for _ in range(PLANNED_AFTER + 2):
        rows, wanted = ask.all(status="pending"), list(shape(Job.objects.order_by("pk")))

        assert rows == wanted
        assert [vars_of(row) for row in rows] == [vars_of(row) for row in wanted]


def vars_of(row):
    return (
        {name: value for name, value in vars(row).items() if name != "_state"}
        if isinstance(row, Job)
        else row
    )


def test_row_that_belongs_to_another_is_not_asked_for_again(django_assert_num_queries):
    token = TokenFactory()
    ask = Prepared(lambda: Token.objects.select_related("owner").filter(prefix=Given("prefix")))

    with django_assert_num_queries(1):
        found = ask.first(prefix=token.prefix)

        assert found.owner == token.owner


def test_every_asking_has_its_own_values(jobs):
    ask = Prepared(lambda: Job.objects.filter(public_id=Given("public_id")))

    assert [ask.first(public_id=job.public_id) for job in jobs] == jobs
    assert ask.first(public_id="job_nobody_knows") is None


def test_moments_and_durations_are_given_as_the_database_keeps_them(jobs):
    now = clock.now()
    older = JobFactory(created_at=now - timedelta(days=1), interval=True, every=timedelta(hours=2))
    ask = Prepared(
        lambda: Job.objects.filter(
            created_at__lt=Given("before", models.DateTimeField()),
            every=Given("every", models.DurationField()),
        )
    )

    assert ask.all(before=now - timedelta(hours=1), every=timedelta(hours=2)) == [older]
    assert ask.all(before=now - timedelta(days=2), every=timedelta(hours=2)) == []
    assert ask.all(before=now - timedelta(hours=1), every=timedelta(hours=1)) == []


@pytest.mark.parametrize("microsecond", [0, 1, 120_000, 999_999])
def test_moments_come_back_as_they_were_stored(microsecond):
    moment = datetime(2026, 3, 29, 1, 30, 5, microsecond, tzinfo=UTC)
    job = JobFactory(created_at=moment)
    ask = Prepared(lambda: Job.objects.filter(pk=Given("pk")).values_list("created_at", flat=True))

    for found in (ask.first(pk=job.pk), Job.objects.get().created_at):
        assert found == moment
        assert found.tzinfo is UTC


@on_postgresql
@pytest.mark.parametrize(
    # Each has a statement of its own: the connection goes on from test to test.
    ("column", "keeps_plan", "is_pooled", "kept"),
    [("made_by", True, False, 1), ("pause_reason", False, False, 0), ("last_error", True, True, 0)],
    ids=["kept", "planned for the values", "behind a pooler"],
)
def test_plans_are_kept(jobs, monkeypatch, column, keeps_plan, is_pooled, kept):
    monkeypatch.setitem(connection.settings_dict, "DISABLE_SERVER_SIDE_CURSORS", is_pooled)
    ask = Prepared(
        lambda: Job.objects.filter(name=Given("name")).order_by(f"-{column}"), keeps_plan=keeps_plan
    )

    for _ in range(PLANNED_AFTER + 2):
        assert ask.all(name=jobs[0].name) == [jobs[0]]

    with connection.cursor() as cursor:
        statement = f'%"schedules_job"."{column}" DESC'
        cursor.execute("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE %s", [statement])
        assert cursor.fetchone() == (kept,)


def test_rows_are_counted(jobs):
    ask = Prepared(
        lambda: Job.objects.filter(owner=Given("owner")).order_by().values_list(counted(), flat=True)
    )

    assert ask.all(owner=jobs[0].owner_id) == [1]
    assert ask.all(owner=UserFactory().pk) == [0]


def test_inserted_row_is_the_saved_one():
    saved, inserted = JobFactory(interval=True, tags=["home"]), JobFactory.build(interval=True, tags=["home"])
    inserted.owner = saved.owner

    insert(inserted)

    assert not inserted._state.adding
    stored = Job.objects.get(pk=inserted.pk)
    assert model_to_dict(stored) == model_to_dict(inserted)
    assert model_to_dict(stored, exclude=["id", "name", "anchor_at"]) == model_to_dict(
        saved, exclude=["id", "name", "anchor_at"]
    )
    assert (stored.public_id, stored.next_run_at) == (inserted.public_id, inserted.next_run_at)


def test_row_that_may_not_be_is_refused():
    job = JobFactory()
    twin = JobFactory.build(owner=job.owner, public_id=job.public_id)

    with pytest.raises(IntegrityError), transaction.atomic():
        insert(twin)

    assert Job.objects.count() == 1
    assert Execution.objects.count() == 0
