"""Password reset by mail, on a site that has a mail server."""

import re
from collections.abc import Iterator

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import NoReverseMatch, reverse

from cronty_site import accounts, urls
from schedules.services.people.hourly_limits import HourlyLimit
from tests.site.smtp import MailSink
from tests.waiting import wait_for

urlpatterns: list[object] = [*urls.password_reset, *urls.urlpatterns]
with_mail = pytest.mark.urls(__name__)

NEW = "battery staple 9"


@pytest.fixture
def sink(settings: LazySettings) -> Iterator[MailSink]:
    with MailSink() as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        settings.DEFAULT_FROM_EMAIL = "cronty@cronty.example"
        yield server


@pytest.fixture
def address(owner: User) -> str:
    User.objects.filter(pk=owner.pk).update(email="olga@example.org")
    return "olga@example.org"


@pytest.fixture(autouse=True)
def fresh_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "_messages", HourlyLimit(3))
    monkeypatch.setattr(accounts, "_requests", HourlyLimit(10))


def link_in(sink: MailSink) -> str:
    wait_for(lambda: sink.messages)
    found = re.search(r"http://127\.0\.0\.1:8000(/password/new/\S+)", sink.messages[0].get_content())
    assert found is not None
    return found[1]


@with_mail
def test_mailed_link_sets_a_new_password_once(client: Client, owner: User, address: str, sink: MailSink):
    client.post("/password/forgotten/", {"email": address}, headers={"Host": "localhost"})
    link = link_in(sink)

    form = client.get(link, follow=True)
    done = client.post(form.redirect_chain[-1][0], {"new_password1": NEW, "new_password2": NEW}, follow=True)

    owner.refresh_from_db()
    assert owner.check_password(NEW)
    assert "Password changed" in done.content.decode()
    assert "This link no longer works" in Client().get(link, follow=True).content.decode()
    message = sink.messages[0]
    assert (message["From"], message["To"]) == ("cronty@cronty.example", address)
    assert message["Subject"] == "Choose a new password for Cronty"


@with_mail
def test_unknown_address_is_answered_like_a_known_one(client: Client, address: str, sink: MailSink):
    answers = [
        client.post("/password/forgotten/", {"email": email}, follow=True)
        for email in (address, "nobody@example.org")
    ]

    known, unknown = ((answer.redirect_chain, answer.content) for answer in answers)
    assert known == unknown
    wait_for(lambda: sink.messages)
    assert [message["To"] for message in sink.messages] == [address]


@with_mail
def test_nobody_gets_many_messages_and_the_page_does_not_tell(
    client: Client, address: str, sink: MailSink, caplog: pytest.LogCaptureFixture
):
    User.objects.create_user("otto", email="otto@example.org", password=NEW)
    asked = [address] * 8 + ["otto@example.org"]

    answers = {
        client.post(
            "/password/forgotten/", {"email": email}, follow=True, REMOTE_ADDR=f"192.0.2.{number}"
        ).content
        for number, email in enumerate(asked)
    }

    assert len(answers) == 1
    wait_for(lambda: any(message["To"] == "otto@example.org" for message in sink.messages))
    wait_for(lambda: len(sink.messages) == 4)
    assert caplog.text.count("No message to choose a new password") == 5


@with_mail
def test_address_asks_for_few_messages_whosever_they_are(client: Client, address: str, sink: MailSink):
    asked = [*(f"nobody{number}@example.org" for number in range(10)), address]

    statuses = [client.post("/password/forgotten/", {"email": email}).status_code for email in asked]
    elsewhere = client.post("/password/forgotten/", {"email": address}, REMOTE_ADDR="192.0.2.7")

    assert statuses == [302] * 10 + [429]
    assert elsewhere.status_code == 302
    wait_for(lambda: sink.messages)
    assert len(sink.messages) == 1


@with_mail
def test_mail_server_that_does_not_answer_is_not_shown(client: Client, address: str, settings: LazySettings):
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1

    answer = client.post("/password/forgotten/", {"email": address}, follow=True)

    assert "Check your email" in answer.content.decode()


@with_mail
def test_weak_new_password_is_refused(client: Client, owner: User, address: str, sink: MailSink):
    client.post("/password/forgotten/", {"email": address})
    form = client.get(link_in(sink), follow=True)

    answer = client.post(form.redirect_chain[-1][0], {"new_password1": "1", "new_password2": "1"})

    owner.refresh_from_db()
    assert "too short" in answer.content.decode()
    assert not owner.check_password("1")


@with_mail
def test_login_page_links_to_password_reset(client: Client, db: None):
    assert 'href="/password/forgotten/">Forgot password?' in client.get("/login/").content.decode()


def test_site_without_a_mail_server_offers_no_password_reset(client: Client, db: None):
    assert "Forgot password?" not in client.get("/login/").content.decode()
    with pytest.raises(NoReverseMatch):
        reverse("password_reset")
