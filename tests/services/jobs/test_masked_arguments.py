"""Secrets in arguments: masks keep them, and a new target needs them again."""

from typing import Any

import pytest

from schedules import services
from schedules.models import Job
from schedules.result import Err, Ok
from schedules.secrets.masking import MASK
from schedules.services import Actor
from schedules.services.jobs.masked_arguments import shown_arguments
from schedules.tasks.registry import task
from tests.factories import JobFactory
from tests.services.made_jobs import CRON

URL, OTHER = "https://example.com/hook", "https://evil.example/"
HEADERS = {"Authorization": "hush", "Accept": "text/plain"}
MASKED = HEADERS | {"Authorization": MASK}


@task("tests.sign_in")
def sign_in(user: str, *auth: str) -> None:
    """Do nothing."""


@task("tests.send_url")
def send_url(*url: str, password: str) -> None:
    """Do nothing."""


@task("tests.send_to")
def send_to(*to: str, password: str) -> None:
    """Do nothing."""


def webhook(actor: Actor, args: list[Any] | None = None, **kwargs: Any) -> Job:
    return JobFactory(owner=actor.user, task="webhook", args=args or [], kwargs=kwargs)


def errors_of(answer: Any) -> dict[str, Any]:
    assert isinstance(answer, Err), answer
    return dict(answer.errors)


def test_mask_keeps_the_stored_secret(actor: Actor):
    job = webhook(actor, url=URL, headers=HEADERS)

    edited = services.edit(actor, job.public_id, kwargs={"url": URL, "headers": MASKED, "method": "PUT"})

    assert isinstance(edited, Ok), edited
    job.refresh_from_db()
    assert job.kwargs == {"url": URL, "headers": HEADERS, "method": "PUT"}


@pytest.mark.parametrize(
    ("args", "kwargs", "changes"),
    [
        pytest.param(
            [], {"url": URL, "headers": HEADERS}, {"kwargs": {"url": OTHER, "headers": MASKED}}, id="by name"
        ),
        pytest.param([URL], {"headers": HEADERS}, {"args": [OTHER]}, id="secrets not part of the change"),
        pytest.param(
            [URL], {"headers": HEADERS}, {"args": [], "kwargs": {"url": OTHER, "headers": MASKED}}, id="mixed"
        ),
        pytest.param(
            [URL, "POST", HEADERS],
            {},
            {"args": [], "kwargs": {"url": OTHER, "headers": MASKED}},
            id="by position",
        ),
        pytest.param([], {"url": URL, "headers": HEADERS}, {"task": "tests.ping"}, id="another task"),
    ],
)
def test_secret_does_not_follow_a_job_to_another_target(
    actor: Actor, args: list[Any], kwargs: dict[str, Any], changes: dict[str, Any]
):
    job = webhook(actor, args, **kwargs)

    errors = errors_of(services.edit(actor, job.public_id, **changes))

    words = "headers.Authorization: write it again, because it would go to another address or task"
    assert [reason for reasons in errors.values() for reason in reasons] == [words]
    job.refresh_from_db()
    assert (job.task, job.args, job.kwargs) == ("webhook", args, kwargs)


def test_target_changes_with_a_secret_that_was_written_again_or_left_out(actor: Actor):
    for headers in (HEADERS, HEADERS | {"Authorization": "new"}, {"Accept": "text/plain"}):
        job = webhook(actor, url=URL, headers=HEADERS)

        edited = services.edit(actor, job.public_id, kwargs={"url": OTHER, "headers": headers})

        assert isinstance(edited, Ok), edited
        assert edited.value.kwargs == {"url": OTHER, "headers": headers}


def test_secret_of_a_button_does_not_move_to_another_topic(actor: Actor):
    button = {"action": "http", "label": "Open", "url": URL, "headers": {"Authorization": "hush"}}
    job = JobFactory(
        owner=actor.user, task="notify", kwargs={"message": "Hi", "topic": "home", "actions": [button]}
    )
    masked = button | {"headers": {"Authorization": MASK}}

    moved = {"message": "Hi", "topic": "public", "actions": [masked]}
    kept = {"message": "Hello", "topic": "home", "actions": [masked]}

    assert "actions.0.headers.Authorization" in str(
        errors_of(services.edit(actor, job.public_id, kwargs=moved))
    )
    assert isinstance(services.edit(actor, job.public_id, kwargs=kept), Ok)
    job.refresh_from_db()
    assert job.kwargs == {"message": "Hello", "topic": "home", "actions": [button]}


@pytest.mark.parametrize("headers", [{"Authorization": MASK}, {"X-New": MASK}])
def test_mask_without_a_stored_secret_is_refused(actor: Actor, headers: dict[str, str]):
    job = webhook(actor, url=URL, headers={})
    arguments = {"url": URL, "headers": headers}

    made = services.schedule(actor, name="Hook", task="webhook", kwargs=arguments, **CRON)

    for answer in (made, services.edit(actor, job.public_id, kwargs=arguments)):
        assert f"write the real value instead of {MASK}" in str(errors_of(answer)["kwargs"])


def test_arguments_of_a_wrong_shape_are_left_to_the_validation(actor: Actor):
    job = webhook(actor, url=URL)

    assert "kwargs" in errors_of(services.edit(actor, job.public_id, kwargs=["url"]))
    assert "args" in errors_of(services.edit(actor, job.public_id, args="url"))


@pytest.mark.parametrize(("number", "is_kept"), [(1, True), (2, False)])
def test_mask_keeps_a_secret_among_any_number_of_arguments(actor: Actor, number: int, is_kept: bool):
    job = JobFactory(owner=actor.user, task="tests.sign_in", args=["ann", "s1"])
    assert shown_arguments(job) == (["ann", MASK], {})

    answer = services.edit(actor, job.public_id, args=["bob", *[MASK] * number])

    assert isinstance(answer, Ok) == is_kept, answer
    job.refresh_from_db()
    assert job.args == (["bob", "s1"] if is_kept else ["ann", "s1"])


@pytest.mark.parametrize("target", ["url", "to"])
def test_secret_does_not_follow_a_job_to_one_of_several_targets(actor: Actor, target: str):
    job = JobFactory(
        owner=actor.user, task=f"tests.send_{target}", args=["a", "b"], kwargs={"password": "s1"}
    )

    errors = errors_of(services.edit(actor, job.public_id, args=["a", "c"], kwargs={"password": MASK}))

    assert "password: write it again" in str(errors)


def test_arguments_are_shown_masked_also_by_position(actor: Actor):
    by_position = webhook(actor, [URL, "POST", HEADERS])

    assert shown_arguments(by_position) == ([URL, "POST", MASKED], {})
