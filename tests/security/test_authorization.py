"""Authorization on the pages: every address of the site, for every kind of visitor."""

import io
import re
import zipfile
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import pytest
from django.contrib.contenttypes.models import ContentType
from django.test import Client
from django.urls import resolve

from schedules import clock
from schedules.models import Incident, Job
from schedules.tasks.signed_links import Button, answer_token, approval_token, stop_token
from tests.factories import ExecutionFactory
from tests.security.addresses import Address, every_address, for_each
from tests.security.owned_rows import MARK, UNKNOWN_JOB, UNKNOWN_NUMBER, OwnedRows, everything

ADDRESSES = every_address()
PAGES = [address for address in ADDRESSES if not address.is_admin and not address.is_api]
ADMIN_PAGES = [address for address in ADDRESSES if address.is_admin]
METHODS = ("get", "post")

# Addresses without a login. Those of a calendar and of pings carry a key instead, because their clients cannot log in.
PUBLIC = {
    "login",
    "logout",
    "favicon",
    "schedules:theme",
    "schedules:manifest",
    "schedules:worker",
    "schedules:offline",
    "schedules:alive",
    "schedules:ready",
    "schedules:metrics",
    "schedules:calendar-feed",
    "schedules:ping",
    "schedules:trigger",
    "schedules:answer-link",
    "schedules:stop-link",
    "schedules:approval-link",
    "schedules:api-openapi",
    "schedules:api-unknown",
    "admin:login",
}
# The preview asks for a login itself: a redirect would replace the form.
ASK_THEMSELVES = {
    "schedules:preview",
    # For a token; `test_authorization_of_api.py` asks with all kinds of them.
    *(address.name for address in ADDRESSES if address.is_api),
}
# Addresses that are secrets themselves: whoever does not have them can only guess.
NOT_GIVEN_TO_THEM = {
    "schedules:ping": {"place": "no-such-key/no-such-job"},
    "schedules:trigger": {"key": "no-such-key"},
    "schedules:calendar-feed": {"key": "no-such-key"},
    "schedules:answer-link": {"token": "no-such-token"},
    "schedules:stop-link": {"token": "no-such-token"},
    "schedules:approval-link": {"token": "no-such-token"},
}
OF_PERSON = {"token_id", "secret_id", "channel_id", "calendar_id", "subscription_id"}
IDS = {"job_id", "run_id", "delivery_id", "approval_id"} | OF_PERSON
WELL = {200, 202, 302, 303, 422}
# Actions that even superusers cannot do: history is read-only, and tokens can be revoked but not changed.
STAFF_REFUSED = {
    "schedules_execution_add": METHODS,
    "schedules_execution_delete": METHODS,
    "schedules_execution_change": ("post",),
    "schedules_token_delete": METHODS,
    "schedules_token_change": ("post",),
    "axes_accessattempt_add": METHODS,
    "axes_accesslog_add": METHODS,
    "axes_accessfailurelog_add": METHODS,
    "autocomplete": ("get",),
}
SECRET = "zqsecret-0123456789"
Visit = Callable[[str], Client]

each_page = for_each(PAGES)
each_admin_page = for_each(ADMIN_PAGES)
each_address = for_each(ADDRESSES)


