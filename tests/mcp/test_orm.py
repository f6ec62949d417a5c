"""Database access from async code, also after its connection was lost."""

import pytest
from asgiref.sync import async_to_sync
from django.db import connection

from schedules.mcp.auth import orm
from schedules.services import issue_token
from tests.factories import JobFactory
from tests.mcp.agents import InMemory
from tests.mcp.over_http import OverHttp

CALLS = {
    "job_status": {"job_id": "job_1"},
    "list_jobs": {},
    "schedule_job": {
        "name": "x",
        "task": "tests.ping",
        "trigger_type": "interval",
        "trigger_config": {"hours": 1},
    },
}


def test_arguments_results_and_errors_pass_through(db):
    def divide(left, *, right):
        return left / right

    assert async_to_sync(orm(divide))(6, right=3) == 2
    with pytest.raises(ZeroDivisionError):
        async_to_sync(orm(divide))(6, right=0)


@pytest.fixture(params=["in memory", "over HTTP"])
def agent_of_olga(request, owner):
    if request.param == "in memory":
        request.getfixturevalue("caller")
        return InMemory("modern")
    return OverHttp("modern", issue_token(owner, name="laptop").value.text)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no server to lose")
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("unlimited", "cluster")
def test_tools_work_immediately_after_the_database_ended_their_connection(agent_of_olga, owner):
    JobFactory(owner=owner, public_id="job_1")
    for name, arguments in CALLS.items():
        # From the second call on, schedule_job warns of a similar job.
        _, before = (agent_of_olga.call(name, **arguments) for _ in range(2))
        end_connection()

        after = agent_of_olga.call(name, **arguments)

        assert set(after) == set(before), name


def end_connection() -> None:
    """Make the database server end the connection that the tools use."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [mine] = cursor.fetchone()
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [mine])
    other.close()
