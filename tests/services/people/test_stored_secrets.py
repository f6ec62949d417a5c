"""Secrets: written by people, never shown, bound to where they may go."""

import json
from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest

from schedules import clock, engine
from schedules.models import Event, Incident, Secret
from schedules.result import Code, Err, Kind, Ok
from schedules.secrets.encryption import unseal
from schedules.services import Actor
from schedules.services.people import stored_secrets as secrets_module
from schedules.services.people.stored_secrets import (
    delete_secret,
    list_secrets,
    move_expiry,
    secret_warnings,
    set_secret,
)
from schedules.tasks.interface import Final
from tests.factories import JobFactory
from tests.tasks.builtin.conftest import RUN, perform

pytestmark = pytest.mark.django_db

VALUE = "hush-hush-7"


def test_secret_is_stored_encrypted_and_listed_without_its_value(actor):
    stored = set_secret(
        actor, "KEY", VALUE, hosts=["API.Example.com", "api.example.com"], commands=["backup"]
    )

    row = Secret.objects.get()
    assert isinstance(stored, Ok)
    assert VALUE not in json.dumps(list(Secret.objects.values()), default=str)
    assert unseal(row.sealed, row.place) == VALUE
    (listed,) = list_secrets(actor)
    assert (listed.name, listed.hosts, listed.commands) == ("KEY", ["api.example.com"], ["backup"])
    assert VALUE not in repr(listed)


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("API.example", "https://api.example/"),
        ("api.example:443", "https://api.example./"),
        ("bücher.example", "https://bücher.example/"),
        ("xn--bcher-kva.example", "https://BÜCHER.example/"),
        ("bücher.example:8080", "http://bücher.example:8080/"),
        ("[2606:4700::1]", "https://[2606:4700::1]/"),
        ("2606:4700:0::1", "https://[2606:4700:0:0::1]/"),
        ("[2606:4700:0::1]:8080", "http://[2606:4700::1]:8080/"),
        ("1.1.1.1:80", "http://1.1.1.1/"),
    ],
)
def test_host_may_be_written_otherwise_than_in_the_webhook(actor, typed, url):
    set_secret(actor, "KEY", VALUE, hosts=[typed])

    asked = []

    async def find(names, *, host):
        asked.append(host)
        raise Final("no")

    with pytest.raises(Final, match="no"):
        perform("webhook", replace(RUN, secrets=find), url=f"{url}${{secret:KEY}}")
    assert asked == Secret.objects.get().hosts


def test_replacing_needs_the_value_and_changes_where_it_may_go(actor):
    set_secret(actor, "KEY", VALUE, hosts=["a.example"])
    set_secret(actor, "KEY", "another value", commands=["backup"])

    row = Secret.objects.get()
    assert (row.hosts, row.commands) == ([], ["backup"])
    assert unseal(row.sealed, row.place) == "another value"


def test_changes_are_recorded_without_the_value(actor):
    set_secret(actor, "KEY", VALUE, hosts=["a.example"])
    delete_secret(actor, "KEY")

    events = list(Event.objects.order_by("pk").values("verb", "subject", "before", "after"))
    assert [event["verb"] for event in events] == ["set secret", "delete secret"]
    assert events[0]["after"] == {"hosts": ["a.example"], "commands": []}
    assert VALUE not in json.dumps(events)
    assert not Secret.objects.exists()


def test_expiry_is_a_whole_day_in_the_zone_of_the_person_and_goes_with_a_replacement(actor):
    stored = set_secret(actor, "KEY", VALUE, hosts=["a.example"], expires="2030-03-31").value
    zone = ZoneInfo(actor.read_profile().zone)

    assert f"{stored.expires_at.astimezone(zone):%Y-%m-%d %H:%M}" == "2030-03-31 23:59"
    assert not stored.is_expired
    assert Event.objects.get().after["expires_at"].startswith("2030-03-31")
    assert set_secret(actor, "KEY", VALUE, hosts=["a.example"]).value.expires_at is None


