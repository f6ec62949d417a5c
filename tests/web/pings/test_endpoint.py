"""Pings over HTTP, in the forms that clients of healthchecks send them."""

import uuid

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator
from django.db import OperationalError

from schedules import clock, services
from schedules.models import Execution, Heartbeat, Job, Ping, Profile, RunOutput
from schedules.services import Actor
from schedules.services import pings as ping_service
from schedules.web.pings import endpoint, limits
from schedules.web.pings.limits import MAX_MISSES, PingLimits
from tests.factories import UserFactory

KEY = "fqOOd6-F4MMNuCEnzTU01w"


@pytest.fixture(autouse=True)
def fresh_limits(monkeypatch):
    # No minute ends in the middle of a test.
    monkeypatch.setattr(limits, "WINDOW_SECONDS", 10**9)
    monkeypatch.setattr(endpoint, "limits", PingLimits())


@pytest.fixture
def owner(db):
    user = UserFactory()
    Profile.objects.filter(user=user).update(ping_key=KEY)
    return user


def new_job(owner, name="Backup of db1", **fields):
    made = services.schedule(
        Actor(owner), name=name, task="heartbeat", trigger_type="cron", cron="0 3 * * *", **fields
    )
    return made.value.job


@pytest.fixture
def job(owner):
    return new_job(owner)


@pytest.fixture
def ping_id(job):
    return str(job.heartbeat.ping_id)


def kinds():
    return list(Ping.objects.order_by("pk").values_list("kind", flat=True))


@pytest.mark.parametrize("method", ["get", "post", "head"])
def test_success_by_id(client, ping_id, method):
    response = getattr(client, method)(f"/ping/{ping_id}")

    assert response.status_code == 200
    assert response.content == (b"" if method == "head" else b"OK")
    assert response["Content-Type"].startswith("text/plain")
    assert response["Ping-Body-Limit"] == "100000"
    assert response["Access-Control-Allow-Origin"] == "*"
    assert "Set-Cookie" not in response
    assert kinds() == ["success"]
    assert Execution.objects.get().status == "succeeded"


@pytest.mark.parametrize(
    ("form", "kind", "exit_status"),
    [
        ("/", "success", None),
        ("/start", "start", None),
        ("/fail", "fail", None),
        ("/log", "log", None),
        ("/0", "success", 0),
        ("/1", "fail", 1),
        ("/255", "fail", 255),
        ("/start/", "start", None),
    ],
)
@pytest.mark.parametrize("by", ["id", "name"])
def test_every_form_of_an_address(client, ping_id, job, form, kind, exit_status, by):
    base = f"/ping/{ping_id}" if by == "id" else f"/ping/{KEY}/backup-of-db1"

    response = client.get(f"{base}{form}")

    assert (response.status_code, response.content) == (200, b"OK")
    row = Ping.objects.get()
    assert (row.kind, row.exit_status) == (kind, exit_status)


def test_what_cannot_be_meant_changes_nothing(client, ping_id):
    for address, status, text in [
        ("{id}/256", 400, b"invalid url format"),
        ("{id}/99999", 400, b"invalid url format"),
        (f"{KEY}/Backup", 400, b"invalid url format"),
        ("{id}?rid=1234", 400, b"invalid uuid format"),
        ("{id}/start?rid=", 400, b"invalid uuid format"),
        (f"{KEY}/backup-of-db1/fail?rid=nope", 400, b"invalid uuid format"),
        (f"{KEY}/other", 404, b"not found"),
        ("wrong-key-wrong-key/backup-of-db1", 404, b"not found"),
        ("wrong-key-wrong-key/backup-of-db1?create=1", 404, b"not found"),
        ("00000000-0000-4000-8000-000000000000", 404, b"not found"),
        ("{id}/other", 404, b"not found"),
        ("{id}/start/fail", 404, b"not found"),
        ("x", 404, b"not found"),
    ]:
        response = client.get(f"/ping/{address.format(id=ping_id)}")

        assert (response.status_code, response.content) == (status, text)
        assert kinds() == []


def test_run_id_is_kept_and_gives_the_duration(client, ping_id):
    rid = str(uuid.uuid4())

    client.get(f"/ping/{ping_id}/start?rid={rid}")
    client.get(f"/ping/{ping_id}?rid={rid}")

    assert {str(row.rid) for row in Ping.objects.all()} == {rid}
    assert Execution.objects.get().took is not None


