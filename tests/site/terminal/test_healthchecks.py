"""The subcommand that takes over the checks of healthchecks."""

import json
from datetime import timedelta
from typing import Any

import pytest

from schedules.models import Heartbeat, Job, Profile
from schedules.services.people.profiles import profile_of
from tests.factories import JobFactory, UserFactory

FIRST, SECOND, THIRD = (f"{number}1c1b1c9-4b1c-4b8e-9f1b-1d2c3b4a5f6e" for number in (1, 2, 3))
KEY = "fqOOd6-F4MMNuCEnzTU01w"


def check(uuid: str, **fields: Any) -> dict[str, Any]:
    """A check as version 3 of the API answers it to a full key."""
    return {
        "name": "Backup",
        "slug": "backup",
        "tags": "prod  db",
        "desc": "",
        "grace": 900,
        "n_pings": 7,
        "status": "up",
        "started": False,
        "last_ping": "2026-11-18T03:00:12+00:00",
        "next_ping": "2026-11-19T03:00:00+00:00",
        "manual_resume": False,
        "methods": "",
        "subject": "",
        "uuid": uuid,
        "ping_url": f"https://hc-ping.com/{uuid}",
        "update_url": f"https://healthchecks.io/api/v3/checks/{uuid}",
        "channels": "",
        "timeout": 86400,
    } | fields


CRON = check(SECOND, name="Report", slug="report", schedule="15 5 * * 1-5", tz="Europe/Riga", status="paused")
CRON.pop("timeout")
NAMED = check(THIRD, name="Named", slug="named", ping_url=f"https://hc-ping.com/{KEY}/named", timeout=3600)


@pytest.fixture
def file(tmp_path):
    def write(*checks: dict[str, Any], **more: Any) -> str:
        path = tmp_path / "checks.json"
        path.write_text(json.dumps({"checks": list(checks), **more}))
        return str(path)

    return write


def test_checks_become_heartbeats_with_their_addresses(cronty, owner, file, client, transactional_db):
    ended = cronty("import", "healthchecks", file(check(FIRST), CRON, NAMED), "--yes")

    assert ended.code == 0, ended.err
    first, report, named = (Heartbeat.objects.get(ping_id=each).job for each in (FIRST, SECOND, THIRD))
    assert (first.name, first.every, first.kwargs, first.tags) == (
        "Backup",
        timedelta(days=1),
        {"grace": "15m", "slug": "backup"},
        ["prod", "db"],
    )
    assert (report.cron, report.timezone, report.status) == ("15 5 * * 1-5", "Europe/Riga", "paused")
    assert (named.every, named.owner) == (timedelta(hours=1), owner)
    assert Profile.objects.get(user=owner).ping_key == KEY
    assert client.get(f"/ping/{FIRST}").content == b"OK"
    assert client.get(f"/ping/{KEY}/named").content == b"OK"
    assert Heartbeat.objects.get(ping_id=THIRD).pings == 1


def test_check_shows_what_would_be_taken_over_and_changes_nothing(cronty, owner, file):
    ended = cronty("import", "healthchecks", file(check(FIRST, channels="a,b")), "--check")

    assert ended.code == 6
    assert "Backup" in ended.out
    assert "1 check, 0 not taken over" in ended.out
    assert "are not taken over" in ended.err
    assert not Job.objects.exists()


def test_import_again_changes_what_has_changed(cronty, owner, file):
    cronty("import", "healthchecks", file(check(FIRST), CRON), "--yes")
    again = cronty("import", "healthchecks", file(check(FIRST), CRON), "--yes", "--json")
    renamed = check(FIRST, name="Nightly", grace=60)
    changed = cronty("import", "healthchecks", file(renamed), "--yes", "--prune", "--json")

    assert again.json["steps"] == []
    assert [step["action"] for step in changed.json["steps"]] == ["change", "delete"]
    job = Heartbeat.objects.get(ping_id=FIRST).job
    assert (job.name, job.kwargs["grace"]) == ("Nightly", "1m")


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (check(FIRST) | {"uuid": None, "ping_url": None, "unique_key": "a6c7"}, "full one"),
        (check(FIRST, schedule="*-*-* 12:00", tz="UTC"), "its schedule"),
        (check(FIRST, schedule="0 0 * * *", tz="Moon/Sea"), "Moon/Sea"),
        (check(FIRST, grace="soon"), "its grace"),
        (check(FIRST, timeout=-1), "its timeout"),
        (check(FIRST, timeout=True), "its timeout"),
        (check(SECOND), "in the file twice"),
    ],
)
def test_check_that_cannot_be_taken_over_is_listed_and_the_others_are_taken(
    cronty, owner, file, broken, reason
):
    ended = cronty("import", "healthchecks", file(CRON, broken), "--yes")

    assert ended.code == 0
    assert "not taken over" in ended.out
    assert reason in ended.out
    assert [job.name for job in Job.objects.filter(owner=owner)] == ["Report"]


@pytest.mark.parametrize("text", ["", "[" * 100_000, '{"checks": 7}', '{"checks": [7]}', "7", '"checks"'])
def test_other_file_is_refused(cronty, owner, tmp_path, text):
    (tmp_path / "x.json").write_text(text)

    ended = cronty("import", "healthchecks", str(tmp_path / "x.json"), "--yes")

    assert ended.code != 0
    assert "/api/v3/checks/" in ended.err


def test_uuid_of_somebody_else_is_left_alone(cronty, owner, file):
    other = JobFactory(owner=UserFactory(), task="heartbeat")
    Heartbeat.objects.create(job=other, owner=other.owner, ping_id=FIRST)

    ended = cronty("import", "healthchecks", file(check(FIRST), CRON), "--yes")

    assert "another heartbeat here has its UUID" in ended.out
    assert Heartbeat.objects.get(ping_id=FIRST).job == other


def test_heartbeat_of_the_same_name_keeps_its_address(cronty, owner, file):
    mine = JobFactory(owner=owner, task="heartbeat", name="Backup")
    heartbeat = Heartbeat.objects.create(job=mine, owner=owner)

    ended = cronty("import", "healthchecks", file(check(FIRST)), "--yes")

    assert ended.code != 0
    assert "Backup" in ended.err
    assert Heartbeat.objects.get().ping_id == heartbeat.ping_id


def test_ping_key_of_ones_own_is_replaced_only_if_asked_for(cronty, owner, file):
    profile_of(owner)
    Profile.objects.filter(user=owner).update(ping_key="my-own-key")
    other = profile_of(UserFactory())
    Profile.objects.filter(pk=other.pk).update(ping_key="key-of-others")

    kept = cronty("import", "healthchecks", file(NAMED), "--yes")
    taken = cronty("import", "healthchecks", file(NAMED), "--yes", "--ping-key", "key-of-others")
    wrong = cronty("import", "healthchecks", file(NAMED), "--yes", "--ping-key", "ö")
    several = cronty(
        "import", "healthchecks", file(NAMED, check(FIRST, ping_url="https://x/another-key/backup"))
    )

    assert ["another one" in kept.err, "Somebody else" in taken.err, "8 or more" in wrong.err] == [True] * 3
    assert "several projects" in several.err
    assert not Job.objects.exists()

    assert cronty("import", "healthchecks", file(NAMED), "--yes", "--replace-ping-key").code == 0
    assert Profile.objects.get(user=owner).ping_key == KEY
