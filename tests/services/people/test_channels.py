"""Channels: written by people, never shown, and referred to by name."""

import json

import pytest

from schedules import services
from schedules.models import Channel, Event, Profile
from schedules.result import Code, Err, Ok
from schedules.secrets.encryption import unseal
from schedules.services.people import channel_tests
from schedules.services.people.channel_tests import send_test
from schedules.services.people.channels import (
    channel_names,
    code_of,
    confirm_channel,
    delete_channel,
    jobs_using,
    list_channels,
    place_of,
    rename_channel,
    set_channel,
)
from schedules.services.people.hourly_limits import HourlyLimit
from schedules.tasks.asking import ReminderStep
from schedules.tasks.interface import Final
from tests.documented import blocks
from tests.factories import JobFactory, UserFactory
from tests.sink import Answer, Sink
from tests.site.smtp import MailSink
from tests.tasks.builtin.conftest import RUN, perform

pytestmark = pytest.mark.django_db(transaction=True)

TOKEN = "123456:AAbbCCdd-eeFFgg"


@pytest.fixture
def sink(settings):
    with Sink(Answer(body=b'{"ok": true, "result": {"message_id": 7}}')) as server:
        settings.CRONTY_OUTBOUND_ALLOW = ["127.0.0.1"]
        yield server


@pytest.fixture
def phone(actor, sink):
    """A channel of kind Telegram."""
    made = set_channel(actor, "phone", "telegram", {"token": TOKEN, "chat": "17", "server": sink.url("")})
    assert isinstance(made, Ok), made
    return made.value


@pytest.fixture
def mail(settings, monkeypatch):
    monkeypatch.setattr(channel_tests, "_codes", HourlyLimit(2))
    with MailSink() as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        yield server


def run_of(owner, **more):
    return type(RUN)(**{**RUN.__dict__, "owner_id": owner.pk, **more})


def test_channel_is_stored_encrypted_and_listed_without_secrets(actor, phone):
    row = Channel.objects.get()
    assert TOKEN not in json.dumps(list(Channel.objects.values()), default=str)
    assert json.loads(unseal(row.sealed, row.place)) == {"token": TOKEN}
    assert TOKEN not in repr(list_channels(actor))
    assert TOKEN not in json.dumps(list(Event.objects.values("before", "after")))
    assert phone.options["chat"] == "17"


def test_notification_goes_by_the_channel_of_the_owner(owner, actor, phone, sink):
    result = perform("notify", run_of(owner), message="Hello", channel="phone")

    assert json.loads(sink.requests[0].body)["text"] == "Hello"
    assert result == {"channel": "phone", "id": 7, "server": "127.0.0.1"}
    assert list_channels(actor)[0].last_sent_at


def test_documented_notification_goes_by_the_channel(owner, actor, phone, sink):
    (block,) = blocks("docs/how-to/channels.md", "json")

    perform("notify", run_of(owner), **json.loads(block.text))

    assert json.loads(sink.requests[0].body)["text"] == "Water the plants"


def test_failed_delivery_is_shown_on_the_channel_without_its_secret(owner, actor, phone, sink):
    sink.then(Answer(status=401, body=json.dumps({"description": f"bad token {TOKEN}"}).encode()))

    with pytest.raises(Final):
        perform("notify", run_of(owner), message="Hello", channel="phone")

    (listed,) = list_channels(actor)
    assert "answered 401: bad token" in listed.last_error
    assert TOKEN not in listed.last_error


def test_channel_of_somebody_else_is_not_found(phone):
    other = UserFactory()

    with pytest.raises(Final, match="no channel phone"):
        perform("notify", run_of(other), message="Hello", channel="phone")


def test_secret_does_not_follow_to_another_server_in_the_database(owner, phone, sink):
    row = Channel.objects.get()
    Channel.objects.update(options={**row.options, "server": sink.url("/elsewhere")})

    with pytest.raises(Exception, match="cannot be read"):
        perform("notify", run_of(owner), message="Hello", channel="phone")

    assert not sink.requests