def examples(address: Address, owned: OwnedRows) -> dict[str, Any]:
    """Return values for the parameters of an address that point at the owner's rows."""
    known: dict[str, Any] = {
        "job_id": owned.job.public_id,
        "run_id": owned.run.pk,
        "token_id": owned.token.pk,
        "secret_id": owned.secret.pk,
        "approval_id": owned.approval.pk,
        "calendar_id": owned.calendar.pk,
        "calendar": owned.calendar.name,
        "channel": owned.channel.name,
        "channel_id": owned.channel.pk,
        "delivery_id": owned.delivery.pk,
        "delivery": owned.delivery.pk,
        "incident": owned.rows[Incident].pk,
        "key": owned.profile.calendar_key,
        "place": owned.heartbeat.ping_id,
        "token": answer_token(owned.asked.pk, owned.asked.key, Button.PAGE),
        "id": owned.owner.pk,
        "app_label": "schedules",
        "url": "nowhere",
        "content_type_id": ContentType.objects.get_for_model(Job).pk,
        "object_id": owned.job.pk,
        "job": owned.job.public_id,
        "run": owned.run.pk,
        "number": owned.token.pk,
        "name": owned.secret.name,
        "secret": owned.secret.name,
        "approval": owned.approval.pk,
        "runner": "inbox",
    }
    if address.route.endswith("tokens/<int:token>"):
        known["token"] = owned.token.pk
    if address.name == "schedules:approval-link":
        known["token"] = approval_token(owned.approval.pk, owned.approval.digest)
    if address.name == "schedules:stop-link":
        known["token"] = stop_token(owned.owner.pk)
    if address.model is not None:
        assert address.model in owned.rows, f"make a row of {address.model.__name__} in owned_rows.py"
        known["object_id"] = owned.rows[address.model].pk
    missing = set(address.parameters) - set(known)
    assert not missing, f"{address}: say in examples() what of the owner's {missing} can point at"
    return {name: known[name] for name in address.parameters}


def form(address: Address, owned: OwnedRows) -> dict[str, Any]:
    """Return the most harmful form data for this address."""
    if address.model is not None:
        action = "revoke" if "token" in address.route else "delete_selected"
        return {"action": action, "_selected_action": owned.rows[address.model].pk, "post": "yes"}
    job = owned.trashed if address.name == "schedules:restore" else owned.job
    return {"answer": "mine", "verb": "delete", "job": job.public_id, "topic": "topic", "name": "mine"}


# The address of an answer is a secret, which no other page learns, not even ours.
SECRET_ADDRESSES = {"schedules:answer-link", "schedules:approval-link", "schedules:stop-link"}