def test_date_is_moved_and_removed_without_the_value(actor):
    set_secret(actor, "KEY", VALUE, hosts=["a.example"], expires="2030-03-31")
    sealed = Secret.objects.get().sealed

    assert move_expiry(actor, "KEY", "2031-03-31").value.expires_at.year == 2031
    assert move_expiry(actor, "KEY", "never").value.expires_at is None

    row = Secret.objects.get()
    assert (row.sealed, row.hosts) == (sealed, ["a.example"])
    assert unseal(row.sealed, row.place) == VALUE


@pytest.mark.parametrize("text", ["blue moon", "2020-01-01"])
def test_invalid_expiry_names_the_field_and_changes_nothing(actor, text):
    set_secret(actor, "KEY", VALUE, hosts=["a.example"], expires="2030-03-31")

    for refused in (
        set_secret(actor, "KEY", "another value", hosts=["b.example"], expires=text),
        move_expiry(actor, "KEY", text),
    ):
        assert list(refused.errors) == ["expires_at"]
    row = Secret.objects.get()
    assert (row.hosts, row.expires_at.year) == (["a.example"], 2030)


def test_expiry_is_moved_by_its_owner_alone(actor, stranger):
    set_secret(actor, "KEY", VALUE, hosts=["a.example"])

    assert move_expiry(Actor(stranger), "KEY", "2030-03-31").code == Code.SECRET_NOT_FOUND
    assert move_expiry(Actor(actor.user, Event.Door.MCP), "KEY", "never").kind == Kind.FORBIDDEN


@pytest.mark.parametrize(
    "end",
    [
        lambda actor: set_secret(actor, "KEY", VALUE, hosts=["a.example"]),
        lambda actor: move_expiry(actor, "KEY", "never"),
        lambda actor: delete_secret(actor, "KEY"),
    ],
    ids=["replaced", "date removed", "deleted"],
)
def test_alert_about_the_old_date_ends_at_once(actor, end):
    set_secret(actor, "KEY", VALUE, hosts=["a.example"], expires="in 3 days")
    engine.watch_incidents(clock.now())
    assert Incident.objects.get().is_open

    end(actor)

    assert not Incident.objects.get().is_open


@pytest.mark.parametrize(
    ("hosts", "url", "warnings"),
    [
        (["api.example"], "https://api.example/${secret:KEY}", []),
        (["api.example:443"], "https://API.example:443/", []),
        (["nas.example:80"], "http://nas.example/", []),
        (["api.example"], "https://other.example/", ["KEY may not go to other.example yet."]),
        (["api.example"], "http://api.example:443/", ["KEY may not go to api.example:443 yet."]),
        ([], "https://api.example/", ["KEY is not among your secrets."]),
        ([], "https://user@api.example/", []),
    ],
)
def test_owner_is_warned_of_secrets_that_a_webhook_cannot_use(actor, hosts, url, warnings):
    if hosts:
        set_secret(actor, "KEY", "hush-hush", hosts=hosts)
    job = JobFactory(
        owner=actor.user, task="webhook", kwargs={"url": url, "headers": {"X-Key": "${secret:KEY}"}}
    )

    assert secret_warnings(actor, job) == warnings


def test_owner_is_warned_of_secrets_that_a_command_cannot_use(actor):
    set_secret(actor, "KEY", "hush-hush", commands=["backup"])
    backup, report = (
        JobFactory.build(owner=actor.user, task=task, kwargs={"key": "${secret:KEY}"})
        for task in ("backup", "report")
    )

    assert secret_warnings(actor, backup) == []
    assert secret_warnings(actor, report) == ["KEY may not go to report yet."]


def test_agents_and_others_do_not_learn_which_secrets_there_are(actor, agent, operator):
    kwargs = {"url": "https://api.example/${secret:KEY}"}
    job = JobFactory(owner=actor.user, task="webhook", kwargs=kwargs)

    assert (secret_warnings(agent, job), secret_warnings(Actor(operator), job)) == ([], [])


