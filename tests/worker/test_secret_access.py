"""The secrets that a run uses, and what it leaves behind."""

import asyncio

import pytest

from schedules.models import Event, Secret
from schedules.secrets.masking import MASK
from schedules.services import Actor
from schedules.services.people.stored_secrets import set_secret
from schedules.tasks import registry
from schedules.tasks.interface import Final, RetryLater, Run
from schedules.tasks.registry import task
from schedules.worker.calls import run_coroutine
from schedules.worker.secret_access import SecretAccess
from tests.factories import ClusterFactory, JobFactory
from tests.sink import Answer, Sink
from tests.worker.test_loop import make_running

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def stored(actor, operator):
    set_secret(actor, "KEY", "hush-hush-7", hosts=["api.example", "nas.local:8080"], commands=["backup"])
    boss = Actor(operator, Event.Door.WEB)
    set_secret(boss, "KEY", "the-shared-one", commands=["backup"], of_installation=True)
    return SecretAccess(actor.user.pk)


def find(access: SecretAccess, *names: str, **where) -> dict[str, str]:
    return asyncio.run(access.find(names, **where))


@pytest.mark.parametrize(
    "where", [{"host": "api.example"}, {"host": "nas.local:8080"}, {"command": "backup"}]
)
def test_secret_goes_where_it_may_go(stored, where):
    assert find(stored, "KEY", **where) == {"KEY": "hush-hush-7"}


@pytest.mark.parametrize(
    "where",
    [
        {"host": "evil.example"},
        {"host": "api.example.evil.example"},
        {"host": "api.example:80"},
        {"host": "nas.local"},
        {"host": "backup"},
        {"command": "api.example"},
        {"command": "other"},
    ],
)
def test_secret_goes_nowhere_else(stored, where):
    with pytest.raises(Final, match="The secret KEY must not go to"):
        find(stored, "KEY", **where)


def test_missing_secret_is_named(stored):
    with pytest.raises(Final, match="Missing secret OTHER: its owner has no secret of this name"):
        find(stored, "OTHER", "KEY", command="backup")


def test_only_the_operators_file_gets_the_secrets_of_the_installation(stored, stranger):
    assert find(stored, "KEY", command="backup", of_installation=True) == {"KEY": "the-shared-one"}
    with pytest.raises(Final, match="Missing secret KEY"):
        find(SecretAccess(stranger.pk), "KEY", command="backup")


def test_secret_that_was_moved_in_the_database_is_not_read(stored, actor):
    Secret.objects.filter(owner=actor.user.pk).update(hosts=["evil.example"])

    with pytest.raises(RetryLater, match="The secret KEY cannot be read"):
        find(stored, "KEY", host="evil.example")


def test_given_secrets_are_masked_in_every_text_of_a_value(stored):
    find(stored, "KEY", host="api.example")

    assert stored.mask({"a": ["x hush-hush-7"], "hush-hush-7": 3}) == {"a": [f"x {MASK}"], MASK: 3}
    assert SecretAccess(1).mask("hush-hush-7") == "hush-hush-7"


@task("tests.secrets.reveal", takes_secrets=True)
async def reveal(how: str, *, run: Run) -> str | set[str]:
    (value,) = (await run.secrets(["KEY"], host="api.example")).values()
    if how == "final":
        raise Final(f"it was {value}")
    if how == "bug":
        raise ValueError(f"it was {value}")
    return {f"it was {value}"} if how == "set" else f"it was {value}"


@pytest.mark.parametrize("how", ["result", "set", "final", "bug"])
def test_outcome_of_a_run_has_no_secrets(stored, actor, how):
    cluster = ClusterFactory()
    job = JobFactory(owner=actor.user, task="tests.secrets.reveal", kwargs={"how": how})

    outcome = asyncio.run(run_coroutine(make_running(cluster, job), registry.get("tests.secrets.reveal")))

    assert f"it was {MASK}" in f"{outcome.result} {outcome.error}"
    assert "hush-hush" not in repr(outcome)


@pytest.mark.parametrize(("status", "characters"), [(200, 2048), (400, 200)])
def test_answer_that_is_cut_within_a_secret_shows_nothing_of_it(actor, settings, status, characters):
    settings.CRONTY_OUTBOUND_ALLOW = ["127.0.0.1"]
    body = "x" * (characters - 8) + "KEY=hush-hush-7"
    with Sink(Answer(status=status, body=body.encode())) as sink:
        set_secret(actor, "KEY", "hush-hush-7", hosts=[f"127.0.0.1:{sink.port}"])
        kwargs = {"url": sink.url(), "headers": {"x-api-key": "${secret:KEY}"}}
        job = JobFactory(owner=actor.user, task="webhook", kwargs=kwargs)

        outcome = asyncio.run(run_coroutine(make_running(ClusterFactory(), job), registry.get("webhook")))

    assert sink.requests[0].headers["x-api-key"] == "hush-hush-7"
    assert "xKEY=…" in f"{outcome.result} {outcome.error}"
    assert "hush" not in repr(outcome)


@pytest.mark.parametrize("secret", [" hush", "hu\u200bsh", "hu\x1b[31msh"])
def test_answer_that_repeats_a_secret_shows_nothing_of_it(actor, settings, secret):
    settings.CRONTY_OUTBOUND_ALLOW = ["127.0.0.1"]
    with Sink(Answer(body=secret.encode())) as sink:
        set_secret(actor, "KEY", secret, hosts=[f"127.0.0.1:{sink.port}"])
        job = JobFactory(
            owner=actor.user, task="webhook", kwargs={"url": sink.url(), "body": "${secret:KEY}"}
        )

        outcome = asyncio.run(run_coroutine(make_running(ClusterFactory(), job), registry.get("webhook")))

    assert outcome.result == {"status": 200, "body": MASK}


def test_secret_at_the_end_of_a_cut_text_is_masked_and_its_beginning_removed(stored):
    find(stored, "KEY", host="api.example")

    assert stored.mask_cut("x hush-hush-7") == f"x {MASK}"
    assert stored.mask_cut("hush-hush-7 hush-h") == f"{MASK} "
    assert stored.mask_cut("a text") == "a text"
