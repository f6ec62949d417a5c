"""Webhooks that are told of events: what may be entered, who may change them, and what happens to their secrets."""

import pytest
from django.test import override_settings

from schedules import clock, services
from schedules.models import Channel, Event, EventType, Execution, Job
from schedules.result import Code, Err, Ok
from schedules.services.installation.secret_key import adopt_secret_key
from schedules.services.people.channels import (
    delete_channel,
    list_channels,
    rename_channel,
    set_channel,
)
from schedules.services.people.webhooks import (
    find_webhook,
    list_deliveries,
    redeliver,
    rotate_secret,
    secrets_of_webhook,
    send_test_event,
    switch_webhook,
)
from tests.factories import JobFactory
from tests.receivers import deliveries, happen, listen, person

pytestmark = pytest.mark.django_db
URL = "https://example.com/hook?key=abc"


def add(actor, name="n8n", **values):
    return set_channel(actor, name, "webhook", {"url": URL, "events": "run.failed"} | values)


def test_secret_is_given_once_and_stored_encrypted(actor):
    secret = add(actor).value.new_secret

    assert secret.startswith("whsec_")
    row = Channel.objects.select_related("job").get()
    assert secret not in row.sealed
    assert secrets_of_webhook(row).value == {"secret": secret}
    assert (row.is_on, row.job.cron, row.job.task) == (True, "@manual", "send_event")
    recorded = Event.objects.get(verb="set channel")
    assert recorded.after["url"] == "example.com"
    assert "abc" not in str(recorded.after)
    assert services.profile_of(actor.user).channel == ""


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"url": "http://example.com/"}, "url", "https"),
        ({"url": "https://user:pw@example.com/"}, "url", "user name"),
        ({"url": "https://127.0.0.1/hook"}, "url", "not a public address"),
        ({"url": "https://[::1]/hook"}, "url", "not a public address"),
        ({"url": "nonsense"}, "url", "http"),
        ({"events": "run.exploded"}, "events", "run.exploded"),
        ({"tag": "x" * 51}, "tag", "50"),
        ({"job": "no such job"}, "job", "no job"),
    ],
)
def test_mistake_names_the_field_and_changes_nothing(actor, values, field, words):
    refused = add(actor, **values)

    assert isinstance(refused, Err)
    assert words in " ".join(refused.errors[field])
    assert not Channel.objects.exists()
    assert not Job.objects.exists()


def test_http_is_allowed_only_for_a_host_that_the_operator_names(actor, settings):
    settings.CRONTY_OUTBOUND_ALLOW = ["nas.local:8080", "192.168.1.0/24"]

    assert isinstance(add(actor, url="http://nas.local:8080/"), Ok)
    assert isinstance(add(actor, "b", url="http://192.168.1.5/"), Ok)
    assert isinstance(add(actor, "c", url="http://nas.local/"), Err)


def test_agents_neither_see_nor_change_webhooks(actor, agent):
    add(actor)

    assert list_channels(agent) == []
    for refused in (
        add(agent, "other"),
        find_webhook(agent, "n8n"),
        switch_webhook(agent, "n8n", is_on=False),
        rotate_secret(agent, "n8n"),
        delete_channel(agent, "n8n"),
        send_test_event(agent, "n8n"),
        redeliver(agent, "n8n", 1),
    ):
        assert refused.code == Code.CHANNELS_BY_PEOPLE


def test_nobody_finds_the_webhooks_of_others(actor, stranger):
    add(actor)
    other = person(stranger)

    assert find_webhook(other, "n8n").code == Code.CHANNEL_NOT_FOUND
    assert delete_channel(other, "n8n").code == Code.CHANNEL_NOT_FOUND
    assert isinstance(add(other), Ok)
    assert Channel.objects.count() == 2


def test_edit_and_rename_keep_the_secret_and_the_job(actor):
    secret = add(actor).value.new_secret

    changed = add(actor, url="https://example.org/", events="job.changed")
    rename_channel(actor, "n8n", "Zapier")

    row = Channel.objects.select_related("job").get()
    assert (row.name, row.event_types, row.job.name) == ("Zapier", ["job.changed"], "Events: Zapier")
    assert changed.value.new_secret is None
    assert secrets_of_webhook(row).value == {"secret": secret}
    assert Job.objects.count() == 1