def test_each_person_has_their_own(actor, stranger):
    other = Actor(stranger, Event.Door.WEB)
    set_secret(actor, "KEY", VALUE, hosts=["a.example"])

    assert list_secrets(other) == []
    assert delete_secret(other, "KEY") == Err(Code.SECRET_NOT_FOUND, "KEY")
    assert isinstance(set_secret(other, "KEY", VALUE, hosts=["b.example"]), Ok)
    assert Secret.objects.count() == 2


def test_agents_neither_see_nor_change_secrets(actor, agent):
    set_secret(actor, "KEY", VALUE, hosts=["a.example"])

    assert list_secrets(agent) == []
    for refused in (set_secret(agent, "KEY", "other", hosts=["b.example"]), delete_secret(agent, "KEY")):
        assert isinstance(refused, Err)
        assert refused.kind == Kind.FORBIDDEN


def test_secrets_of_the_installation_are_for_superusers(actor, operator):
    refused = set_secret(actor, "KEY", VALUE, commands=["backup"], of_installation=True)
    assert isinstance(refused, Err)
    assert refused.kind == Kind.FORBIDDEN

    boss = Actor(operator, Event.Door.WEB)
    assert isinstance(set_secret(boss, "KEY", VALUE, commands=["backup"], of_installation=True), Ok)
    assert isinstance(set_secret(boss, "KEY", VALUE, hosts=["a.example"]), Ok)
    assert [listed.of_installation for listed in list_secrets(boss)] == [True, False]
    assert list_secrets(actor) == []
    assert isinstance(delete_secret(boss, "KEY", of_installation=True), Ok)
    assert [listed.of_installation for listed in list_secrets(boss)] == [False]


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"name": "1KEY"}, "name", "letter or _ first"),
        ({"name": "a b"}, "name", "letter or _ first"),
        ({"value": "abc"}, "value", "4 to 16,384 characters"),
        ({"value": "x" * 16_385}, "value", "4 to 16,384 characters"),
        ({"value": "abc\0def"}, "value", "NUL"),
        ({"value": "a\u200bbc"}, "value", "at least 4 visible characters"),
        ({"value": " abc "}, "value", "at least 4 visible characters"),
        ({"hosts": []}, "hosts", "Enter at least one host or command"),
        ({"hosts": ["10.0.0.0/8"]}, "hosts", "not a network"),
        ({"hosts": ["https://a.example"]}, "hosts", "not a network"),
        ({"hosts": ["\u0301.example"]}, "hosts", "is not the name of a host"),
        ({"hosts": ["ü..example"]}, "hosts", "is not the name of a host"),
        ({"hosts": ["a b"]}, "hosts", "use networks and hosts like"),
        ({"hosts": [], "commands": ["a b"]}, "commands", "not the name of a command"),
        ({"hosts": [f"h{number}.example" for number in range(21)]}, "hosts", "At most 20"),
        ({"of_installation": True}, "hosts", "goes to commands only"),
    ],
)
def test_mistake_is_refused_with_its_field(operator, fields, field, words):
    given = {"name": "KEY", "value": VALUE, "hosts": ["a.example"]} | fields

    refused = set_secret(Actor(operator, Event.Door.WEB), given.pop("name"), given.pop("value"), **given)

    assert isinstance(refused, Err)
    assert words in " ".join(refused.errors[field])
    assert not Secret.objects.exists()


def test_number_of_secrets_is_limited(actor, monkeypatch):
    monkeypatch.setattr(secrets_module, "MAX_SECRETS", 1)
    set_secret(actor, "ONE", VALUE, hosts=["a.example"])

    refused = set_secret(actor, "TWO", VALUE, hosts=["a.example"])

    assert isinstance(refused, Err)
    assert refused.kind == Kind.QUOTA
    assert isinstance(set_secret(actor, "ONE", "changed", hosts=["a.example"]), Ok)