def test_first_ping_creates_the_job_if_asked(client, owner):
    response = client.get(f"/ping/{KEY}/new-job?create=1")

    assert (response.status_code, response.content) == (201, b"Created")
    job = Job.objects.get()
    assert (job.name, job.task, job.owner) == ("new-job", "heartbeat", owner)
    assert Execution.objects.get().status == "succeeded"
    again = client.get(f"/ping/{KEY}/new-job?create=1")
    assert (again.status_code, again.content) == (200, b"OK")
    assert Job.objects.count() == 1


def test_body_in_another_encoding_is_kept_as_far_as_it_can_be_read(client, ping_id):
    body = b"caf\xe9 \x00\x1b[31mred\x1b[0m"

    assert client.post(f"/ping/{ping_id}", body, content_type="application/octet-stream").status_code == 200

    assert RunOutput.objects.get().tail == "caf\ufffd red"


def test_other_methods_are_refused(client, ping_id):
    assert client.put(f"/ping/{ping_id}").status_code == 405
    assert client.options(f"/ping/{ping_id}").status_code == 204
    assert kinds() == []


def test_wrong_keys_are_limited_and_right_ones_are_not(client, ping_id, django_assert_num_queries):
    assert client.get(f"/ping/{ping_id}").status_code == 200
    for number in range(MAX_MISSES):
        assert client.get(f"/ping/wrong-key-{number:06}/x").status_code == 404

    with django_assert_num_queries(0):
        assert client.get("/ping/wrong-key-999999/x").status_code == 429
    assert client.get(f"/ping/{ping_id}").status_code == 200


def test_pings_of_one_address_are_limited(client, ping_id, settings):
    settings.CRONTY_PINGS_PER_MINUTE = 2
    statuses = [client.get(f"/ping/{ping_id}").status_code for _ in range(3)]

    assert statuses == [200, 200, 429]
    assert Heartbeat.objects.get().pings == 2


def test_client_gets_an_error_while_the_database_is_away(client, ping_id, monkeypatch):
    def fail(batch):
        raise OperationalError("the database is away")

    monkeypatch.setattr(ping_service, "receive", fail)

    response = client.get(f"/ping/{ping_id}")

    assert (response.status_code, response["Retry-After"]) == (503, "5")
    assert kinds() == []


# Beside the pages


def ask(*paths, method="POST", parts=(b"",), headers=()):
    """Send these requests at once, over ASGI; return pairs of status and text."""

    async def send_all():
        app = endpoint.PingEndpoint()
        exchanges = []
        for path in paths:
            path, _, query = path.partition("?")
            scope = {
                "type": "http",
                "method": method,
                "path": path,
                "query_string": query.encode(),
                "headers": list(headers),
                "client": ("192.0.2.7", 4711),
            }
            exchange = ApplicationCommunicator(app, scope)
            for number, part in enumerate(parts, 1):
                await exchange.send_input(
                    {"type": "http.request", "body": part, "more_body": number < len(parts)}
                )
            exchanges.append(exchange)
        answers = []
        for exchange in exchanges:
            start, body = [await exchange.receive_output(10) for _ in range(2)]
            answers.append((start["status"], body["body"]))
        return answers

    return async_to_sync(send_all)()


@pytest.mark.django_db(transaction=True)
def test_pings_at_once_are_stored_in_few_transactions(owner):
    addresses = [f"/ping/{new_job(owner, f'job {number}').heartbeat.ping_id}" for number in range(20)]

    answers = ask(*addresses, "/ping/00000000-0000-4000-8000-000000000000")

    assert answers == [(200, b"OK")] * 20 + [(404, b"not found")]
    assert Execution.objects.filter(status="succeeded").count() == 20


@pytest.mark.django_db(transaction=True)
def test_one_ping_that_cannot_be_stored_does_not_fail_the_others(owner, monkeypatch):
    bad, good = (new_job(owner, name).heartbeat.ping_id for name in ("bad", "good"))
    really = ping_service.receive

    def receive(batch):
        if any(ping.address.ping_id == bad for ping in batch):
            raise ValueError("unexpected")
        return really(batch)

    monkeypatch.setattr(ping_service, "receive", receive)

    answers = ask(f"/ping/{bad}", f"/ping/{good}")

    assert [status for status, _ in answers] == [503, 200]


