"""The signing keys of webhooks: who sees them, and how they are replaced."""

import pytest

from schedules import clock, services
from schedules.models import Event
from schedules.result import Err, Kind, Ok
from schedules.services import Actor
from tests.factories import JobFactory, UserFactory

HOOK = {"task": "webhook", "kwargs": {"url": "https://example.com/"}}


@pytest.fixture
def hook(actor):
    return JobFactory(owner=actor.user, **HOOK)


def test_new_key_is_first_and_the_old_one_stays_for_a_while(actor, hook):
    (old,) = services.signing_keys_of(actor, hook, clock.now())

    rotated = services.rotate_signing_key(actor, hook.public_id, shown=str(hook.signing_version))

    assert isinstance(rotated, Ok)
    hook.refresh_from_db()
    assert rotated.value.revision == hook.revision
    new, before = services.signing_keys_of(actor, hook, clock.now())
    assert before == old != new
    assert Event.objects.filter(job=hook, verb="rotate key", actor="olga").exists()


def test_key_that_was_rotated_meanwhile_is_not_rotated_again(actor, hook):
    shown = str(hook.signing_version)

    rotated = [services.rotate_signing_key(actor, hook.public_id, shown=shown) for _ in range(2)]

    assert [isinstance(result, Ok) for result in rotated] == [True, False]
    hook.refresh_from_db()
    assert hook.signing_version == int(shown) + 1


def test_nobody_but_the_owner_sees_or_changes_a_key(hook):
    for user in (UserFactory(), UserFactory(is_staff=True, is_superuser=True)):
        actor = Actor(user, Event.Door.WEB)

        refused = services.rotate_signing_key(actor, hook.public_id, shown=str(hook.signing_version))

        assert isinstance(refused, Err)
        assert refused.kind in (Kind.NOT_FOUND, Kind.FORBIDDEN)
        assert services.signing_keys_of(actor, hook, clock.now()) == ()
    hook.refresh_from_db()
    assert hook.signing_version == 1


def test_only_webhooks_have_keys(actor):
    job = JobFactory(owner=actor.user)

    assert services.signing_keys_of(actor, job, clock.now()) == ()
