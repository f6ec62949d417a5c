"""Receivers of events: what may be entered, who may change them, and what happens to their secrets."""

import pytest
from django.test import override_settings

from schedules import clock, services
from schedules.models import Event, EventSubscription, EventType, Execution, Job
from schedules.result import Code, Err, Ok
from schedules.secrets.encryption import unseal
from schedules.services.installation.secret_key import adopt_secret_key
from schedules.services.people.event_deliveries import list_deliveries, redeliver, send_test_event
from schedules.services.people.event_subscriptions import (
    MAX_SUBSCRIPTIONS,
    SubscriptionSpec,
    add_subscription,
    delete_subscription,
    edit_subscription,
    find_subscription,
    list_subscriptions,
    rotate_secret,
    switch_subscription,
)
from tests.factories import JobFactory
from tests.receivers import deliveries, happen, listen, person

pytestmark = pytest.mark.django_db
URL = "https://example.com/hook?key=abc"


def wanted(**values):
    return SubscriptionSpec(**{"name": "n8n", "url": URL, "types": ["run.failed"]} | values)


def test_secret_is_given_once_and_stored_encrypted(actor):
    opened = add_subscription(actor, wanted()).value

    assert opened.secret.startswith("whsec_")
    row = EventSubscription.objects.get()
    assert opened.secret not in row.sealed
    assert unseal(row.sealed, row.place) == opened.secret
    assert (row.is_on, row.job.cron, row.job.task) == (True, "@manual", "send_event")
    recorded = Event.objects.get(verb="add receiver")
    assert recorded.after["receiver"] == "example.com"
    assert "abc" not in str(recorded.after)


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"name": " "}, "name", "1 to 80"),
        ({"name": "a\nb"}, "name", "1 to 80"),
        ({"url": "http://example.com/"}, "url", "https"),
        ({"url": "https://user:pw@example.com/"}, "url", "user name"),
        ({"url": "https://127.0.0.1/hook"}, "url", "not a public address"),
        ({"url": "https://10.0.0.7/hook"}, "url", "not a public address"),
        ({"url": "https://[::1]/hook"}, "url", "not a public address"),
        ({"url": "ftp://example.com"}, "url", "http"),
        ({"url": "nonsense"}, "url", "http"),
        ({"types": ["run.exploded"]}, "types", "run.exploded"),
        ({"types": []}, "types", "at least one"),
        ({"tag": "x" * 51}, "tag", "50"),
        ({"job": "no such job"}, "job", "no job"),
    ],
)
def test_mistake_names_the_field_and_changes_nothing(actor, values, field, words):
    refused = add_subscription(actor, wanted(**values))

    assert isinstance(refused, Err)
    assert words in " ".join(refused.errors[field])
    assert not EventSubscription.objects.exists()
    assert not Job.objects.exists()


def test_http_is_allowed_only_for_a_host_that_the_operator_names(actor, settings):
    settings.CRONTY_OUTBOUND_ALLOW = ["nas.local:8080", "192.168.1.0/24"]

    assert isinstance(add_subscription(actor, wanted(url="http://nas.local:8080/")), Ok)
    assert isinstance(add_subscription(actor, wanted(name="b", url="http://192.168.1.5/")), Ok)
    assert isinstance(add_subscription(actor, wanted(name="c", url="http://nas.local/")), Err)


def test_agents_neither_see_nor_change_receivers(actor, agent):
    add_subscription(actor, wanted())

    assert list_subscriptions(agent) == []
    for refused in (
        add_subscription(agent, wanted(name="other")),
        find_subscription(agent, "n8n"),
        edit_subscription(agent, "n8n", wanted()),
        switch_subscription(agent, "n8n", is_on=False),
        rotate_secret(agent, "n8n"),
        delete_subscription(agent, "n8n"),
        send_test_event(agent, "n8n"),
        redeliver(agent, "n8n", 1),
    ):
        assert refused.code == Code.EVENTS_BY_PEOPLE


def test_nobody_finds_the_receivers_of_others(actor, stranger):
    opened = add_subscription(actor, wanted()).value
    other = person(stranger)

    for reference in ("n8n", opened.subscription.public_id):
        assert find_subscription(other, reference).code == Code.EVENT_SUBSCRIPTION_NOT_FOUND
        assert delete_subscription(other, reference).code == Code.EVENT_SUBSCRIPTION_NOT_FOUND
    assert EventSubscription.objects.exists()