def test_job_must_name_a_channel_that_exists(actor, phone):
    def made(**kwargs):
        return services.schedule(
            actor,
            name="Plants",
            task="notify",
            kwargs={"message": "Hello", **kwargs},
            trigger_type="cron",
            cron="0 9 * * *",
        )

    assert isinstance(made(channel="phone"), Ok)
    assert "is not among the owner's channels" in made(channel="fax").reasons
    assert "phone is a channel: give it as channel" in made(topic="Phone").reasons
    assert "not both" in made(topic="plants", channel="phone").reasons


ASK = "every 10m 2 times then "


def made_asking(actor, place, **columns):
    return services.schedule(
        actor,
        name="Pills",
        task="notify",
        trigger_type="cron",
        cron="0 9 * * *",
        **{"kwargs": {"message": "Pills", "topic": "home", "ask": ASK + place}} | columns,
    )


@pytest.mark.parametrize("place", ["phone", "PHONE", "channel:phone", "channel: Phone"])
def test_name_after_then_means_a_channel_before_a_topic(actor, phone, place):
    job = made_asking(actor, place).value.job
    assert job.kwargs["ask"] == f"{ASK}channel:phone"

    edited = services.edit(actor, job.public_id, kwargs={**job.kwargs, "ask": f"every 5m then {place}"})
    assert edited.value.kwargs["ask"] == "every 5m then channel:phone"


def test_channel_after_then_may_have_spaces_and_be_given_by_position(actor, phone):
    assert rename_channel(actor, "phone", "My Phone") == Ok("My Phone")
    arguments = ["Pills", "home", *[None] * 9, f"{ASK}my phone"]

    job = made_asking(actor, "", args=arguments, kwargs={}).value.job

    assert job.args[-1] == f"{ASK}channel:My Phone"
    assert jobs_using(actor.user.pk, "My Phone") == [job.public_id]


def test_topic_after_then_stays_and_a_missing_channel_is_refused(actor, phone):
    assert made_asking(actor, "boss").value.job.kwargs["ask"] == f"{ASK}boss"
    assert "ask: 'fax' is not among the owner's channels" in made_asking(actor, "channel:fax").reasons


def test_channel_that_is_used_only_after_then_is_in_use(actor, phone):
    job = made_asking(actor, "phone").value.job
    set_channel(actor, "hone", "ntfy", {"topic": "x"})

    assert delete_channel(actor, "phone").matches == (job.public_id,)
    assert rename_channel(actor, "phone", "mobile").code == Code.CHANNEL_IN_USE
    assert delete_channel(actor, "hone") == Ok("hone")


def escalated(owner):
    async def find() -> ReminderStep:
        return ReminderStep(3, 2, "channel:phone")

    return run_of(owner, find_reminder=find)


@pytest.mark.parametrize("first", [{"topic": "home"}, {"channel": "desk"}], ids=["topic", "channel"])
def test_last_reminder_goes_by_the_channel_after_then(owner, phone, sink, settings, first):
    settings.NTFY_URL = sink.url("/ntfy")

    result = perform("notify", escalated(owner), message="Pills", ask=f"{ASK}channel:phone", **first)

    (request,) = sink.requests
    assert request.path == f"/bot{TOKEN}/sendMessage"
    assert "nobody answered" in json.loads(request.body)["text"]
    assert result["channel"] == "phone"


def test_last_reminder_to_a_channel_that_is_gone_fails(owner):
    with pytest.raises(Final, match="no channel phone"):
        perform("notify", escalated(owner), message="Pills", topic="home", ask=f"{ASK}channel:phone")


def test_alerts_of_a_job_name_the_channel_with_its_prefix(actor, phone):
    job = JobFactory(owner=actor.user)

    assert isinstance(services.edit(actor, job.public_id, alerts="channel:phone"), Ok)
    refused = services.edit(actor, job.public_id, alerts="phone")
    assert "write channel:phone" in refused.reasons
    assert "no channel fax" in services.edit(actor, job.public_id, alerts="channel:fax").reasons


