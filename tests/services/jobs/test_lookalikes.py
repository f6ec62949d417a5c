"""Names that look like the name of another active job."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from schedules import services
from schedules.models.job_texts import skeleton
from schedules.services.jobs.creation import look_alike, similar_to
from tests.factories import JobFactory
from tests.services.made_jobs import CRON, NO_TRIGGER, ONCE, PLAIN, create_job, value_of


def test_names_that_look_alike_are_reported_both_ways(actor):
    for first, second in [
        ("Backup", "Васkuр"),
        ("Report", "Rεport"),
        ("paypal", "paypa1"),
        ("IO", "l0"),
        ("modern", "modem"),
        ("Backup", "Ｂａckup"),
        ("Backup", "backup"),
        ("Nightly job", "Nightly  job"),
        ("can't", "can’t"),
        ("café", "café"),
        ("می\u200cخواهم", "میخواهم"),
    ]:
        for one, other in ((first, second), (second, first)):
            old = create_job(actor, name=one)

            made = value_of(services.schedule(actor, **PLAIN | CRON | {"name": other, "args": [1]}))

            assert made.look_alike == (old.public_id, one)
            services.cancel(actor, old.public_id)
            services.cancel(actor, made.job.public_id)


def test_equal_and_clearly_different_names_are_not_reported(actor):
    for first, second in [("Backup", "Backup"), ("Backup", "Backups"), ("cafe", "café"), ("कु", "क")]:
        create_job(actor, name=first)

        made = value_of(services.schedule(actor, **PLAIN | CRON | {"name": second, "args": [1]}))

        assert made.look_alike is None


def test_jobs_of_others_and_ended_ones_do_not_count(actor):
    JobFactory(name="Васkuр", name_skeleton=skeleton("Васkuр"))
    JobFactory(owner=actor.user, name="Васkuр", name_skeleton=skeleton("Васkuр"), ended=True)
    job = create_job(actor, name="Backup")

    assert services.look_alike(actor, job) is None


@pytest.mark.parametrize("trigger", [CRON, ONCE], ids=["cron", "once"])
def test_other_jobs_are_found_by_indexes(actor, trigger):
    job = create_job(actor, **NO_TRIGGER | trigger | {"name": "Backup"})
    for number in range(200):
        JobFactory(owner=actor.user, name_skeleton=f"job {number}", likeness=str(number))
    with CaptureQueriesContext(connection) as queries:
        assert (similar_to(job), look_alike(actor, job)) == (None, None)

    assert "job_owner_likeness" in plan_of(queries[0]["sql"])
    assert "job_owner_skeleton" in plan_of(queries[1]["sql"])


def plan_of(statement: str) -> str:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # It chooses among indexes by what it knows of the rows, and reads a small table as a whole.
            cursor.execute("ANALYZE schedules_job")
            cursor.execute("SET LOCAL enable_seqscan = off")
        explain = "EXPLAIN QUERY PLAN" if connection.vendor == "sqlite" else "EXPLAIN"
        cursor.execute(f"{explain} {statement}")
        return "\n".join(str(row[-1]) for row in cursor.fetchall())


def test_renamed_job_is_found_by_its_new_name(actor):
    old = create_job(actor, name="Something else")
    value_of(services.edit(actor, old.public_id, name="Backup"))

    made = value_of(services.schedule(actor, **PLAIN | CRON | {"name": "Васkuр", "args": [1]}))

    assert made.look_alike == (old.public_id, "Backup")


def test_changed_job_is_similar_to_what_it_does_now(actor):
    old = create_job(actor, args=[1])
    value_of(services.edit(actor, old.public_id, args=[2]))

    first, second = (value_of(services.schedule(actor, **PLAIN | CRON | {"args": [n]})) for n in (1, 2))

    assert first.similar is None
    assert second.similar == (old.public_id, old.name)