def ask(client: Client, method: str, address: Address, owned: OwnedRows, **values: Any) -> Any:
    """Ask for an address; whatever it answers has the security headers."""
    path = address.path({**examples(address, owned), **values})
    answer = client.get(path) if method == "get" else client.post(path, form(address, owned))
    policy = answer["Content-Security-Policy"]
    for part in ("default-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "object-src 'none'"):
        assert part in policy
    assert "unsafe" not in policy
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["X-Frame-Options"] == "DENY"
    is_secret = address.name in SECRET_ADDRESSES
    assert answer["Referrer-Policy"] == ("no-referrer" if is_secret else "same-origin")
    assert answer["Cross-Origin-Opener-Policy"] == "same-origin"
    kept = set(answer.get("Cache-Control", "").split(", "))
    assert {"private", "no-store"} & kept or address.name == "admin:jsi18n"
    return answer


def body(answer: Any) -> str:
    content = b"".join(answer)
    if answer["Content-Type"] == "application/zip":
        bundle = zipfile.ZipFile(io.BytesIO(content))
        content = b"".join(bundle.read(name) for name in bundle.namelist())
    return content.decode(errors="replace")


def leaks(answer: Any) -> list[str]:
    text = body(answer) + str(dict(answer.items())) + str(answer.cookies)
    return re.findall(rf"{MARK}[\w-]*|olga", text)


def test_every_address_has_an_example_that_leads_to_it(owned: OwnedRows):
    for address in ADDRESSES:
        found = resolve(address.path(examples(address, owned)))

        assert found.view_name == address.name or address.name in {"", "admin:"}


def test_public_addresses_are_listed():
    assert {address.name for address in ADDRESSES if address.is_public} == PUBLIC | ASK_THEMSELVES


@each_address
def test_nothing_is_shown_or_changed_without_a_login(owned: OwnedRows, visit: Visit, address: Address):
    before = everything()
    for method in METHODS:
        wrong = NOT_GIVEN_TO_THEM.get(address.name, {})

        answer = ask(visit("anonymous"), method, address, owned, **wrong)

        if address.name in PUBLIC:
            assert answer.status_code in {200, 302, 303, 404, 405, 503}
        elif address.is_api:
            assert answer.status_code in {401, 405}
            assert answer["Content-Type"] == "application/problem+json"
        elif address.name == "schedules:preview":
            assert (answer.status_code, body(answer)) in {(401, ""), (405, "")}
        else:
            assert answer.status_code == 302
            assert answer["Location"].startswith(("/login/?next=/", "/admin/login/?next=/"))
        assert leaks(answer) == []
    assert everything() == before


@each_page
def test_stranger_can_neither_see_nor_change_the_owners_rows(
    owned: OwnedRows, visit: Visit, stranger: Any, address: Address
):
    before, statuses = everything(except_of=stranger), []
    for method in METHODS:
        answer = ask(
            visit("stranger"),
            method,
            address,
            owned,
            **NOT_GIVEN_TO_THEM.get(address.name, {}),
        )

        statuses.append(answer.status_code)
        assert leaks(answer) == []
    # The form that restores a job carries the id.
    has_id = address.parameters or address.name == "schedules:restore"
    assert set(statuses) <= ({404, 405} if has_id else {*WELL, 405, 503})
    assert set(statuses) != {405}
    assert everything(except_of=stranger) == before


@pytest.mark.verify
@each_page
def test_staff_without_permission_see_and_change_nothing_on_the_pages(
    owned: OwnedRows, visit: Visit, people: dict[str, Any], address: Address
):
    before = everything(except_of=people["clerk"])
    for method in METHODS:
        wrong = NOT_GIVEN_TO_THEM.get(address.name, {})

        answer = ask(visit("clerk"), method, address, owned, **wrong)

        assert leaks(answer) == []
        if address.parameters:
            assert answer.status_code in {404, 405}
    assert everything(except_of=people["clerk"]) == before


@pytest.mark.verify
@each_page
def test_staff_who_may_only_view_change_nothing_on_the_pages(
    owned: OwnedRows, visit: Visit, people: dict[str, Any], address: Address
):
    job = owned.job
    job.task, job.kwargs = "webhook", {"url": "https://example.com/", "headers": {"X-Token": SECRET}}
    job.save(update_fields=["task", "kwargs"])
    before = everything(except_of=people["viewer"])
    for method in METHODS:
        has_key = address.name in {"schedules:ping", "schedules:trigger", "schedules:stop-link"}
        wrong = NOT_GIVEN_TO_THEM[address.name] if has_key else {}

        answer = ask(visit("viewer"), method, address, owned, **wrong)

        assert answer.status_code in {*WELL, 403, 404, 405, 503}
        assert SECRET not in body(answer)
    assert everything(except_of=people["viewer"]) == before


def test_staff_who_may_only_view_are_offered_no_action(owned: OwnedRows, visit: Visit):
    client = visit("viewer")
    for path in (f"/jobs/{owned.job.public_id}/", f"/runs/{owned.run.pk}/", "/inbox/", "/", "/trash/"):
        shown = body(client.get(path))

        assert MARK in shown
        for action in ("run/", "pause/", "cancel/", "delete/", "edit/", "dismiss/", "restore/"):
            assert f'/{action}"' not in shown, path


def test_copy_needs_the_right_to_change_because_the_form_is_filled_in(owned: OwnedRows, visit: Visit):
    path = f"/jobs/new/?copy={owned.job.public_id}"

    assert visit("viewer").get(path).status_code == HTTPStatus.FORBIDDEN
    assert visit("owner").get(path).status_code == HTTPStatus.OK


@each_page
def test_owner_is_never_refused(owned: OwnedRows, visit: Visit, address: Address):
    statuses = {ask(visit("owner"), method, address, owned).status_code for method in METHODS}

    assert statuses <= {*WELL, 405, 503}
    assert statuses != {405}


@pytest.mark.verify
@each_page
def test_staff_reach_every_job_and_run_but_no_token_or_secret(
    owned: OwnedRows, visit: Visit, address: Address
):
    statuses = {ask(visit("staff"), method, address, owned).status_code for method in METHODS}

    if OF_PERSON & set(address.parameters):
        assert statuses <= {404, 405}
        assert 404 in statuses
    else:
        assert statuses <= {*WELL, 405, 503}


@pytest.mark.verify
@pytest.mark.parametrize("person", ["owner", "stranger"])
@each_admin_page
def test_admin_is_closed_to_everybody_but_staff(
    owned: OwnedRows, visit: Visit, address: Address, person: str
):
    browsers = {method: visit(person) for method in METHODS}
    before = everything()
    for method, client in browsers.items():
        answer = ask(client, method, address, owned)

        if address.name in {"admin:login", "admin:logout"}:
            assert answer.status_code in {200, 302}
        else:
            assert answer.status_code == 302
            assert answer["Location"].startswith("/admin/login/?next=/admin/")
        assert MARK not in body(answer)
    assert everything() == before


@pytest.mark.verify
@each_admin_page
def test_staff_without_permission_see_no_rows(owned: OwnedRows, visit: Visit, address: Address):
    browsers = {method: visit("clerk") for method in METHODS}
    before = everything()
    for method, client in browsers.items():
        answer = ask(client, method, address, owned)

        assert leaks(answer) == []
        # The address without a verb only redirects to the one with it.
        if address.model is not None and address.name != "admin:":
            assert answer.status_code == 403
    assert everything() == before


@pytest.mark.verify
@each_admin_page
def test_staff_who_may_only_view_change_nothing_in_the_admin(
    owned: OwnedRows, visit: Visit, address: Address
):
    job = owned.job
    job.args, job.kwargs = [{"token": SECRET}], {"headers": {"X-Token": SECRET}}
    job.save(update_fields=["args", "kwargs"])
    browsers = {method: visit("viewer") for method in METHODS}
    before = everything()
    for method, client in browsers.items():
        answer = ask(client, method, address, owned)

        assert answer.status_code in {200, 302, 403, 404, 405}
        assert SECRET not in body(answer)
    assert everything() == before


@pytest.mark.verify
@each_admin_page
def test_staff_reach_the_admin_but_cannot_change_history(owned: OwnedRows, visit: Visit, address: Address):
    for method in METHODS:
        answer = ask(visit("staff"), method, address, owned)

        if method in STAFF_REFUSED.get(address.name.removeprefix("admin:"), ()):
            assert answer.status_code == 403
        elif "view_on_site" in address.name or "url" in address.parameters:
            assert answer.status_code == 404
        else:
            assert answer.status_code in {200, 302, 405}


@pytest.mark.verify
def test_owner_sees_the_marks_so_that_a_leak_would_be_noticed(owned: OwnedRows, visit: Visit):
    client = visit("owner")
    seen = "".join(
        body(client.get(address.path(examples(address, owned) | {"run_id": run})))
        for address in PAGES
        for run in (910000001, 910000002)
        if address.name not in {"logout", "login", "schedules:theme"}
    )

    for what in (
        "name",
        "prompt",
        "message",
        "topic",
        "result",
        "error",
        "traceback",
        "token",
        "subject",
        "after",
    ):
        assert f"{MARK}-{what}" in seen, what


# Another person's id is answered like an unknown one


def same_for_all(answers: dict[str, Any]) -> Any:
    """Assert that whole answers are equal except for the requested id, and return one.

    Left out are the only parts that differ from one request to the next by design: the random mask of the CSRF
    token, in its cookie and in forms, and the signature of the cookie that carries a message to the next page,
    where the message itself is compared.
    """
    plain = {identifier: _plain(answer, identifier) for identifier, answer in answers.items()}
    first = next(iter(plain.values()))
    for identifier, each in plain.items():
        assert each == first, identifier
    return first


def _plain(answer: Any, identifier: str) -> tuple[Any, ...]:
    # Each form has a key of its own, so that it is sent once, as it has a token.
    text = re.sub(r'name="(csrfmiddlewaretoken|idempotency_key)" value="[\w-]+"', "", body(answer)).replace(
        identifier, "ID"
    )
    headers = [(name, value.replace(identifier, "ID")) for name, value in answer.items()]
    cookies = {name: dict(cookie) for name, cookie in answer.cookies.items() if name not in {"csrftoken"}}
    return answer.status_code, sorted(headers), cookies, text


def follow(client: Client, answer: Any) -> list[Any]:
    """Return the answer and, if it redirects, the page that follows."""
    return [answer, client.get(answer["Location"])] if answer.status_code in {302, 303} else [answer]


def ids_of(address: Address, owned: OwnedRows) -> list[dict[str, Any]]:
    """Return the owner's ids, ids of rows she deleted, and ids that never existed."""
    gone = owned.trashed_run.pk
    numbers = [
        dict.fromkeys(
            (
                "run_id",
                "token_id",
                "secret_id",
                "channel_id",
                "calendar_id",
                "delivery_id",
                "approval_id",
                "object_id",
                "id",
            ),
            pk,
        )
        for pk in (910000001, gone)
    ]
    return [
        {**numbers[0], "job_id": owned.job.public_id},
        {**numbers[1], "job_id": owned.trashed.public_id},
        {**numbers[0], "job_id": owned.prompt.public_id, "run_id": owned.orphaned_run.pk},
        {
            **dict.fromkeys(numbers[0], UNKNOWN_NUMBER),
            "job_id": UNKNOWN_JOB,
        },
    ]


@pytest.mark.verify
@pytest.mark.parametrize("person", ["anonymous", "stranger"])
@for_each([each for each in ADDRESSES if each.parameters and not each.is_api])
def test_foreign_id_is_answered_like_an_unknown_one(
    owned: OwnedRows, visit: Visit, time_machine: Any, address: Address, person: str
):
    time_machine.move_to(clock.now(), tick=False)
    name = address.parameters[-1]
    for method in METHODS:
        if name in {"app_label", "url", "key", "token", "place"}:
            continue
        answers = {
            str(ids[name]): ask(visit(person), method, address, owned, **ids)
            for ids in ids_of(address, owned)
        }

        assert len(answers) >= 3
        same_for_all(answers)


@for_each([each for each in PAGES if "token_id" in each.parameters])
def test_staff_get_the_same_answer_for_a_foreign_and_an_unknown_token(
    owned: OwnedRows, visit: Visit, address: Address
):
    for method in METHODS:
        numbers = (owned.token.pk, owned.revoked_token.pk, UNKNOWN_NUMBER)

        answers = {str(pk): ask(visit("staff"), method, address, owned, token_id=pk) for pk in numbers}
        assert same_for_all(answers)[0] != HTTPStatus.OK


def test_calendar_of_an_inactive_owner_is_answered_like_an_unknown_one(owned: OwnedRows, client: Client):
    owned.owner.is_active = False
    owned.owner.save()
    key = owned.profile.calendar_key

    answers = {name: client.get(f"/calendar/{name}.ics") for name in (key, "x" * len(key))}

    assert same_for_all(answers)[0] == HTTPStatus.NOT_FOUND


@pytest.mark.parametrize(
    "path",
    ["/jobs/new/?copy=", "/runs/?job=", "/runs/export.csv?job=", "/activity/?job="],
)
def test_foreign_id_in_a_query_is_answered_like_an_unknown_one(
    owned: OwnedRows, visit: Visit, time_machine: Any, path: str
):
    time_machine.move_to(clock.now(), tick=False)
    ExecutionFactory(job=owned.job, job_name=MARK)

    answers = {job: visit("stranger").get(path + job) for job in job_ids(owned)}

    assert MARK not in str(same_for_all(answers))


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        *[("/jobs/bulk/", {"verb": verb}) for verb in ("pause", "resume", "cancel", "delete")],
        ("/jobs/restore/", {}),
    ],
)
def test_foreign_id_in_a_form_is_answered_like_an_unknown_one(
    owned: OwnedRows, visit: Visit, stranger: Any, time_machine: Any, path: str, fields: dict[str, str]
):
    time_machine.move_to(clock.now(), tick=False)
    before = everything(except_of=stranger)
    answers, following = {}, {}
    for job in job_ids(owned):
        client = visit("stranger")
        answers[job], *following[job] = follow(client, client.post(path, {**fields, "job": job}))

    same_for_all(answers)
    for pages in zip(*following.values(), strict=True):
        same_for_all(dict(zip(following, pages, strict=True)))
    assert everything(except_of=stranger) == before


def job_ids(owned: OwnedRows) -> list[str]:
    return [owned.job.public_id, owned.prompt.public_id, owned.trashed.public_id, UNKNOWN_JOB]