@pytest.mark.django_db(transaction=True)
def test_sender_whose_clock_is_wrong_moves_no_ping_into_the_future(owner):
    for number, (late, seconds) in enumerate(
        [
            (b"-90", None),
            (b"nan", None),
            (b"inf", None),
            (b"1e9", None),
            (b"90,5", None),
            (b"0", None),
            (b"999999999999", None),
            (b"99999999", 365 * 86_400),
        ]
    ):
        heartbeat = new_job(owner, f"job {number}").heartbeat

        ((status, _),) = ask(f"/ping/{heartbeat.ping_id}", headers=[(b"cronty-late", late)])

        ping = Ping.objects.latest("pk")
        heartbeat.refresh_from_db()
        assert status == 200
        assert ping.at <= clock.now()
        assert heartbeat.last_ping_at <= clock.now()
        assert (ping.late_by and ping.late_by.total_seconds()) == seconds, late


@pytest.mark.django_db(transaction=True)
def test_streamed_body_and_delay_are_read(owner):
    address = f"/ping/{new_job(owner).heartbeat.ping_id}/fail"

    assert ask(address, parts=(b"a" * 99_999, b"bc", b"d" * 10), headers=[(b"cronty-late", b"90.5")])

    assert RunOutput.objects.get().tail == "a" * 99_999 + "b"
    assert Ping.objects.get().late_by.total_seconds() == 90.5
    assert Ping.objects.get().sender == "192.0.2.7"


# Pages


@pytest.fixture
def owner_client(client, owner):
    client.force_login(owner)
    return client


def test_page_of_the_job_shows_its_address_until_the_first_ping(owner_client, job, ping_id):
    address = f"/jobs/{job.public_id}/"

    page = owner_client.get(address)

    text = page.content.decode()
    assert f"/ping/{ping_id}" in text
    assert f"/ping/{KEY}/backup-of-db1" in text
    for place in ("crontab", "systemd", "Windows", "GitHub Actions", "borgmatic"):
        assert place in text
    assert "Run now" not in text
    assert page["Cache-Control"] == "no-store"
    owner_client.get(f"/ping/{ping_id}/3")
    assert f"/ping/{ping_id}" not in owner_client.get(address).content.decode()
    assert "exit code 3" in owner_client.get(f"{address}?tab=ping").content.decode()


def test_heartbeat_cannot_be_started_here(owner, job):
    refusal = services.run_now(Actor(owner), job.public_id)

    assert refusal.code.name == "JOB_RUNS_ELSEWHERE"


def test_new_ping_key_replaces_the_old_one(owner_client, job):
    answer = owner_client.post("/settings/ping-key/", {"shown": KEY}, follow=True)

    assert "You have a new ping key." in answer.content.decode()
    assert owner_client.get(f"/ping/{KEY}/backup-of-db1").status_code == 404
    key = Profile.objects.get(user=job.owner).ping_key
    assert owner_client.get(f"/ping/{key}/backup-of-db1").status_code == 200
    again = owner_client.post("/settings/ping-key/", {"shown": KEY}, follow=True)
    assert "already changed" in again.content.decode()
    assert Profile.objects.get(user=job.owner).ping_key == key


def test_form_creates_a_heartbeat(owner_client, owner):
    form = {
        "name": "Nightly",
        "task": "heartbeat",
        "when": "phrase",
        "phrase": "every day at 3am",
        "timezone": "Europe/Berlin",
        "heartbeat-grace": "20m",
        "heartbeat-slug": "",
    }

    answer = owner_client.post("/jobs/new/", form)

    assert answer.status_code in (302, 303), answer.content.decode()[:3000]
    job = Job.objects.get()
    assert (job.task, job.kwargs, job.heartbeat.slug) == ("heartbeat", {"grace": "20m"}, "nightly")
    assert job.pause_after_failures == 0


def test_renamed_job_keeps_its_address_and_a_chosen_name_changes_it(owner, job):
    services.edit(Actor(owner), job.public_id, name="Other")
    assert Heartbeat.objects.get().slug == "backup-of-db1"

    services.edit(Actor(owner), job.public_id, kwargs={"slug": "chosen"})
    assert Heartbeat.objects.get().slug == "chosen"


def test_bad_argument_is_refused_by_its_name(owner):
    for kwargs in [{"grace": "soon"}, {"grace": 0}, {"grace": "2000d"}, {"slug": "Big"}]:
        made = services.schedule(
            Actor(owner), name="x", task="heartbeat", trigger_type="cron", cron="0 3 * * *", kwargs=kwargs
        )

        assert next(iter(kwargs)) in made.named_reasons
        assert not Heartbeat.objects.exists()
