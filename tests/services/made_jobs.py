"""Helpers for the tests of services: triggers, job creation, and concurrent changes."""

from contextlib import contextmanager
from datetime import timedelta

from django.db import connection

from schedules import services
from schedules.models import Event, Job
from schedules.result import Ok
from schedules.services import Actor
from tests.services.conftest import NOW

CRON = {"trigger_type": "cron", "cron": "*/5 * * * *", "timezone": "UTC"}


ONCE = {"trigger_type": "once", "run_at": NOW + timedelta(hours=1)}


INTERVAL = {"trigger_type": "interval", "every": timedelta(minutes=5)}


PLAIN = {"name": "Backup", "task": "tests.ping"}


NO_TRIGGER = {"run_at": None, "every": None, "cron": ""}


Status = Job.Status


def value_of(result):
    assert isinstance(result, Ok), result
    return result.value


def create_job(actor: Actor, **fields) -> Job:
    return value_of(services.schedule(actor, **(PLAIN | CRON | fields))).job


def verbs_on(job: Job) -> list[str]:
    return list(Event.objects.filter(job=job).order_by("pk").values_list("verb", flat=True))


@contextmanager
def meanwhile(statement, action):
    """Run `action` just before our next SQL statement that starts with `statement`."""
    pending = [action]

    def intercept(execute, sql, *arguments):
        if sql.startswith(statement) and pending:
            pending.pop()()
        return execute(sql, *arguments)

    with connection.execute_wrapper(intercept):
        yield


def cron(expression: str, **more) -> dict:
    return NO_TRIGGER | CRON | {"cron": expression} | more


def once(moment, **more) -> dict:
    return NO_TRIGGER | {"trigger_type": "once", "run_at": moment} | more


def interval(every, **more) -> dict:
    return NO_TRIGGER | {"trigger_type": "interval", "every": every} | more
