"""Authorization of the API: every operation of its document, with every kind of token."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client

from schedules import clock
from schedules.models import Approval, Incident, Token
from schedules.services import revoke_token
from schedules.services.quotas import wait_for_installation
from tests.api.conftest import program_of
from tests.security.owned_rows import MARK, UNKNOWN_JOB, UNKNOWN_NUMBER, OwnedRows, everything
from tests.security.test_authorization import ADDRESSES, Visit

# What a request must have to get past the checks of its shape.
BODIES: dict[str, Any] = {
    "create_job": {"name": "mine", "schedule": "every hour", "task": "tests.ping"},
    "preview_schedule": {"schedule": "every hour"},
    "change_jobs": {"action": "pause"},
    "apply_file": {"source": "mine", "text": "jobs: {}"},
    "complete_prompt": {"result": "mine"},
    "set_secret": {"value": "0123456789", "hosts": ["example.com"]},
    "move_secret_expiry": {"expires_at": None},
    "create_token": {"name": "mine"},
    "set_calendar": {"kind": "dates", "lines": ["2030-12-24"]},
    "preview_calendar": {"kind": "dates", "lines": ["2030-12-24"]},
    "set_channel": {"kind": "ntfy", "values": {"topic": "mine"}},
    "confirm_channel": {"code": "0123ABCD"},
    "rename_channel": {"name": "mine"},
    "ping_heartbeat": {"exit_code": 0},
    "answer_reminder": {"answer": "done"},
    "import_checks": {"text": '{"checks": []}'},
    "change_by_document": {"text": "jobs: {X: {schedule: every day at 9:00, task: tests.ping}}"},
    "answer_approval": {"answer": "once", "digest": "0" * 64},
}
# These make something of the caller's own, or only show it.
OWN = {
    *("create_job", "preview_schedule", "list_jobs", "list_runs", "show_me", "list_tasks", "list_upcoming"),
    *("change_jobs", "undo_change", "apply_file", "claim_prompts", "set_secret", "create_token"),
    *(
        "list_tokens",
        "list_events",
        "list_heartbeats",
        "list_incidents",
        "show_agents",
        "list_approvals",
        "show_preferences",
        "change_preferences",
        "stop_all_agents",
        "start_agents",
        "pause_all",
        "resume_all",
        "list_secrets",
        "list_proposals",
        "import_checks",
        "export_jobs",
    ),
    *(
        "list_calendars",
        "set_calendar",
        "preview_calendar",
        "list_channels",
        "set_channel",
    ),
    # Of the same name as the owner's, set before.
    *("move_secret_expiry", "delete_secret", "delete_calendar", "delete_channel"),
}


# An answer that does not end; tests/api/test_events.py asks with all kinds of tokens.
STREAMED = {"stream_events"}


class Operation(NamedTuple):
    """A method of an address, with values that point at the owner's rows."""

    id: str
    method: str
    path: str
    scope: str
    has_parameters: bool


def operations(owned: OwnedRows) -> Iterator[Operation]:
    document = json.loads(Client().get("/api/v1/openapi.json").content)
    for path, methods in document["paths"].items():
        job = owned.heartbeat.job if "heartbeats" in path else owned.job
        address = path.format(
            job=job.public_id,
            run=owned.run.pk,
            token=owned.token.pk,
            approval=owned.rows[Approval].pk,
            secret=owned.secret.name,
            runner="nobody",
            calendar=owned.calendar.name,
            channel=owned.channel.name,
            delivery=owned.delivery.pk,
            incident=owned.rows[Incident].pk,
        )
        for method, operation in methods.items():
            if operation["operationId"] in STREAMED:
                continue
            yield Operation(
                operation["operationId"], method.upper(), address, operation["x-scope"], address != path
            )


def ask(operation: Operation, text: str | None) -> Any:
    headers = {"If-Match": "*", **({"Authorization": f"Bearer {text}"} if text else {})}
    data = json.dumps(BODIES.get(operation.id, {})) if operation.method != "GET" else ""
    return Client().generic(
        operation.method, operation.path, data, content_type="application/json", headers=headers
    )


