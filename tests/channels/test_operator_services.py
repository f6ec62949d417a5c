"""Services of the operator's file, sent by Apprise in a process of its own: here by a scripted module of that name."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from schedules.channels import operator_services
from schedules.channels.catalog import KINDS
from schedules.channels.message import Message
from schedules.channels.operator_services import APPRISE, catalog, send_by_apprise
from schedules.channels.sending import send
from schedules.channels.stored import find_channel
from schedules.management.doctor import host
from schedules.models import Channel, Event
from schedules.result import Err, Ok
from schedules.services import Actor
from schedules.services.people.channels import kinds_for, set_channel
from schedules.tasks.interface import Final, RetryLater
from tests.clusters import PROJECT
from tests.documented import blocks
from tests.factories import UserFactory

# Takes what goes to take://, and writes down what it was given and what it can see.
SCRIPT = """
import json, logging, os, sys
class Apprise:
    def add(self, url):
        self.url = url
        return not url.startswith("unknown://")
    def notify(self, **message):
        with open(os.path.join(os.path.dirname(__file__), "sent"), "a") as file:
            seen = {"environment": sorted(os.environ), "modules": sorted(sys.modules)}
            print(json.dumps({"url": self.url, **message, **seen}), file=file)
        if self.url.startswith("hang://"):
            import time
            time.sleep(600)
        if self.url.startswith("crash://"):
            os._exit(3)
        if self.url.startswith("refuse://"):
            logging.getLogger("apprise").warning("Failed: %s is no token", self.url.partition("://")[2])
            return False
        return True
"""
MESSAGE = Message("The disk is full.", "Disk", priority=5, click="https://cronty.example/jobs/1/")


@pytest.fixture
def apprise(tmp_path: Path, monkeypatch) -> Callable[[], list[dict[str, Any]]]:
    """Install a scripted Apprise; return what it was asked to send."""
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "apprise.py").write_text(dedent(SCRIPT))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv("CRONTY_SECRET_KEY", "not for others")

    def sent() -> list[dict[str, Any]]:
        return [json.loads(line) for line in (folder / "sent").read_text().splitlines()]

    return sent


@pytest.fixture
def file(tmp_path: Path, settings) -> Iterator[Callable[..., None]]:
    path = tmp_path / "apprise.toml"
    settings.CRONTY_APPRISE_FILE = str(path)

    def write(*urls: str) -> None:
        path.write_text(f'[oncall]\ndescription = "Pager"\nurls = {json.dumps(urls)}\n')
        catalog.refresh()

    write("take://one")
    yield write
    settings.CRONTY_APPRISE_FILE = ""
    catalog.refresh()


def send_message() -> dict[str, object]:
    return asyncio.run(send_by_apprise({"service": "oncall"}, MESSAGE))


def test_every_address_gets_the_message_in_a_process_that_knows_nothing_else(apprise, file):
    file("take://one", "take://two")

    assert send_message() == {"server": "oncall"}

    first, second = apprise()
    assert (first["url"], second["url"]) == ("take://one", "take://two")
    assert (first["title"], first["notify_type"]) == ("Disk", "warning")
    assert first["body"] == "The disk is full.\n\nOpen: https://cronty.example/jobs/1/"
    assert not [
        name for name in first["environment"] if name.startswith(("CRONTY_SECRET", "DJANGO", "DATABASE"))
    ]
    assert not {"django", "schedules"} & set(first["modules"])


def test_service_that_takes_nothing_is_tried_again_and_its_address_is_not_shown(apprise, file):
    file("refuse://tok3nxyz", "unknown://x")

    with pytest.raises(RetryLater, match="2 of 2 addresses of oncall did not take the message") as caught:
        send_message()

    assert "is no token" in str(caught.value)
    assert "tok3nxyz" not in str(caught.value)


def test_message_that_some_have_got_is_not_repeated(apprise, file):
    file("take://one", "refuse://two")

    with pytest.raises(Final, match="1 of 2 addresses"):
        send_message()


@pytest.mark.parametrize(
    ("url", "words"), [("crash://one", "ended with code 3"), ("hang://one", "did not finish within 1 s")]
)
def test_process_that_breaks_is_ended_and_tried_again(apprise, file, url, words, monkeypatch):
    monkeypatch.setattr(operator_services, "TIMEOUT_SECONDS", 1)
    file(url)

    with pytest.raises(RetryLater, match=words):
        send_message()


def test_missing_package_says_what_to_install(file, tmp_path, monkeypatch):
    # Even where it is installed.
    (tmp_path / "apprise.py").write_text("raise ImportError\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with pytest.raises(Final, match="pip install apprise"):
        send_message()


def test_service_that_is_gone_is_final(file):
    with pytest.raises(Final, match="no service other"):
        asyncio.run(send(KINDS["apprise"], {"service": "other"}, MESSAGE, run=None))  # type: ignore[arg-type]


def test_broken_file_leaves_the_last_good_one_in_force(file, settings):
    Path(settings.CRONTY_APPRISE_FILE).write_text('[oncall]\ndescription = "x"\nurls = ["no address"]\n')
    catalog.refresh()
    catalog.refresh()

    assert "write an address of Apprise" in catalog.problem
    assert list(catalog.content()) == ["oncall"]
    assert "services" in [finding.check for finding in host.examine() if finding.level == "problem"]


@pytest.mark.django_db
def test_only_staff_may_use_the_services(file):
    staff = Actor(UserFactory(is_staff=True), Event.Door.WEB)
    other = Actor(UserFactory(), Event.Door.WEB)

    assert "apprise" in kinds_for(staff)
    assert "apprise" not in kinds_for(other)
    assert isinstance(set_channel(other, "pager", "apprise", {"service": "oncall"}), Err)
    assert isinstance(set_channel(staff, "pager", "apprise", {"service": "nothing"}), Err)
    assert isinstance(set_channel(staff, "pager", "apprise", {"service": "oncall"}), Ok)
    assert not Channel.objects.filter(owner=other.user.pk).exists()


@pytest.mark.django_db(transaction=True)
def test_channel_of_somebody_who_is_no_longer_staff_sends_nothing(file):
    user = UserFactory(is_staff=True)
    set_channel(Actor(user, Event.Door.WEB), "pager", "apprise", {"service": "oncall"})
    assert asyncio.run(find_channel(user.pk, "pager")).kind is APPRISE

    user.is_staff = False
    user.save(update_fields=["is_staff"])

    with pytest.raises(Final, match="for staff only"):
        asyncio.run(find_channel(user.pk, "pager"))


def test_kind_is_not_offered_without_a_file(settings):
    settings.CRONTY_APPRISE_FILE = ""
    catalog.refresh()

    assert "apprise" not in kinds_for(Actor(UserFactory.build(is_staff=True), Event.Door.WEB))


def test_file_of_the_page_is_valid():
    (block,) = blocks("docs/how-to/channels.md", "toml")

    assert list(catalog.read(block.text)) == ["oncall"]


def test_process_needs_nothing_of_cronty():
    source = Path(operator_services.PROCESS).read_text()

    assert "schedules" not in source
    assert sys.version_info >= (3, 11), "for -P"
    assert os.path.commonpath([operator_services.PROCESS, PROJECT]) == str(PROJECT)