def test_name_is_unique_for_each_person(actor, stranger):
    add_subscription(actor, wanted())

    assert "already" in str(add_subscription(actor, wanted(name="N8N")).errors)
    assert isinstance(add_subscription(person(stranger), wanted()), Ok)


def test_edit_keeps_the_secret_for_the_new_address(actor):
    opened = add_subscription(actor, wanted()).value

    edit_subscription(actor, "n8n", wanted(name="Zapier", url="https://example.org/", types=["job.changed"]))

    row = EventSubscription.objects.select_related("job").get()
    assert (row.name, row.types, row.job.name) == ("Zapier", ["job.changed"], "Events: Zapier")
    assert unseal(row.sealed, row.place) == opened.secret


def test_receiver_that_is_switched_off_gets_what_happens_after_it_is_on_again(actor, owner):
    opened = listen(owner)
    job = JobFactory(owner=owner)

    switch_subscription(actor, "Receiver", is_on=False)
    happen(job)
    assert deliveries(opened) == []
    assert send_test_event(actor, "Receiver").code == Code.EVENT_SUBSCRIPTION_OFF

    switch_subscription(actor, "Receiver", is_on=True)
    happen(job)
    assert len(deliveries(opened)) == 1


def test_deleted_receiver_withdraws_what_waits_and_keeps_the_ledger(actor, owner):
    opened = listen(owner)
    happen(JobFactory(owner=owner))

    assert delete_subscription(actor, "Receiver") == Ok("Receiver")

    assert not EventSubscription.objects.exists()
    (row,) = deliveries(opened)
    assert row.status == "cancelled"
    assert Job.objects.get(pk=opened.subscription.job_id).deleted_at
    assert list_subscriptions(actor) == []


def test_only_so_many_receivers(actor, owner):
    for number in range(MAX_SUBSCRIPTIONS):
        add_subscription(actor, wanted(name=f"n{number}"))

    refused = add_subscription(actor, wanted(name="one more"))

    assert (refused.code, refused.limit) == (Code.TOO_MANY_EVENT_SUBSCRIPTIONS, MAX_SUBSCRIPTIONS)


def test_delivery_under_way_and_that_of_another_receiver_are_not_repeated(actor, owner):
    opened, other = listen(owner), listen(owner, name="Other")
    send_test_event(actor, "Receiver")
    (row,) = deliveries(opened)

    assert redeliver(actor, "Receiver", row.pk).code == Code.DELIVERY_UNDER_WAY
    Execution.objects.filter(pk=row.pk).update(status="failed", finished_at=clock.now())
    assert redeliver(actor, "Other", row.pk).code == Code.DELIVERY_NOT_FOUND
    again = redeliver(actor, "Receiver", row.pk).value

    assert again.given["event"]["id"] == row.given["event"]["id"]
    assert [each.pk for each in list_deliveries(opened.subscription)] == [again.pk, row.pk]
    assert deliveries(other) == []


def test_secrets_follow_a_new_secret_key(actor, settings):
    opened = add_subscription(actor, wanted()).value
    rotate_secret(actor, "n8n")

    with override_settings(SECRET_KEY="new" * 20, SECRET_KEY_FALLBACKS=[settings.SECRET_KEY]):
        assert adopt_secret_key() == []
    with override_settings(SECRET_KEY="new" * 20, SECRET_KEY_FALLBACKS=[]):
        row = EventSubscription.objects.get()
        assert unseal(row.old_sealed, row.place) == opened.secret


def test_job_of_a_receiver_is_not_changed_in_another_way(actor, agent, owner):
    opened = listen(owner)
    job_id = opened.subscription.job.public_id

    assert services.pause(agent, job_id).code == Code.JOB_PROTECTED
    switch_subscription(actor, "Receiver", is_on=False)
    assert services.resume(agent, job_id).code == Code.JOB_PROTECTED
    switch_subscription(actor, "Receiver", is_on=True)

    assert services.delete(actor, job_id).code == Code.JOB_PROTECTED
    assert services.cancel(actor, job_id).code == Code.JOB_PROTECTED
    assert isinstance(services.edit(actor, job_id, task="tests.ping"), Err)
    assert isinstance(
        services.schedule(actor, name="x", task="send_event", trigger_type="cron", cron="0 7 * * *"), Err
    )


def test_every_type_of_event_can_be_chosen(actor):
    opened = add_subscription(actor, wanted(types=EventType.values)).value

    assert opened.subscription.types == EventType.values