def without_names(text: str, owned: OwnedRows) -> str:
    """Leave out what everybody may call something of their own, and the caller has sent."""
    for name in (owned.secret.name, owned.calendar.name, owned.channel.name):
        text = text.replace(name, "OTHER")
    return text


def content_of(answer: Any) -> str:
    return b"".join(answer).decode()


def test_document_has_every_address_of_the_api(owned: OwnedRows):
    described = set(json.loads(Client().get("/api/v1/openapi.json").content)["paths"])
    served = {f"/{address.route}".replace("<int:", "<") for address in ADDRESSES if address.is_api}

    others = {"/api/v1/openapi.json", "/api/v1/"}
    assert {path.replace("{", "<").replace("}", ">") for path in described} == served - others


@pytest.mark.parametrize("kind", ["none", "junk", "revoked", "expired", "inactive"])
def test_no_operation_answers_without_a_usable_token(owned: OwnedRows, owner: User, kind: str):
    program = program_of(owner)
    text = {"none": None, "junk": f"cronty_01234567_{'x' * 32}"}.get(kind, program.text)
    if kind == "revoked":
        revoke_token(owner, program.token.pk)
    elif kind == "expired":
        Token.objects.filter(pk=program.token.pk).update(expires_at=clock.now() - timedelta(seconds=1))
    elif kind == "inactive":
        User.objects.filter(pk=owner.pk).update(is_active=False)
    before = everything()

    for operation in operations(owned):
        answer = ask(operation, text)

        assert answer.status_code == 401, operation
        assert MARK not in content_of(answer)
    assert everything() == before


def test_token_without_the_scope_is_refused(owned: OwnedRows, owner: User):
    for scope in ("read", "write"):
        program = program_of(owner, name=scope, scopes=[scope])
        Token.objects.update(last_used_at=clock.now())
        before = everything()
        for operation in operations(owned):
            if operation.scope != scope:
                assert ask(operation, program.text).status_code == 403, operation
        assert everything() == before


@pytest.mark.parametrize("person", ["stranger", "staff"])
def test_nobody_elses_token_reaches_the_owners_rows(owned: OwnedRows, people: dict[str, User], person: str):
    other = people[person]
    program = program_of(other)
    # The row of the installation, which is nobody's, is made when it is needed.
    with transaction.atomic():
        wait_for_installation()
    before = everything(except_of=other)

    for operation in operations(owned):
        answer = ask(operation, program.text)

        # What the caller has sent is no leak.
        assert MARK not in without_names(content_of(answer), owned), operation
        if operation.id in OWN:
            assert answer.status_code in {200, 201, 204}, operation
        else:
            assert operation.has_parameters
            assert answer.status_code == 404, operation
    assert everything(except_of=other) == before


def test_foreign_id_is_answered_like_an_unknown_one(owned: OwnedRows, stranger: User):
    program = program_of(stranger)
    for operation in operations(owned):
        if not operation.has_parameters or operation.id in OWN:
            continue
        unknown = without_names(operation.path, owned).replace(str(owned.run.pk), str(UNKNOWN_NUMBER))
        for job in (owned.job, owned.heartbeat.job):
            unknown = unknown.replace(job.public_id, UNKNOWN_JOB)
        answers = [
            without_names(content_of(ask(operation._replace(path=path), program.text)), owned)
            for path in (operation.path, unknown)
        ]
        for job in (owned.job, owned.heartbeat.job):
            answers[0] = answers[0].replace(job.public_id, UNKNOWN_JOB)

        assert answers[0].replace(str(owned.run.pk), str(UNKNOWN_NUMBER)) == answers[1], operation


def test_token_of_another_family_reaches_no_job_of_a_task_that_it_is_not_about(owned: OwnedRows, owner: User):
    program = program_of(owner, families=["prompts"])

    for operation in operations(owned):
        answer = ask(operation, program.text)
        if "/jobs/job_" in operation.path:
            assert answer.status_code == 404, operation


def test_owners_own_token_reaches_everything(owned: OwnedRows, owner: User, visit: Visit):
    program = program_of(owner)

    for operation in operations(owned):
        # A job that was deleted by the operation before is restored.
        assert ask(operation, program.text).status_code in {200, 201, 202, 204, 404, 409}, operation
    assert visit("owner").get("/api/").status_code == 200