def test_channel_in_use_is_neither_renamed_nor_deleted(actor, phone):
    JobFactory(owner=actor.user, task="notify", kwargs={"message": "Hello", "channel": "phone"})

    for refused in (rename_channel(actor, "phone", "mobile"), delete_channel(actor, "phone")):
        assert isinstance(refused, Err)
        assert (refused.code, refused.limit) == (Code.CHANNEL_IN_USE, 1)
    assert channel_names(actor) == ["phone"]


def test_defaults_follow_a_renamed_and_a_deleted_channel(actor, phone):
    services.set_preferences(actor, topic="phone", failure_topic="channel:phone")
    assert rename_channel(actor, "phone", "mobile") == Ok("mobile")
    profile = Profile.objects.get(user=actor.user)
    assert (profile.channel, profile.alert_channel) == ("mobile", "mobile")

    assert delete_channel(actor, "mobile") == Ok("mobile")
    profile.refresh_from_db()
    assert (profile.channel, profile.alert_channel) == ("", "")


def test_topic_replaces_the_default_channel(actor, phone):
    services.set_preferences(actor, topic="phone")
    assert Profile.objects.get(user=actor.user).default_place == {"channel": "phone"}

    services.set_preferences(actor, topic="plants")
    assert Profile.objects.get(user=actor.user).default_place == {"topic": "plants"}


def test_agents_see_names_only(agent, phone):
    assert channel_names(agent) == ["phone"]
    assert list_channels(agent) == []
    for refused in (
        set_channel(agent, "mine", "ntfy", {"topic": "x"}),
        delete_channel(agent, "phone"),
        rename_channel(agent, "phone", "mobile"),
        send_test(agent, "phone"),
        confirm_channel(agent, "phone", "x"),
    ):
        assert refused.code == Code.CHANNELS_BY_PEOPLE


def test_name_that_would_be_confused_is_refused(actor):
    for name in ["", " ", "never", "Default", "a:b", "-x", "x" * 41, "a\nb"]:
        assert "name" in set_channel(actor, name, "ntfy", {"topic": "plants"}).errors


def test_text_means_a_channel_before_a_topic(owner, phone):
    assert place_of(owner.pk, "PHONE") == {"channel": "phone"}
    assert place_of(owner.pk, "channel:phone") == {"channel": "phone"}
    assert place_of(owner.pk, "plants") == {"topic": "plants"}


def test_mail_needs_the_code_that_was_sent_there(owner, actor, mail):
    set_channel(actor, "mail", "email", {"address": "someone@example.org"})
    with pytest.raises(Final, match="not confirmed"):
        perform("notify", run_of(owner), message="Hello", channel="mail")

    assert "A code is on its way" in send_test(actor, "mail").value.message
    code = code_of(Channel.objects.get())
    assert code in mail.messages[0].get_content()
    assert confirm_channel(actor, "mail", "00000000").code == Code.CHANNEL_CODE_WRONG
    assert confirm_channel(actor, "mail", code.lower()) == Ok("mail")

    perform("notify", run_of(owner), message="Hello", channel="mail")
    assert mail.messages[1].get_content().strip() == "Hello"


def test_codes_are_not_sent_without_limit(actor, mail):
    set_channel(actor, "mail", "email", {"address": "someone@example.org"})
    answers = [send_test(actor, "mail") for _ in range(3)]

    assert answers[2].code == Code.NOTIFICATIONS_SENT_TOO_FAST
    assert len(mail.messages) == 2


def test_own_address_needs_no_code(owner, actor, mail):
    owner.email = "olga@example.org"
    made = set_channel(actor, "mail", "email", {"address": "Olga@example.org"})

    assert made.value.is_confirmed


def test_test_message_says_what_arrived_and_what_did_not(actor, phone, sink):
    assert send_test(actor, "phone").value.is_sent
    sink.then(Answer(status=400, body=b'{"description": "chat not found"}'))

    tested = send_test(actor, "phone").value

    assert not tested.is_sent
    assert "chat not found" in tested.message