def test_webhook_that_becomes_another_kind_of_channel_is_told_of_nothing(actor, owner):
    opened = listen(owner)
    happen(JobFactory(owner=owner))

    set_channel(actor, "Receiver", "ntfy", {"topic": "phone"})
    happen(JobFactory(owner=owner))

    assert [row.status for row in deliveries(opened)] == ["cancelled"]
    assert not Channel.objects.get().is_on


def test_webhook_of_one_job_or_tag_is_told_of_nothing_else(actor, owner):
    backup = JobFactory(owner=owner, name="Backup")
    tagged = JobFactory(owner=owner, tags=["Home"])
    by_name, by_tag = listen(owner, name="a", job="Backup"), listen(owner, name="b", tag="home")

    happen(backup)
    happen(tagged)

    assert [row.given["event"]["data"]["job"]["name"] for row in deliveries(by_name)] == ["Backup"]
    assert [row.given["event"]["data"]["job"]["name"] for row in deliveries(by_tag)] == [tagged.name]


def test_receiver_that_is_switched_off_gets_what_happens_after_it_is_on_again(actor, owner):
    opened = listen(owner)
    job = JobFactory(owner=owner)

    switch_webhook(actor, "Receiver", is_on=False)
    happen(job)
    assert deliveries(opened) == []
    assert send_test_event(actor, "Receiver").code == Code.CHANNEL_OFF

    switch_webhook(actor, "Receiver", is_on=True)
    happen(job)
    assert len(deliveries(opened)) == 1


def test_deleted_receiver_withdraws_what_waits_and_keeps_the_ledger(actor, owner):
    opened = listen(owner)
    happen(JobFactory(owner=owner))

    assert delete_channel(actor, "Receiver") == Ok("Receiver")

    assert not Channel.objects.exists()
    (row,) = deliveries(opened)
    assert row.status == "cancelled"
    assert Job.objects.get(pk=opened.channel.job_id).deleted_at
    assert list_channels(actor) == []


def test_delivery_under_way_and_that_of_another_receiver_are_not_repeated(actor, owner):
    opened, other = listen(owner), listen(owner, name="Other")
    send_test_event(actor, "Receiver")
    (row,) = deliveries(opened)

    assert redeliver(actor, "Receiver", row.pk).code == Code.DELIVERY_UNDER_WAY
    Execution.objects.filter(pk=row.pk).update(status="failed", finished_at=clock.now())
    assert redeliver(actor, "Other", row.pk).code == Code.DELIVERY_NOT_FOUND
    again = redeliver(actor, "Receiver", row.pk).value

    assert again.given["event"]["id"] == row.given["event"]["id"]
    assert [each.pk for each in list_deliveries(opened.channel)] == [again.pk, row.pk]
    assert deliveries(other) == []


def test_secrets_follow_a_new_secret_key(actor, settings):
    secret = add(actor).value.new_secret
    rotate_secret(actor, "n8n")

    with override_settings(SECRET_KEY="new" * 20, SECRET_KEY_FALLBACKS=[settings.SECRET_KEY]):
        assert adopt_secret_key() == []
    with override_settings(SECRET_KEY="new" * 20, SECRET_KEY_FALLBACKS=[]):
        assert secrets_of_webhook(Channel.objects.get()).value["old_secret"] == secret


def test_job_of_a_receiver_is_not_changed_in_another_way(actor, agent, owner):
    opened = listen(owner)
    job_id = opened.channel.job.public_id

    assert services.pause(agent, job_id).code == Code.JOB_PROTECTED
    switch_webhook(actor, "Receiver", is_on=False)
    assert services.resume(agent, job_id).code == Code.JOB_PROTECTED
    switch_webhook(actor, "Receiver", is_on=True)

    assert services.delete(actor, job_id).code == Code.JOB_PROTECTED
    assert services.cancel(actor, job_id).code == Code.JOB_PROTECTED
    assert isinstance(services.edit(actor, job_id, task="tests.ping"), Err)
    assert isinstance(
        services.schedule(actor, name="x", task="send_event", trigger_type="cron", cron="0 7 * * *"), Err
    )


@pytest.mark.parametrize(
    ("text", "events"),
    [("", EventType.values), ("none", []), ("run.failed,job.changed", ["run.failed", "job.changed"])],
)
def test_events_are_all_unless_some_or_none_are_chosen(actor, text, events):
    add(actor, events=text)

    assert Channel.objects.get().event_types == events
